#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>

#include "kernels/formats/quantized_matrix.h"

namespace lockstep::kernels {

// Stacks the parts of a product, as q, k and v, one below the other. Every row keeps its codes and
// scales, so values do not change, and scales are never merged. If the sizes of groups differ, the
// result has their greatest common divisor. INVALID_ARGUMENT if the parts differ in kind, in k, in
// the levels of scales, or in the columns of groups that are not contiguous.
absl::StatusOr<QuantizedMatrix> StackRows(std::span<const QuantizedMatrix> parts);

// Whether the two have scales of the same levels, which are combined alike.
bool HasSameLevels(const QuantizedMatrix& a, const QuantizedMatrix& b);

// Some rows of a matrix, in the order of `rows`, with their scales.
QuantizedMatrix TakeRows(const QuantizedMatrix& matrix, std::span<const int64_t> rows);

// The same values with a scale for every `group_columns` columns, which the size of the present
// groups is a multiple of (a single group of a row may have any size).
QuantizedMatrix WithGroupColumns(const QuantizedMatrix& matrix, int64_t group_columns);

}  // namespace lockstep::kernels
