#include "kernels/formats/quantized_matrix.h"

#include <algorithm>

#include "common/check.h"
#include "kernels/formats/small_floats.h"

namespace lockstep::kernels {
namespace {

// Codes of columns that share a scale.
template <CodeKind kind>
void DequantizeRun(const uint8_t* codes, int64_t count, uint8_t zero, float scale,
                   BFloat16* values) {
  for (int64_t i = 0; i < count; ++i) {
    float value;
    if constexpr (kind == CodeKind::kFp8E4M3) {
      value = E4M3ToFloat(codes[i]) * scale;
    } else if constexpr (kind == CodeKind::kFp4E2M1) {
      value = E2M1ToFloat(codes[i]) * scale;
    } else {
      // -0 + 0 is +0.
      value = static_cast<float>(int{codes[i]} - int{zero}) * scale + 0.0f;
    }
    values[i] = ToBFloat16(value);
  }
}

using RunFunction = void (*)(const uint8_t*, int64_t, uint8_t, float, BFloat16*);

RunFunction RunFunctionOf(CodeKind kind) {
  switch (kind) {
    case CodeKind::kInt4:
      return DequantizeRun<CodeKind::kInt4>;
    case CodeKind::kInt8:
      return DequantizeRun<CodeKind::kInt8>;
    case CodeKind::kFp8E4M3:
      return DequantizeRun<CodeKind::kFp8E4M3>;
    case CodeKind::kFp4E2M1:
      return DequantizeRun<CodeKind::kFp4E2M1>;
  }
  return nullptr;
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
  const RunFunction dequantize = RunFunctionOf(matrix.kind);
  const uint8_t middle = MiddleCode(matrix.kind);
  const uint8_t* const codes = matrix.codes.data() + row * matrix.k;
  const int64_t first_group = row * matrix.num_groups();
  // Groups that are not contiguous are taken column by column.
  const int64_t step = matrix.has_contiguous_groups() ? matrix.group_columns : 1;
  for (int64_t column = 0; column < matrix.k; column += step) {
    const auto group = static_cast<size_t>(first_group + matrix.GroupOf(column));
    const uint8_t zero = matrix.zeros.empty() ? middle : matrix.zeros[group];
    dequantize(codes + column, std::min(step, matrix.k - column), zero, matrix.scales[group],
               values + column);
  }
}

}  // namespace lockstep::kernels
