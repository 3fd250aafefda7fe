#include "kernels/formats/tensors/scale_layout.h"

#include <algorithm>
#include <vector>

#include "common/status.h"
#include "kernels/core/divide_up.h"
#include "kernels/formats/tensors/tensor_checks.h"

namespace lockstep::kernels {
namespace {

// Where the scale of a row and a group stands in the tensor.
struct ScaleGrid {
  int64_t columns_per_scale;
  int64_t rows_per_scale;
  int64_t num_groups;
};

absl::StatusOr<ScaleGrid> CheckGrid(const SafetensorsTensor& tensor, const WeightScheme& scheme,
                                    int64_t n, int64_t k) {
  const size_t rank = tensor.shape.size();
  switch (scheme.extent) {
    case ScaleExtent::kTensor:
      if (rank == 0) return ScaleGrid{k, n, 1};
      LOCKSTEP_RETURN_IF_ERROR(rank == 2 ? ExpectShape(tensor, {1, 1}) : ExpectShape(tensor, {1}));
      return ScaleGrid{k, n, 1};
    case ScaleExtent::kChannel:
      LOCKSTEP_RETURN_IF_ERROR(rank == 1 ? ExpectShape(tensor, {n}) : ExpectShape(tensor, {n, 1}));
      return ScaleGrid{k, 1, 1};
    case ScaleExtent::kGroup: {
      const int64_t size = scheme.group_size;
      if (size <= 0 || k % size != 0) {
        return InvalidArgument("tensor {}: {} columns do not divide into groups of {}", tensor.name,
                               k, size);
      }
      LOCKSTEP_RETURN_IF_ERROR(ExpectShape(tensor, {n, k / size}));
      return ScaleGrid{size, 1, k / size};
    }
    case ScaleExtent::kBlock: {
      const int64_t rows = scheme.block_rows, columns = scheme.block_columns;
      if (rows <= 0 || columns <= 0) {
        return InvalidArgument("tensor {}: blocks of {} x {}", tensor.name, rows, columns);
      }
      const int64_t groups = DivideUp(k, columns);
      LOCKSTEP_RETURN_IF_ERROR(ExpectShape(tensor, {DivideUp(n, rows), groups}));
      return ScaleGrid{std::min(columns, k), rows, groups};
    }
  }
  return Internal("an unknown extent of scales");
}

template <typename T>
std::vector<T> ForEachRow(const std::vector<T>& values, const ScaleGrid& grid, int64_t n) {
  std::vector<T> result;
  result.reserve(static_cast<size_t>(n * grid.num_groups));
  for (int64_t row = 0; row < n; ++row) {
    const auto first = values.begin() + row / grid.rows_per_scale * grid.num_groups;
    result.insert(result.end(), first, first + grid.num_groups);
  }
  return result;
}

}  // namespace

absl::Status SetScales(const SafetensorsTensor& scale, const WeightScheme& scheme,
                       ScaleRounding rounding, QuantizedMatrix* matrix) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<float> values, rounding == ScaleRounding::kBFloat16
                                                                 ? ReadRoundedScales(scale)
                                                                 : ReadScales(scale));
  LOCKSTEP_ASSIGN_OR_RETURN(const ScaleGrid grid, CheckGrid(scale, scheme, matrix->n, matrix->k));
  matrix->group_columns = grid.columns_per_scale;
  matrix->scales = ForEachRow(values, grid, matrix->n);
  return absl::OkStatus();
}

absl::Status SetSignedZeros(const SafetensorsTensor& zero_point, const WeightScheme& scheme,
                            QuantizedMatrix* matrix) {
  LOCKSTEP_RETURN_IF_ERROR(ExpectDtype(zero_point, {SafetensorsDtype::kI8}));
  LOCKSTEP_ASSIGN_OR_RETURN(const ScaleGrid grid,
                            CheckGrid(zero_point, scheme, matrix->n, matrix->k));
  std::vector<uint8_t> zeros;
  for (const std::byte byte : zero_point.data) {
    zeros.push_back(static_cast<uint8_t>(static_cast<uint8_t>(byte) ^ 0x80u));  // + 128
  }
  matrix->zeros = ForEachRow(zeros, grid, matrix->n);
  return absl::OkStatus();
}

absl::Status ExpectZeroBytes(const SafetensorsTensor* zero_point) {
  if (zero_point == nullptr || AllBytesAre(std::byte{0}, *zero_point)) return absl::OkStatus();
  return InvalidArgument("tensor {}: zero points other than 0, but the scheme is symmetric",
                         zero_point->name);
}

}  // namespace lockstep::kernels
