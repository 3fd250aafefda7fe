#include "kernels/formats/stack_rows.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/check.h"
#include "common/status.h"

namespace lockstep::kernels {
namespace {

absl::Status CheckPartsFit(std::span<const QuantizedMatrix> parts) {
  for (const QuantizedMatrix& part : parts) {
    if (part.kind != parts[0].kind) return InvalidArgument("the parts have codes of several kinds");
    if (part.k != parts[0].k) {
      return InvalidArgument("the parts have {} and {} columns", parts[0].k, part.k);
    }
    if (!HasSameLevels(part, parts[0])) {
      return InvalidArgument("the parts have scales of different levels");
    }
    if (part.group_of_column != parts[0].group_of_column) {
      return InvalidArgument("the parts have groups of different columns (act-order)");
    }
  }
  return absl::OkStatus();
}

int64_t CommonGroupColumns(std::span<const QuantizedMatrix> parts) {
  int64_t common = 0;
  for (const QuantizedMatrix& part : parts) {
    if (part.num_groups() > 1) common = std::gcd(common, part.group_columns);
  }
  return common == 0 ? parts[0].k : common;
}

template <typename T>
void AppendAll(const std::vector<T>& values, std::vector<T>* result) {
  result->insert(result->end(), values.begin(), values.end());
}

// `per_row` values of each row.
template <typename T>
void TakeEach(const std::vector<T>& values, int64_t per_row, std::span<const int64_t> rows,
              std::vector<T>* result) {
  if (values.empty()) return;
  result->reserve(rows.size() * static_cast<size_t>(per_row));
  for (const int64_t row : rows) {
    const auto first = values.begin() + row * per_row;
    result->insert(result->end(), first, first + per_row);
  }
}

void Append(const QuantizedMatrix& part, bool with_zeros, QuantizedMatrix* result) {
  result->n += part.n;
  AppendAll(part.codes, &result->codes);
  AppendAll(part.scales, &result->scales);
  AppendAll(part.minima, &result->minima);
  AppendAll(part.block_scales, &result->block_scales);
  AppendAll(part.block_minima, &result->block_minima);
  if (!with_zeros) return;
  if (part.zeros.empty()) {
    result->zeros.resize(result->zeros.size() + part.scales.size(), MiddleCode(part.kind));
  } else {
    AppendAll(part.zeros, &result->zeros);
  }
}

}  // namespace

QuantizedMatrix WithGroupColumns(const QuantizedMatrix& matrix, int64_t group_columns) {
  const int64_t old_groups = matrix.num_groups();
  LOCKSTEP_CHECK(matrix.has_contiguous_groups() && group_columns > 0 &&
                     (old_groups == 1 || matrix.group_columns % group_columns == 0),
                 "groups of {} from groups of {}", group_columns, matrix.group_columns);
  QuantizedMatrix result = matrix;
  result.group_columns = group_columns;
  result.scales.clear();
  result.zeros.clear();
  result.minima.clear();
  const int64_t groups = result.num_groups();
  for (int64_t row = 0; row < matrix.n; ++row) {
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t old_group = matrix.GroupOf(group * group_columns);
      const auto old = static_cast<size_t>(row * old_groups + old_group);
      result.scales.push_back(matrix.scales[old]);
      if (!matrix.zeros.empty()) result.zeros.push_back(matrix.zeros[old]);
      if (!matrix.minima.empty()) result.minima.push_back(matrix.minima[old]);
    }
  }
  return result;
}

bool HasSameLevels(const QuantizedMatrix& a, const QuantizedMatrix& b) {
  return a.block_columns == b.block_columns && a.block_scales_divide == b.block_scales_divide;
}

QuantizedMatrix TakeRows(const QuantizedMatrix& matrix, std::span<const int64_t> rows) {
  QuantizedMatrix result;
  result.kind = matrix.kind;
  result.n = static_cast<int64_t>(rows.size());
  result.k = matrix.k;
  result.group_columns = matrix.group_columns;
  result.block_columns = matrix.block_columns;
  result.block_scales_divide = matrix.block_scales_divide;
  result.group_of_column = matrix.group_of_column;
  const int64_t num_groups = matrix.num_groups();
  const int64_t num_blocks = matrix.has_two_levels() ? matrix.num_scale_blocks() : 0;
  TakeEach(matrix.codes, matrix.k, rows, &result.codes);
  TakeEach(matrix.scales, num_groups, rows, &result.scales);
  TakeEach(matrix.zeros, num_groups, rows, &result.zeros);
  TakeEach(matrix.minima, num_groups, rows, &result.minima);
  TakeEach(matrix.block_scales, num_blocks, rows, &result.block_scales);
  TakeEach(matrix.block_minima, num_blocks, rows, &result.block_minima);
  return result;
}

absl::StatusOr<QuantizedMatrix> StackRows(std::span<const QuantizedMatrix> parts) {
  if (parts.empty()) return InvalidArgument("there are no parts");
  LOCKSTEP_RETURN_IF_ERROR(CheckPartsFit(parts));
  const bool contiguous = parts[0].has_contiguous_groups();
  const int64_t group_columns = contiguous ? CommonGroupColumns(parts) : parts[0].group_columns;
  QuantizedMatrix result;
  result.kind = parts[0].kind;
  result.k = parts[0].k;
  result.group_columns = group_columns;
  result.block_columns = parts[0].block_columns;
  result.block_scales_divide = parts[0].block_scales_divide;
  result.group_of_column = parts[0].group_of_column;
  const bool with_zeros = std::any_of(
      parts.begin(), parts.end(), [](const QuantizedMatrix& part) { return !part.zeros.empty(); });
  for (const QuantizedMatrix& part : parts) {
    const bool same = part.group_columns == group_columns;
    Append(same || !contiguous ? part : WithGroupColumns(part, group_columns), with_zeros, &result);
  }
  return result;
}

}  // namespace lockstep::kernels
