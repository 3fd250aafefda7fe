#include "kernels/formats/quantized_matrix.h"

#include <bit>

#include "common/check.h"

namespace lockstep::kernels {
namespace {

// OCP 8-bit floating point, E4M3: 4 bits of exponent with bias 7, 3 of fraction, no infinities.
float E4M3ToFloat(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  const uint32_t magnitude = static_cast<uint32_t>(code & 0x7F) << 20;
  // The bits now stand where those of an fp32 do. Its bias is 127, so the value is 2^120 too small.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p120f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | sign);
}

float Value(CodeKind kind, uint8_t code, uint8_t zero, float scale) {
  if (kind == CodeKind::kFp8E4M3) return E4M3ToFloat(code) * scale;
  // -0 + 0 is +0.
  return static_cast<float>(int{code} - int{zero}) * scale + 0.0f;
}

}  // namespace

void DequantizeRow(const QuantizedMatrix& matrix, int64_t row, BFloat16* values) {
  LOCKSTEP_CHECK(row >= 0 && row < matrix.n, "row {} of {}", row, matrix.n);
  const uint8_t middle = matrix.kind == CodeKind::kInt4 ? 8 : 128;
  const uint8_t* const codes = matrix.codes.data() + row * matrix.k;
  const int64_t first_group = row * matrix.num_groups();
  for (int64_t column = 0; column < matrix.k; ++column) {
    const auto group = static_cast<size_t>(first_group + column / matrix.group_columns);
    const uint8_t zero = matrix.zeros.empty() ? middle : matrix.zeros[group];
    values[column] = ToBFloat16(Value(matrix.kind, codes[column], zero, matrix.scales[group]));
  }
}

}  // namespace lockstep::kernels
