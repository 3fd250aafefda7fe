#include "kernels/formats/strips/strip_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/check.h"
#include "common/status.h"
#include "kernels/quant/float16.h"

namespace lockstep::kernels {
namespace {

struct CodecShape {
  int code_bits;
  int group_columns;
  int scale_bytes;
  bool has_zeros;
};

CodecShape ShapeOf(StripCodec codec) {
  switch (codec) {
    case StripCodec::kInt4Group128:
      return {4, 128, 2, false};
    case StripCodec::kInt4Group128Zeros:
      return {4, 128, 2, true};
    case StripCodec::kInt4Group32:
      return {4, 32, 2, false};
    case StripCodec::kInt4Group32Zeros:
      return {4, 32, 2, true};
    case StripCodec::kInt8Group128:
      return {8, 128, 2, false};
    case StripCodec::kInt8Group32:
      return {8, 32, 2, false};
    case StripCodec::kFp8Group128:
      return {8, 128, 4, false};
  }
  LOCKSTEP_CHECK(false, "no such codec");
  return {};
}

int CodeBytes(const CodecShape& shape) {
  return kStripRows * kStripBlockColumns * shape.code_bits / 8;
}
// Scales of one group of all rows of a strip.
int GroupScaleBytes(const CodecShape& shape) { return kStripRows * shape.scale_bytes; }
int NumGroups(const CodecShape& shape) { return kStripBlockColumns / shape.group_columns; }

bool IsStoredExactly(const CodecShape& shape, CodeKind kind, float scale) {
  if (shape.scale_bytes == 4) return true;
  if (kind == CodeKind::kInt4) return RoundToBFloat16(scale) == scale;
  return std::isfinite(scale) && Float16ToFloat(TruncateToFloat16(scale)) == scale;
}

// The place in a block of the code of (row, column).
struct CodePlace {
  int byte;
  int shift;  // 4 bits: 0 or 4
};
CodePlace PlaceOf(const CodecShape& shape, int row, int column) {
  const int step = column / 16;
  const int in_step = column % 16;
  const int lane = row * 4 + in_step % 8 / 2;
  const int pair = in_step / 8;
  const int second = in_step % 2;
  if (shape.code_bits == 4) {
    const int bit = 4 * (step % 2 * 2 + pair) + 16 * second;
    return {(lane * 4 + step / 2) * 4 + bit / 8, bit % 8};
  }
  return {(step / 4 * 32 + lane) * 16 + step % 4 * 4 + 2 * pair + second, 0};
}

class StripPacker {
 public:
  StripPacker(const QuantizedMatrix& matrix, PackedStrips* packed)
      : matrix_(matrix), packed_(*packed), shape_(ShapeOf(packed->matrix.codec)) {}

  void Pack() {
    const StripMatrix& strips = packed_.matrix;
    const int64_t block_bytes = StripBlockBytes(strips.codec);
    for (int64_t strip = 0; strip < strips.num_strips(); ++strip) {
      for (int64_t i = 0; i < strips.num_blocks(); ++i) {
        std::byte* const block = packed_.storage.data() + strips.BlockIndex(strip, i) * block_bytes;
        for (int row = 0; row < kStripRows; ++row) PackRow(strip, i, row, block);
      }
    }
  }

 private:
  uint8_t Zero(int64_t row, int64_t column) const {
    if (row < matrix_.n && !matrix_.zeros.empty()) return matrix_.zeros[GroupIndex(row, column)];
    return MiddleCode(matrix_.kind);
  }
  // Columns beyond the matrix belong to the last group.
  size_t GroupIndex(int64_t row, int64_t column) const {
    const int64_t group = std::min(column, matrix_.k - 1) / matrix_.group_columns;
    return static_cast<size_t>(row * matrix_.num_groups() + group);
  }

  void PackRow(int64_t strip, int64_t block_index, int row, std::byte* block) const {
    const int64_t matrix_row = strip * kStripRows + row;
    const int64_t first_column = block_index * kStripBlockColumns;
    for (int column = 0; column < kStripBlockColumns; ++column) {
      const int64_t matrix_column = first_column + column;
      const bool exists = matrix_row < matrix_.n && matrix_column < matrix_.k;
      // What does not exist has the zero point as its code.
      const uint8_t code =
          exists ? matrix_.codes[static_cast<size_t>(matrix_row * matrix_.k + matrix_column)]
                 : Zero(matrix_row, matrix_column);
      const CodePlace place = PlaceOf(shape_, row, column);
      block[place.byte] |= static_cast<std::byte>(code << place.shift);
    }
    for (int group = 0; group < NumGroups(shape_); ++group) {
      PackGroup(matrix_row, first_column + int64_t{group} * shape_.group_columns, row,
                block + CodeBytes(shape_), group);
    }
  }

