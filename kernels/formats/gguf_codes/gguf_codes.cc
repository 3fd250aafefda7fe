#include "kernels/formats/gguf_codes/gguf_codes.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "common/status.h"
#include "kernels/formats/tensors/tensor_checks.h"
#include "kernels/quant/gguf_blocks.h"

namespace lockstep::kernels {
namespace {

// What a block type is made of. Kind, group and levels are those of the matrix.
struct GgufCodeShape {
  CodeKind kind;
  int64_t group_columns;
  bool has_two_levels = false;
};

// A block's scale and minimum. The others of its groups are written by ReadBlock.
struct BlockScales {
  float scale;
  float minimum = 0.0f;
};

// ReadBlock: the codes of one block to `codes`, the small scales and minima of its groups to the
// matrix.
BlockScales ReadBlock(const BlockQ8_0& block, uint8_t* codes, QuantizedMatrix*) {
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(block.quants[i]) ^ 0x80u;
  return {block.scale.value()};
}

// Element i of 2 * count has the low half of byte i, element i + count the high half.
void ReadNibbles(const uint8_t* bytes, int count, uint8_t* codes) {
  for (int i = 0; i < count; ++i) {
    codes[i] = bytes[i] & 0xF;
    codes[i + count] = bytes[i] >> 4;
  }
}

void AddFifthBits(const uint8_t (&bits)[4], uint8_t* codes) {
  for (int i = 0; i < 32; ++i) {
    codes[i] |= static_cast<uint8_t>((bits[i / 8] >> i % 8 & 1) << 4);
  }
}

BlockScales ReadBlock(const BlockQ4_0& block, uint8_t* codes, QuantizedMatrix*) {
  ReadNibbles(block.quants, 16, codes);
  return {block.scale.value()};
}

BlockScales ReadBlock(const BlockQ4_1& block, uint8_t* codes, QuantizedMatrix*) {
  ReadNibbles(block.quants, 16, codes);
  return {block.scale.value(), -block.minimum.value()};
}

BlockScales ReadBlock(const BlockQ5_0& block, uint8_t* codes, QuantizedMatrix*) {
  ReadNibbles(block.quants, 16, codes);
  AddFifthBits(block.fifth_bits, codes);
  return {block.scale.value()};
}

BlockScales ReadBlock(const BlockQ5_1& block, uint8_t* codes, QuantizedMatrix*) {
  ReadNibbles(block.quants, 16, codes);
  AddFifthBits(block.fifth_bits, codes);
  return {block.scale.value(), -block.minimum.value()};
}

void ReadSubBlocks(const uint8_t (&packed)[12], QuantizedMatrix* matrix) {
  for (int i = 0; i < 8; ++i) {
    const SubBlockBits bits = UnpackSubBlock(packed, i);
    matrix->scales.push_back(bits.scale);
    matrix->minima.push_back(bits.minimum);
  }
}

BlockScales ReadBlock(const BlockQ4_K& block, uint8_t* codes, QuantizedMatrix* matrix) {
  for (int pair = 0; pair < 4; ++pair) ReadNibbles(block.quants + 32 * pair, 32, codes + 64 * pair);
  ReadSubBlocks(block.packed_scales, matrix);
  return {block.scale.value(), block.minimum.value()};
}

BlockScales ReadBlock(const BlockQ5_K& block, uint8_t* codes, QuantizedMatrix* matrix) {
  for (int pair = 0; pair < 4; ++pair) ReadNibbles(block.quants + 32 * pair, 32, codes + 64 * pair);
  for (int i = 0; i < 256; ++i) {
    codes[i] |= static_cast<uint8_t>((block.fifth_bits[i % 32] >> i / 32 & 1) << 4);
  }
  ReadSubBlocks(block.packed_scales, matrix);
  return {block.scale.value(), block.minimum.value()};
}

BlockScales ReadBlock(const BlockQ6_K& block, uint8_t* codes, QuantizedMatrix* matrix) {
  for (int half = 0; half < 2; ++half) {
    uint8_t* const first = codes + 128 * half;
    ReadNibbles(block.low_bits + 64 * half, 64, first);
    for (int i = 0; i < 128; ++i) {
      const int high = block.high_bits[32 * half + i % 32] >> (2 * (i / 32)) & 3;
      first[i] |= static_cast<uint8_t>(high << 4);
    }
  }
  for (const int8_t scale : block.scales) matrix->scales.push_back(scale);
  return {block.scale.value()};
}

template <typename Block>
absl::StatusOr<QuantizedMatrix> DecodeBlocks(const GgufTensor& tensor, const GgufCodeShape& code) {
  static_assert(alignof(Block) == 1);
  constexpr int64_t kColumns = Block::kNumElements;
  const auto& shape = tensor.shape;
  const bool is_matrix = shape.size() == 2 && shape[0] > 0 && shape[1] > 0 &&
                         shape[1] % kColumns == 0 &&
                         shape[0] <= static_cast<uint64_t>(kMaxMatrixElements) / shape[1];
  if (!is_matrix || tensor.data.size() != shape[0] * (shape[1] / kColumns) * sizeof(Block)) {
    return InvalidArgument("tensor {}: expected a matrix with columns in multiples of {}",
                           tensor.name, kColumns);
  }
  QuantizedMatrix matrix;
  matrix.kind = code.kind;
  matrix.n = static_cast<int64_t>(shape[0]);
  matrix.k = static_cast<int64_t>(shape[1]);
  matrix.group_columns = code.group_columns;
  if (code.has_two_levels) matrix.block_columns = kColumns;
  matrix.codes.resize(static_cast<size_t>(matrix.n * matrix.k));
  std::vector<float>& scales = code.has_two_levels ? matrix.block_scales : matrix.scales;
  std::vector<float>& minima = code.has_two_levels ? matrix.block_minima : matrix.minima;
  const auto* const blocks = reinterpret_cast<const Block*>(tensor.data.data());
  const int64_t blocks_of_row = matrix.k / kColumns;
  for (int64_t i = 0; i < matrix.n * blocks_of_row; ++i) {
    const BlockScales read = ReadBlock(blocks[i], matrix.codes.data() + i * kColumns, &matrix);
    if (!std::isfinite(read.scale) || !std::isfinite(read.minimum)) {
      const bool is_scale = !std::isfinite(read.scale);
      return InvalidArgument("tensor {}: the {} of row {}, block {} is {}", tensor.name,
                             is_scale ? "scale" : "minimum", i / blocks_of_row, i % blocks_of_row,
                             is_scale ? read.scale : read.minimum);
    }
    scales.push_back(read.scale);
    if (HasMinimum(code.kind)) minima.push_back(read.minimum);
  }
  return Finish(tensor.name, std::move(matrix));
}

}  // namespace

bool HasCodes(GgmlType type) {
  switch (type) {
    case GgmlType::kQ8_0:
    case GgmlType::kQ4_0:
    case GgmlType::kQ4_1:
    case GgmlType::kQ5_0:
    case GgmlType::kQ5_1:
    case GgmlType::kQ4_K:
    case GgmlType::kQ5_K:
    case GgmlType::kQ6_K:
      return true;
    default:
      return false;
  }
}

absl::StatusOr<QuantizedMatrix> DecodeGgufCodes(const GgufTensor& tensor) {
  switch (tensor.type) {
    case GgmlType::kQ8_0:
      return DecodeBlocks<BlockQ8_0>(tensor, {CodeKind::kInt8, 32});
    case GgmlType::kQ4_0:
      return DecodeBlocks<BlockQ4_0>(tensor, {CodeKind::kInt4, 32});
    case GgmlType::kQ4_1:
      return DecodeBlocks<BlockQ4_1>(tensor, {CodeKind::kInt4Min, 32});
    case GgmlType::kQ5_0:
      return DecodeBlocks<BlockQ5_0>(tensor, {CodeKind::kInt5, 32});
    case GgmlType::kQ5_1:
      return DecodeBlocks<BlockQ5_1>(tensor, {CodeKind::kInt5Min, 32});
    case GgmlType::kQ4_K:
      return DecodeBlocks<BlockQ4_K>(tensor, {CodeKind::kInt4Min, 32, true});
    case GgmlType::kQ5_K:
      return DecodeBlocks<BlockQ5_K>(tensor, {CodeKind::kInt5Min, 32, true});
    case GgmlType::kQ6_K:
      return DecodeBlocks<BlockQ6_K>(tensor, {CodeKind::kInt6, 16, true});
    default:
      return Unimplemented("tensor {}: {} is not computed from codes", tensor.name,
                           GgmlTypeName(tensor.type));
  }
}

}  // namespace lockstep::kernels
