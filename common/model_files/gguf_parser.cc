#include "common/model_files/gguf_parser.h"

#include <bit>
#include <cstring>
#include <variant>

#include "common/status.h"

namespace lockstep {
namespace {

// Far above any real file: a bad count must not cause a large allocation.
constexpr uint64_t kMaxMetadataEntries = 1 << 16;
constexpr uint64_t kMaxTensors = 1 << 18;
// A length, one byte of name, the number of dimensions, one dimension, a type, an offset.
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;
// A length, one byte of key, a type, one byte of value.
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = 1 << 20;

struct Header {
  uint64_t num_tensors;
  uint64_t num_metadata_entries;
};

absl::StatusOr<Header> ParseHeader(GgufCursor& cursor) {
  const std::span<const std::byte> bytes = cursor.bytes();
  if (bytes.size() < kGgufMagic.size() ||
      std::memcmp(bytes.data(), kGgufMagic.data(), kGgufMagic.size()) != 0) {
    LOCKSTEP_RETURN_IF_ERROR(RefuseOtherKinds(bytes, cursor.name(), "a GGUF file"));
    return cursor.Error(0, "not a GGUF file: expected the four bytes \"GGUF\"");
  }
  LOCKSTEP_RETURN_IF_ERROR(cursor.ReadBytes("the magic number", kGgufMagic.size()).status());
  LOCKSTEP_ASSIGN_OR_RETURN(const uint32_t version, cursor.Read<uint32_t>("the version"));
  if (version != 2 && version != 3) {
    const bool big_endian = version != 0 && (version & 0xffff) == 0;
    return cursor.Error(kGgufMagic.size(), "GGUF version {}, expected 2 or 3{}", version,
                        big_endian ? " (a big-endian file?)" : "");
  }
  Header header;
  LOCKSTEP_ASSIGN_OR_RETURN(
      header.num_tensors, cursor.ReadCount("the number of tensors", kMinTensorBytes, kMaxTensors));
  LOCKSTEP_ASSIGN_OR_RETURN(
      header.num_metadata_entries,
      cursor.ReadCount("the number of metadata entries", kMinEntryBytes, kMaxMetadataEntries));
  return header;
}

absl::StatusOr<uint64_t> FindAlignment(const std::vector<GgufEntry>& entries,
                                       const std::string& name) {
  for (const auto& [key, value] : entries) {
    if (key != "general.alignment") continue;
    const uint64_t* alignment = std::get_if<uint64_t>(&value);
    if (alignment == nullptr || !std::has_single_bit(*alignment) || *alignment < 8 ||
        *alignment > kMaxAlignment) {
      return InvalidArgument("{}: general.alignment is not a power of two from 8 to {}", name,
                             kMaxAlignment);
    }
    return *alignment;
  }
  return kDefaultAlignment;
}

}  // namespace

absl::StatusOr<GgufContents> ParseGguf(std::span<const std::byte> bytes, const std::string& name) {
  GgufContents contents;
  GgufCursor cursor(bytes, name);
  LOCKSTEP_ASSIGN_OR_RETURN(const Header header, ParseHeader(cursor));
  LOCKSTEP_ASSIGN_OR_RETURN(contents.metadata,
                            ParseGgufMetadata(cursor, header.num_metadata_entries));
  LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t alignment, FindAlignment(contents.metadata, name));
  LOCKSTEP_ASSIGN_OR_RETURN(contents.tensors,
                            ParseGgufTensors(cursor, header.num_tensors, alignment));
  return contents;
}

}  // namespace lockstep
