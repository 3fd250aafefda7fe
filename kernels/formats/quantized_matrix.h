#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/bfloat16.h"

namespace lockstep::kernels {

// The meaning of a code of a quantised weight. u is the code, s the scale of its group, z the zero
// point and m the minimum. Every value is computed in fp32, in the order written here, and rounded
// to bf16 once, at the end. An integer code of the value 0 is +0 for either sign of its scale.
enum class CodeKind {
  kInt4,     // (u - z) * s, u and z in 0..15. Without zero points z = 8
  kInt8,     // (u - z) * s, u and z in 0..255. Without zero points z = 128
  kFp8E4M3,  // E4M3(u) * s. 0x7F and 0xFF are NaN and refused
  kFp4E2M1,  // E2M1(u) * s, u in 0..15
  // Those of GGUF. Their products are exact: scales have few bits.
  kInt4Min,  // u * s - m, u in 0..15
  kInt5,     // (u - 16) * s, u in 0..31
  kInt5Min,  // u * s - m, u in 0..31
  kInt6,     // (u - 32) * s, u in 0..63
};

// The weights of a product y = x * transpose(W), as codes in the order of W. All published layouts
// of one kind of codes become this. Of it kernels/formats/strips/strip_matrix.h makes what the
// GPU's products read, and kernels/formats/panels/panel_matrix.h what the CPU's read.
struct QuantizedMatrix {
  CodeKind kind = CodeKind::kInt4;
  int64_t n = 0;               // rows of W: outputs
  int64_t k = 0;               // columns of W: inputs
  int64_t group_columns = 0;   // that share a scale; the last group of a row may have fewer
  std::vector<uint8_t> codes;  // [n, k], one code a byte
  std::vector<float> scales;   // [n, num_groups]
  std::vector<uint8_t> zeros;  // [n, num_groups], or empty: the middle of the range
  std::vector<float> minima;   // [n, num_groups]; only of kinds with a minimum
  // Two levels of scales: a block is some whole groups of a row, and its scale multiplies theirs,
  // its minimum their minima. In GGUF's K-quants those of groups are small integers. In NVFP4 they
  // are values of E4M3, a block is a row, and the rows of a part have the same block scale. 0: one
  // level, and the two vectors are empty.
  int64_t block_columns = 0;
  std::vector<float> block_scales;  // [n, num_scale_blocks]
  std::vector<float> block_minima;  // [n, num_scale_blocks]; only of kinds with a minimum
  // The scale of a group is divided by that of its block, as compressed-tensors does with NVFP4. s
  // is then the quotient in fp32, else the product in fp32.
  bool block_scales_divide = false;
  // The group of each column, the same in all rows, or empty: column / group_columns. Only GPTQ's
  // act-order needs it, because its groups are not contiguous. [k]
  std::vector<int32_t> group_of_column;

  bool has_contiguous_groups() const { return group_of_column.empty(); }
  int64_t num_groups() const {
    if (has_contiguous_groups()) return (k + group_columns - 1) / group_columns;
    return static_cast<int64_t>(scales.size()) / n;
  }
  int64_t GroupOf(int64_t column) const {
    if (has_contiguous_groups()) return column / group_columns;
    return group_of_column[static_cast<size_t>(column)];
  }

  bool has_two_levels() const { return block_columns != 0; }
  int64_t num_scale_blocks() const { return (k + block_columns - 1) / block_columns; }
  size_t ScaleBlockIndex(int64_t row, int64_t group) const {
    return static_cast<size_t>(row * num_scale_blocks() + group * group_columns / block_columns);
  }

  // s, of the scales of its two levels.
  float CombineScales(float of_group, float of_block) const {
    return block_scales_divide ? of_group / of_block : of_group * of_block;
  }

  friend bool operator==(const QuantizedMatrix&, const QuantizedMatrix&) = default;
};

// The code of zero without zero points: the middle of the range of integers, 0 for floating-point
// codes and for kinds with a minimum.
uint8_t MiddleCode(CodeKind kind);
constexpr bool HasMinimum(CodeKind kind) {
  return kind == CodeKind::kInt4Min || kind == CodeKind::kInt5Min;
}
// The bits of a code: 4, 5, 6 or 8.
constexpr int CodeBits(CodeKind kind) {
  switch (kind) {
    case CodeKind::kInt4:
    case CodeKind::kInt4Min:
    case CodeKind::kFp4E2M1:
      return 4;
    case CodeKind::kInt5:
    case CodeKind::kInt5Min:
      return 5;
    case CodeKind::kInt6:
      return 6;
    case CodeKind::kInt8:
    case CodeKind::kFp8E4M3:
      break;
  }
  return 8;
}

// What the columns of a group share, of both levels of scales.
struct GroupScales {
  uint8_t zero;
  float scale;
  float minimum;
};
GroupScales ScalesOfGroup(const QuantizedMatrix& matrix, int64_t row, int64_t group);

// What the codes are called, for people: "Q4_K", "int4 g128", "fp8 by row". Two layouts of the same
// codes may have one name.
std::string CodesName(const QuantizedMatrix& matrix);

// Row `row` in bf16: what loading a checkpoint without packed weights gives. values: [k].
void DequantizeRow(const QuantizedMatrix& matrix, int64_t row, BFloat16* values);

}  // namespace lockstep::kernels
