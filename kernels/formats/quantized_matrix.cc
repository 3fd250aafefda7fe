#include "kernels/formats/quantized_matrix.h"

#include "common/check.h"
#include "kernels/formats/small_floats.h"

namespace lockstep::kernels {
namespace {

float CodeValue(CodeKind kind, uint8_t code, uint8_t zero, float scale) {
  switch (kind) {
    case CodeKind::kFp8E4M3:
      return E4M3ToFloat(code) * scale;
    case CodeKind::kFp4E2M1:
      return E2M1ToFloat(code) * scale;
    default:
      return static_cast<float>(int{code} - int{zero}) * scale;
  }
}

}  // namespace

uint8_t MiddleCode(CodeKind kind) {
  switch (kind) {
    case CodeKind::kInt4:
      return 8;
    case CodeKind::kInt8:
      return 128;
    default:
      return 0;
  }
}

void DequantizeRow(const QuantizedMatrix& matrix, int64_t row, BFloat16* values) {
  LOCKSTEP_CHECK(row >= 0 && row < matrix.n, "row {} of {}", row, matrix.n);
  const uint8_t middle = MiddleCode(matrix.kind);
  const uint8_t* const codes = matrix.codes.data() + row * matrix.k;
  const int64_t first_group = row * matrix.num_groups();
  for (int64_t column = 0; column < matrix.k; ++column) {
    const auto group = static_cast<size_t>(first_group + matrix.GroupOf(column));
    const uint8_t zero = matrix.zeros.empty() ? middle : matrix.zeros[group];
    values[column] = ToBFloat16(CodeValue(matrix.kind, codes[column], zero, matrix.scales[group]));
  }
}

}  // namespace lockstep::kernels
