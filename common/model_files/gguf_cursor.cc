#include "common/model_files/gguf_cursor.h"

#include <bit>

namespace lockstep {

static_assert(std::endian::native == std::endian::little, "GGUF fields are read as they lie");

absl::StatusOr<bool> GgufCursor::ReadBool(std::string_view what) {
  const size_t at = offset_;
  LOCKSTEP_ASSIGN_OR_RETURN(const uint8_t value, Read<uint8_t>(what));
  if (value > 1) return Error(at, "{} is {}, expected a bool, 0 or 1", what, value);
  return value == 1;
}

absl::StatusOr<uint64_t> GgufCursor::ReadCount(std::string_view what, uint64_t min_bytes,
                                               uint64_t max_count) {
  const size_t at = offset_;
  LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t count, Read<uint64_t>(what));
  if (count > max_count) return Error(at, "{} is {}, expected at most {}", what, count, max_count);
  if (count > remaining() / min_bytes) {
    return Error(at, "{} is {}, more than the {} bytes left can hold", what, count, remaining());
  }
  return count;
}

absl::StatusOr<std::string_view> GgufCursor::ReadString(std::string_view what, uint64_t max_bytes) {
  const size_t at = offset_;
  LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t length, Read<uint64_t>(what));
  if (length > remaining()) {
    return Error(at, "{} has length {}, but {} bytes are left", what, length, remaining());
  }
  if (length > max_bytes) {
    return Error(at, "{} has length {}, expected at most {}", what, length, max_bytes);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::span<const std::byte> text, ReadBytes(what, length));
  return std::string_view(reinterpret_cast<const char*>(text.data()), text.size());
}

absl::StatusOr<std::span<const std::byte>> GgufCursor::ReadBytes(std::string_view what,
                                                                 uint64_t num_bytes) {
  if (num_bytes > remaining()) return EndOfFile(what, num_bytes);
  const std::span<const std::byte> taken = bytes_.subspan(offset_, num_bytes);
  offset_ += num_bytes;
  return taken;
}

absl::Status GgufCursor::EndOfFile(std::string_view what, uint64_t num_bytes) const {
  return Error(offset_, "the file ends in {} (needs {} bytes, {} are left)", what, num_bytes,
               remaining());
}

}  // namespace lockstep
