#include "kernels/formats/quantized_matrix.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/check.h"
#include "kernels/formats/code_value.h"

namespace lockstep::kernels {
namespace {

template <CodeKind kind>
void DequantizeRun(const uint8_t* codes, int64_t count, const GroupScales& run, BFloat16* values) {
  for (int64_t i = 0; i < count; ++i) {
    values[i] = ToBFloat16(CodeValue<kind>(codes[i], run.zero, run.scale, run.minimum));
  }
}

using RunFunction = void (*)(const uint8_t*, int64_t, const GroupScales&, BFloat16*);

RunFunction RunFunctionOf(CodeKind kind) {
  switch (kind) {
    case CodeKind::kFp8E4M3:
      return DequantizeRun<CodeKind::kFp8E4M3>;
    case CodeKind::kFp4E2M1:
      return DequantizeRun<CodeKind::kFp4E2M1>;
    case CodeKind::kInt4Min:
    case CodeKind::kInt5Min:
      return DequantizeRun<CodeKind::kInt5Min>;
    case CodeKind::kInt4:
    case CodeKind::kInt5:
    case CodeKind::kInt6:
    case CodeKind::kInt8:
      return DequantizeRun<CodeKind::kInt8>;
  }
  LOCKSTEP_CHECK(false, "no such kind of code");
  return nullptr;
}

// `position`: the index of the group in matrix.scales. A caller with many groups counts it.
GroupScales ScalesAt(const QuantizedMatrix& matrix, int64_t row, int64_t group, int64_t position) {
  const auto index = static_cast<size_t>(position);
  GroupScales scales = {
      .zero = matrix.zeros.empty() ? MiddleCode(matrix.kind) : matrix.zeros[index],
      .scale = matrix.scales[index],
      .minimum = matrix.minima.empty() ? 0.0f : matrix.minima[index]};
  if (matrix.has_two_levels()) {
    const size_t block = matrix.ScaleBlockIndex(row, group);
    scales.scale = matrix.CombineScales(scales.scale, matrix.block_scales[block]);
    if (!matrix.minima.empty()) scales.minimum *= matrix.block_minima[block];
  }
  return scales;
}

}  // namespace

uint8_t MiddleCode(CodeKind kind) {
  switch (kind) {
    case CodeKind::kInt4:
      return 8;
    case CodeKind::kInt5:
      return 16;
    case CodeKind::kInt6:
      return 32;
    case CodeKind::kInt8:
      return 128;
    default:
      return 0;
  }
}

std::string CodesName(const QuantizedMatrix& matrix) {
  const bool two = matrix.has_two_levels();
  const auto with_groups = [&matrix](const char* codes) {
    const bool is_row = matrix.num_groups() == 1;
    return fmt::format("{} {}{}", codes,
                       is_row ? "by row" : fmt::format("g{}", matrix.group_columns),
                       matrix.zeros.empty() ? "" : " with zero points");
  };
  switch (matrix.kind) {
    case CodeKind::kInt4:
      return with_groups("int4");
    case CodeKind::kInt8:
      return with_groups("int8");
    case CodeKind::kFp8E4M3:
      return with_groups("fp8");
    case CodeKind::kFp4E2M1:
      return two ? "NVFP4" : "MXFP4";
    case CodeKind::kInt4Min:
      return two ? "Q4_K" : "Q4_1";
    case CodeKind::kInt5:
      return "Q5_0";
    case CodeKind::kInt5Min:
      return two ? "Q5_K" : "Q5_1";
    case CodeKind::kInt6:
      return "Q6_K";
  }
  LOCKSTEP_CHECK(false, "no such kind of code");
  return "";
}

GroupScales ScalesOfGroup(const QuantizedMatrix& matrix, int64_t row, int64_t group) {
  return ScalesAt(matrix, row, group, row * matrix.num_groups() + group);
}

void DequantizeRow(const QuantizedMatrix& matrix, int64_t row, BFloat16* values) {
  LOCKSTEP_CHECK(row >= 0 && row < matrix.n, "row {} of {}", row, matrix.n);
  const RunFunction dequantize = RunFunctionOf(matrix.kind);
  const uint8_t* const codes = matrix.codes.data() + row * matrix.k;
  const int64_t first_group = row * matrix.num_groups();
  // Groups that are not contiguous are taken column by column.
  const int64_t step = matrix.has_contiguous_groups() ? matrix.group_columns : 1;
  for (int64_t column = 0; column < matrix.k; column += step) {
    const int64_t group = matrix.GroupOf(column);
    const GroupScales run = ScalesAt(matrix, row, group, first_group + group);
    dequantize(codes + column, std::min(step, matrix.k - column), run, values + column);
  }
}

}  // namespace lockstep::kernels
