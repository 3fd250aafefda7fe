#include "kernels/formats/strips/strip_matrix.h"

#include <algorithm>
#include <cstring>

#include "common/check.h"
#include "common/status.h"
#include "kernels/core/bfloat16.h"
#include "kernels/formats/strips/choose_strip_codec.h"
#include "kernels/formats/strips/pack_fp4.h"
#include "kernels/quant/float16.h"

namespace lockstep::kernels {
namespace {

constexpr float kSignedScaleOffset = 128.0f;  // of Q6_K

template <typename T>
void Store(const T& value, std::byte* at) {
  std::memcpy(at, &value, sizeof(value));
}

class StripPacker {
 public:
  StripPacker(const QuantizedMatrix& matrix, PackedStrips* packed)
      : matrix_(matrix), packed_(*packed), shape_(ShapeOfStripCodec(packed->matrix.codec)) {}

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
  int64_t GroupOf(int64_t column) const { return column / matrix_.group_columns; }
  // Columns beyond the matrix belong to the last group.
  size_t GroupIndex(int64_t row, int64_t column) const {
    const int64_t group = GroupOf(std::min(column, matrix_.k - 1));
    return static_cast<size_t>(row * matrix_.num_groups() + group);
  }
  bool Exists(int64_t row, int64_t column) const { return row < matrix_.n && column < matrix_.k; }

  void PackRow(int64_t strip, int64_t block_index, int row, std::byte* block) const {
    const int64_t matrix_row = strip * kStripRows + row;
    const int64_t first_column = block_index * kStripBlockColumns;
    for (int column = 0; column < kStripBlockColumns; ++column) {
      const int64_t matrix_column = first_column + column;
      // What does not exist has the zero point as its code.
      const uint8_t code =
          Exists(matrix_row, matrix_column)
              ? matrix_.codes[static_cast<size_t>(matrix_row * matrix_.k + matrix_column)]
              : Zero(matrix_row, matrix_column);
      PackCode(PlaceOfStripCode(shape_, row, column), code, block);
    }
    std::byte* const scales = block + shape_.code_bytes();
    for (int group = 0; group < shape_.num_groups(); ++group) {
      const int64_t column = first_column + int64_t{group} * shape_.group_columns;
      if (shape_.is_gguf) {
        PackGgufGroup(matrix_row, column, row * shape_.num_groups() + group, scales);
      } else {
        PackGroup(matrix_row, column, group * kStripRows + row, scales);
      }
    }
    if (shape_.has_two_levels()) {
      PackSecondLevel(matrix_row, first_column, row, scales + shape_.group_bytes());
    }
  }

  void PackCode(const StripCodePlace& place, uint8_t code, std::byte* block) const {
    if (shape_.code_bits == 8) {
      block[place.byte] = std::byte{code};
      return;
    }
    block[place.byte] |= static_cast<std::byte>((code & 0xF) << place.shift);
    if (shape_.code_bits > 4) {
      block[place.high_byte] |= static_cast<std::byte>(code >> 4 << place.high_shift);
    }
  }

  // Exact: ChooseStripCodec has looked at every scale.
  void PackGroup(int64_t matrix_row, int64_t column, int place, std::byte* scales) const {
    const float scale =
        matrix_row < matrix_.n ? matrix_.scales[GroupIndex(matrix_row, column)] : 0.0f;
    StoreScale(scale, scales + place * shape_.scale_bytes());
    if (!shape_.has_zeros) return;
    const uint8_t zero = Zero(matrix_row, column);
    const int scale_bytes = kStripRows * shape_.num_groups() * shape_.scale_bytes();
    const uint16_t stored =
        shape_.code_bits == 8 ? zero : ToBFloat16(128.0f + static_cast<float>(zero)).bits;
    Store(stored, scales + scale_bytes + place * 2);
  }

  // Groups beyond the matrix have the scale 0 and the minimum 0.
  void PackGgufGroup(int64_t matrix_row, int64_t column, int place, std::byte* scales) const {
    const bool exists = Exists(matrix_row, column);
    const int scale_bytes = shape_.scale_bytes();
    std::byte* const at = scales + place * scale_bytes * (shape_.has_minima ? 2 : 1);
    const size_t index = exists ? GroupIndex(matrix_row, column) : 0;
    StoreScale(exists ? matrix_.scales[index] : 0.0f, at);
    if (shape_.has_minima) StoreScale(exists ? matrix_.minima[index] : 0.0f, at + scale_bytes);
  }

  void PackSecondLevel(int64_t matrix_row, int64_t column, int row, std::byte* level) const {
    if (!Exists(matrix_row, column)) return;  // 0
    const size_t index = matrix_.ScaleBlockIndex(matrix_row, GroupOf(column));
    std::byte* const at = level + row * (shape_.has_minima ? 4 : 2);
    Store(TruncateToFloat16(matrix_.block_scales[index]), at);
    if (shape_.has_minima) Store(TruncateToFloat16(matrix_.block_minima[index]), at + 2);
  }

  void StoreScale(float scale, std::byte* at) const {
    switch (shape_.scales) {
      case StripScales::kBFloat16:
        return Store(ToBFloat16(scale).bits, at);
      case StripScales::kFloat16:
        return Store(TruncateToFloat16(scale), at);
      case StripScales::kFloat32:
        return Store(scale, at);
      case StripScales::kByte:
        if (!shape_.has_minima) scale += kSignedScaleOffset;
        return Store(static_cast<uint8_t>(scale), at);
      case StripScales::kE8M0:
      case StripScales::kNvfp4:
        LOCKSTEP_CHECK(false, "pack_fp4.h packs FP4");
    }
  }

  const QuantizedMatrix& matrix_;
  PackedStrips& packed_;
  StripCodecShape shape_;
};

}  // namespace

absl::StatusOr<PackedStrips> PackStrips(const QuantizedMatrix& matrix) {
  PackedStrips packed;
  LOCKSTEP_ASSIGN_OR_RETURN(packed.matrix.codec, ChooseStripCodec(matrix));
  packed.matrix.n = matrix.n;
  packed.matrix.k = matrix.k;
  packed.storage.resize(static_cast<size_t>(packed.matrix.num_bytes()));
  if (ShapeOfStripCodec(packed.matrix.codec).is_fp4()) {
    PackFp4Strips(matrix, packed.matrix, packed.storage);
  } else {
    StripPacker(matrix, &packed).Pack();
  }
  return packed;
}

}  // namespace lockstep::kernels
