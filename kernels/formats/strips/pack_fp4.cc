#include "kernels/formats/strips/pack_fp4.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/formats/strips/fp4/nvfp4_rows.h"

namespace lockstep::kernels {
namespace {

constexpr uint8_t kSign = 8;  // of a code

uint8_t EncodeE8M0(float scale) { return static_cast<uint8_t>(std::ilogb(scale) + 127); }

class Fp4Packer {
 public:
  Fp4Packer(const QuantizedMatrix& matrix, const StripMatrix& strips, std::span<std::byte> storage)
      : matrix_(matrix),
        strips_(strips),
        shape_(ShapeOfStripCodec(strips.codec)),
        storage_(storage) {}

  // Rows and groups beyond the matrix keep codes of zero, and scales that are numbers.
  void PackRow(int64_t row) {
    if (strips_.codec == StripCodec::kNvfp4) PackRowScales(row);
    for (int64_t column = 0; column < matrix_.k; column += shape_.group_columns) {
      PackGroup(row, column, std::min(column + shape_.group_columns, matrix_.k));
    }
  }

 private:
  std::byte* BlockOf(int64_t row, int64_t column) const {
    const int64_t index = strips_.BlockIndex(row / kStripRows, column / kStripBlockColumns);
    return storage_.data() + index * shape_.block_bytes();
  }

  float ScaleOfRow(int64_t row) const { return matrix_.block_scales[static_cast<size_t>(row)]; }

  // If all groups of a row are zero, it may have any scale, and needs none.
  void PackRowScales(int64_t row) {
    const auto first = matrix_.scales.begin() + row * matrix_.num_groups();
    row_ = {};
    if (std::all_of(first, first + matrix_.num_groups(), [](float s) { return s == 0; })) return;
    float scales[8];
    for (int i = 0; i < 8; ++i) {
      scales[i] = matrix_.CombineScales(1.0f + 0.125f * static_cast<float>(i), ScaleOfRow(row));
    }
    row_ = PackNvfp4Row(scales);
    const Nvfp4Row& packed = row_.row;
    static_assert(offsetof(Nvfp4Row, lo_bytes) == 8 && offsetof(Nvfp4Row, upper_bytes) == 16);
    std::byte* const rows = storage_.data() + strips_.blocks_bytes();
    std::memcpy(rows + row * 16, packed.hi_bytes, 16);
    std::memcpy(rows + strips_.num_rows() * 16 + row * 4, &packed.upper_bytes, 4);
  }

  void PackGroup(int64_t row, int64_t first_column, int64_t end_column) const {
    const int64_t group = first_column / matrix_.group_columns;
    const float scale = matrix_.scales[static_cast<size_t>(row * matrix_.num_groups() + group)];
    const int in_strip = static_cast<int>(row % kStripRows);
    std::byte* const block = BlockOf(row, first_column);
    // -v * s and v * -s are the same, for v of zero as well.
    const uint8_t sign = std::signbit(scale) ? kSign : 0;
    const uint8_t kept = scale == 0 ? kSign : 0xF;
    for (int64_t column = first_column; column < end_column; ++column) {
      const uint8_t code = matrix_.codes[static_cast<size_t>(row * matrix_.k + column)];
      PackCode(in_strip, static_cast<int>(column % kStripBlockColumns),
               static_cast<uint8_t>((code ^ sign) & kept), block);
    }
    if (scale != 0) PackScale(in_strip, first_column, std::fabs(scale), block);
  }

  static void PackCode(int row, int column, uint8_t code, std::byte* block) {
    for (int bit = 0; bit < 4; ++bit) {
      const Fp4BitPlace place = PlaceOfFp4Bit(row, column, bit);
      block[place.byte] |= static_cast<std::byte>((code >> bit & 1) << place.shift);
    }
  }

  void PackScale(int row, int64_t column, float scale, std::byte* block) const {
    const int groups = shape_.num_groups();
    const int group = static_cast<int>(column % kStripBlockColumns) / shape_.group_columns;
    std::byte* const scales = block + shape_.code_bytes() + row * groups;
    if (strips_.codec == StripCodec::kMxfp4) {
      scales[group] = std::byte{EncodeE8M0(scale)};
    } else {
      scales[group % 4 * 2 + group / 4] = std::byte{EncodeNvfp4Scale(scale, row_.exponent_offset)};
    }
  }

  const QuantizedMatrix& matrix_;
  const StripMatrix& strips_;
  StripCodecShape shape_;
  std::span<std::byte> storage_;
  PackedNvfp4Row row_;  // of the present row
};

}  // namespace

void PackFp4Strips(const QuantizedMatrix& matrix, const StripMatrix& strips,
                   std::span<std::byte> storage) {
  Fp4Packer packer(matrix, strips, storage);
  for (int64_t row = 0; row < matrix.n; ++row) packer.PackRow(row);
}

}  // namespace lockstep::kernels