  void PackGroup(int64_t matrix_row, int64_t column, int row, std::byte* scales, int group) const {
    const float scale =
        matrix_row < matrix_.n ? matrix_.scales[GroupIndex(matrix_row, column)] : 0.0f;
    const int place = group * kStripRows + row;
    std::byte* const at = scales + place * shape_.scale_bytes;
    if (shape_.scale_bytes == 4) {
      std::memcpy(at, &scale, sizeof(scale));
      return;
    }
    // Exact: ChooseStripCodec has looked at every scale.
    const bool is_half = matrix_.kind == CodeKind::kInt8;
    uint16_t bits = is_half ? TruncateToFloat16(scale) : ToBFloat16(scale).bits;
    std::memcpy(at, &bits, sizeof(bits));
    if (!shape_.has_zeros) return;
    const float zero = 128.0f + static_cast<float>(Zero(matrix_row, column));
    bits = ToBFloat16(zero).bits;
    std::memcpy(scales + NumGroups(shape_) * GroupScaleBytes(shape_) + place * 2, &bits,
                sizeof(bits));
  }

  const QuantizedMatrix& matrix_;
  PackedStrips& packed_;
  CodecShape shape_;
};

StripCodec CodecOf(CodeKind kind, bool has_zeros, bool groups_of_128) {
  switch (kind) {
    case CodeKind::kInt4:
      if (has_zeros) {
        return groups_of_128 ? StripCodec::kInt4Group128Zeros : StripCodec::kInt4Group32Zeros;
      }
      return groups_of_128 ? StripCodec::kInt4Group128 : StripCodec::kInt4Group32;
    case CodeKind::kInt8:
      return groups_of_128 ? StripCodec::kInt8Group128 : StripCodec::kInt8Group32;
    default:
      return StripCodec::kFp8Group128;
  }
}

}  // namespace

int64_t StripBlockBytes(StripCodec codec) {
  const CodecShape shape = ShapeOf(codec);
  const int group_bytes = GroupScaleBytes(shape) + (shape.has_zeros ? kStripRows * 2 : 0);
  return CodeBytes(shape) + NumGroups(shape) * group_bytes;
}

const char* StripCodecName(StripCodec codec) {
  switch (codec) {
    case StripCodec::kInt4Group128:
      return "int4 g128";
    case StripCodec::kInt4Group128Zeros:
      return "int4 g128 with zero points";
    case StripCodec::kInt4Group32:
      return "int4 g32";
    case StripCodec::kInt4Group32Zeros:
      return "int4 g32 with zero points";
    case StripCodec::kInt8Group128:
      return "int8 g128";
    case StripCodec::kInt8Group32:
      return "int8 g32";
    case StripCodec::kFp8Group128:
      return "fp8 g128";
  }
  return "?";
}

absl::StatusOr<StripCodec> ChooseStripCodec(const QuantizedMatrix& matrix) {
  if (matrix.kind == CodeKind::kFp4E2M1) {
    return InvalidArgument("fp4 codes; the kernels have none for them");
  }
  if (!matrix.has_contiguous_groups()) {
    return InvalidArgument(
        "groups whose columns are not neighbours; the kernels have none for them");
  }
  const bool one_group = matrix.group_columns >= matrix.k;
  const bool groups_of_128 = one_group || matrix.group_columns % 128 == 0;
  if (!groups_of_128 && matrix.group_columns % 32 != 0) {
    return InvalidArgument("groups of {} columns; the kernels take multiples of 32",
                           matrix.group_columns);
  }
  if (matrix.kind == CodeKind::kFp8E4M3 && !groups_of_128) {
    return InvalidArgument("fp8 with groups of {} columns; the kernels take multiples of 128",
                           matrix.group_columns);
  }
  if (matrix.kind != CodeKind::kInt4 && !matrix.zeros.empty()) {
    return InvalidArgument("8-bit codes with zero points; the kernels have none for them");
  }
  const StripCodec codec = CodecOf(matrix.kind, !matrix.zeros.empty(), groups_of_128);
  const CodecShape shape = ShapeOf(codec);
  const auto lossy = std::find_if(matrix.scales.begin(), matrix.scales.end(), [&](float scale) {
    return !IsStoredExactly(shape, matrix.kind, scale);
  });
  if (lossy != matrix.scales.end()) {
    return InvalidArgument("the scale {} of group {} of row {} has no exact value in {}", *lossy,
                           (lossy - matrix.scales.begin()) % matrix.num_groups(),
                           (lossy - matrix.scales.begin()) / matrix.num_groups(),
                           matrix.kind == CodeKind::kInt4 ? "bf16" : "fp16");
  }
  return codec;
}

absl::StatusOr<PackedStrips> PackStrips(const QuantizedMatrix& matrix) {
  PackedStrips packed;
  LOCKSTEP_ASSIGN_OR_RETURN(packed.matrix.codec, ChooseStripCodec(matrix));
  packed.matrix.n = matrix.n;
  packed.matrix.k = matrix.k;
  packed.storage.resize(static_cast<size_t>(packed.matrix.num_bytes()));
  StripPacker(matrix, &packed).Pack();
  return packed;
}

}  // namespace lockstep::kernels
