#include "kernels/formats/fp8_activations/fp8_scales.h"

#include "common/status.h"
#include "kernels/core/divide_up.h"
#include "kernels/formats/fp8_activations/quantize_activations.h"

namespace lockstep::kernels {

absl::StatusOr<Fp8Scales> Fp8ScalesOf(const QuantizedMatrix& matrix) {
  constexpr int64_t kBlockRows = 128;
  if (matrix.kind != CodeKind::kFp8E4M3 || matrix.has_two_levels() ||
      !matrix.has_contiguous_groups()) {
    return InvalidArgument("products with FP8 activations take FP8 weights, not {}",
                           CodesName(matrix));
  }
  if (matrix.k % 16 != 0) {
    return InvalidArgument(
        "products with FP8 activations take a multiple of 16 columns, but there are {}", matrix.k);
  }
  const int64_t num_groups = matrix.num_groups();
  if (num_groups == 1) {
    return Fp8Scales{.layout = Fp8ScaleLayout::kChannel, .values = matrix.scales};
  }
  if (matrix.group_columns != kFp8BlockColumns) {
    return InvalidArgument(
        "products with FP8 activations take a scale for 128 columns or for a row, but there is one "
        "for {} columns",
        matrix.group_columns);
  }
  Fp8Scales scales;
  scales.values.reserve(static_cast<size_t>(DivideUp(matrix.n, kBlockRows) * num_groups));
  for (int64_t row = 0; row < matrix.n; ++row) {
    for (int64_t group = 0; group < num_groups; ++group) {
      const float scale = matrix.scales[static_cast<size_t>(row * num_groups + group)];
      if (row % kBlockRows == 0) {
        scales.values.push_back(scale);
      } else if (scale !=
                 scales.values[static_cast<size_t>(row / kBlockRows * num_groups + group)]) {
        return InvalidArgument(
            "products with FP8 activations take a scale for 128 x 128 weights or for a row, but "
            "row {} has another scale than row {}",
            row, row / kBlockRows * kBlockRows);
      }
    }
  }
  return scales;
}

}  // namespace lockstep::kernels
