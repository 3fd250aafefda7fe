#include <algorithm>
#include <optional>

#include "common/model_files/gguf_parser.h"
#include "common/shown_text.h"
#include "common/status.h"

namespace lockstep {
namespace {

constexpr uint64_t kMaxNameBytes = 255;
constexpr uint32_t kMaxDimensions = 4;

// A tensor entry without the location of its data yet.
struct TensorInfo {
  GgufTensor tensor;
  uint64_t num_bytes = 0;
  uint64_t offset = 0;  // into the data section
};

// Innermost dimension first, as in the file. `name`: as messages show it.
absl::StatusOr<std::vector<uint64_t>> ReadDimensions(GgufCursor& cursor, std::string_view name) {
  const size_t at = cursor.offset();
  const std::string what = fmt::format("the shape of {}", name);
  LOCKSTEP_ASSIGN_OR_RETURN(const uint32_t num_dimensions, cursor.Read<uint32_t>(what));
  if (num_dimensions == 0 || num_dimensions > kMaxDimensions) {
    return cursor.Error(at, "tensor {} has {} dimensions, expected 1 to {}", name, num_dimensions,
                        kMaxDimensions);
  }
  std::vector<uint64_t> dimensions(num_dimensions);
  for (uint64_t& size : dimensions) {
    LOCKSTEP_ASSIGN_OR_RETURN(size, cursor.Read<uint64_t>(what));
    if (size == 0) return cursor.Error(at, "tensor {} has a dimension of 0", name);
  }
  return dimensions;
}

absl::StatusOr<GgmlType> ReadType(GgufCursor& cursor, std::string_view name,
                                  uint64_t row_elements) {
  const size_t at = cursor.offset();
  LOCKSTEP_ASSIGN_OR_RETURN(const uint32_t number,
                            cursor.Read<uint32_t>(fmt::format("the type of {}", name)));
  const auto type = static_cast<GgmlType>(number);
  const std::optional<GgmlBlockSize> block = GgmlTypeBlockSize(type);
  if (!block) {
    return cursor.Error(at, "tensor {} has {}, which is not known", name, GgmlTypeName(type));
  }
  if (row_elements % block->num_elements != 0) {
    return cursor.Error(at, "tensor {} has rows of {} elements, but {} needs a multiple of {}",
                        name, row_elements, GgmlTypeName(type), block->num_elements);
  }
  return type;
}

// nullopt if it does not fit in 64 bits.
std::optional<uint64_t> SizeInBytes(GgmlType type, const std::vector<uint64_t>& dimensions) {
  const GgmlBlockSize block = *GgmlTypeBlockSize(type);
  uint64_t num_bytes = block.num_bytes;
  bool overflows =
      __builtin_mul_overflow(num_bytes, dimensions.front() / block.num_elements, &num_bytes);
  for (size_t i = 1; i < dimensions.size(); ++i) {
    overflows = __builtin_mul_overflow(num_bytes, dimensions[i], &num_bytes) || overflows;
  }
  if (overflows) return std::nullopt;
  return num_bytes;
}

absl::StatusOr<TensorInfo> ReadTensorInfo(GgufCursor& cursor) {
  TensorInfo info;
  const size_t at = cursor.offset();
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view name,
                            cursor.ReadString("a tensor name", kMaxNameBytes));
  if (name.empty()) return cursor.Error(at, "a tensor has an empty name");
  const std::string shown = ShownName(name);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<uint64_t> dimensions, ReadDimensions(cursor, shown));
  LOCKSTEP_ASSIGN_OR_RETURN(info.tensor.type, ReadType(cursor, shown, dimensions.front()));
  LOCKSTEP_ASSIGN_OR_RETURN(info.offset,
                            cursor.Read<uint64_t>(fmt::format("the offset of {}", shown)));
  const std::optional<uint64_t> num_bytes = SizeInBytes(info.tensor.type, dimensions);
  if (!num_bytes) return cursor.Error(at, "the size of tensor {} does not fit in 64 bits", shown);
  info.num_bytes = *num_bytes;
  info.tensor.name = name;
  info.tensor.shape.assign(dimensions.rbegin(), dimensions.rend());
  return info;
}

// Checks that the tensors lie in the data section, aligned and without overlaps, and sets their
// spans.
absl::Status LocateData(const GgufCursor& cursor, uint64_t alignment,
                        std::vector<TensorInfo>* infos) {
  const std::span<const std::byte> bytes = cursor.bytes();
  const uint64_t padded = (cursor.offset() + alignment - 1) / alignment * alignment;
  const uint64_t data_start = std::min<uint64_t>(padded, bytes.size());
  const uint64_t data_bytes = bytes.size() - data_start;
  std::sort(infos->begin(), infos->end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.offset < b.offset; });
  const TensorInfo* previous = nullptr;
  for (TensorInfo& info : *infos) {
    const auto name = [&info] { return ShownName(info.tensor.name); };
    if (info.offset % alignment != 0) {
      return InvalidArgument("{}: tensor {} has data offset {}, expected a multiple of {}",
                             cursor.name(), name(), info.offset, alignment);
    }
    if (info.offset > data_bytes || info.num_bytes > data_bytes - info.offset) {
      return InvalidArgument(
          "{}: tensor {} needs {} bytes at data offset {}, but the data section (at offset {}) has "
          "{}: the file may be cut off",
          cursor.name(), name(), info.num_bytes, info.offset, data_start, data_bytes);
    }
    if (previous != nullptr && info.offset < previous->offset + previous->num_bytes) {
      return InvalidArgument("{}: tensors {} and {} overlap at data offset {}", cursor.name(),
                             ShownName(previous->tensor.name), name(), info.offset);
    }
    info.tensor.data = bytes.subspan(data_start + info.offset, info.num_bytes);
    previous = &info;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<GgufTensor>> ParseGgufTensors(GgufCursor& cursor, uint64_t num_tensors,
                                                         uint64_t alignment) {
  std::vector<TensorInfo> infos;
  infos.reserve(num_tensors);
  for (uint64_t i = 0; i < num_tensors; ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(TensorInfo info, ReadTensorInfo(cursor));
    infos.push_back(std::move(info));
  }
  LOCKSTEP_RETURN_IF_ERROR(LocateData(cursor, alignment, &infos));
  std::vector<GgufTensor> tensors;
  tensors.reserve(infos.size());
  for (TensorInfo& info : infos) tensors.push_back(std::move(info.tensor));
  std::sort(tensors.begin(), tensors.end(),
            [](const GgufTensor& a, const GgufTensor& b) { return a.name < b.name; });
  const auto twin =
      std::adjacent_find(tensors.begin(), tensors.end(),
                         [](const GgufTensor& a, const GgufTensor& b) { return a.name == b.name; });
  if (twin != tensors.end()) {
    return InvalidArgument("{}: tensor {} is present twice", cursor.name(), ShownName(twin->name));
  }
  return tensors;
}

}  // namespace lockstep
