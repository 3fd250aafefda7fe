#include "kernels/formats/strips/choose_fp4_codec.h"

#include <cmath>

#include "common/status.h"
#include "kernels/formats/small_floats.h"
#include "kernels/formats/strips/fp4/nvfp4_rows.h"

namespace lockstep::kernels {
namespace {

constexpr float kMaxMxfp4Scale = 2.0f;

bool IsMxfp4Scale(float scale) {
  int exponent = 0;
  return scale > 0 && scale <= kMaxMxfp4Scale && std::frexp(scale, &exponent) == 0.5f &&
         scale >= E8M0ToFloat(0);
}

bool IsE4M3(float value) { return E4M3ToFloat(FloatToE4M3(value)) == value; }

bool IsNvfp4Scale(float scale) {
  const float magnitude = std::fabs(scale);
  return magnitude == 0 || (magnitude >= kMinNvfp4Scale && magnitude < kMaxNvfp4Scale);
}

absl::Status CheckMxfp4(const QuantizedMatrix& matrix) {
  for (size_t i = 0; i < matrix.scales.size(); ++i) {
    if (IsMxfp4Scale(matrix.scales[i])) continue;
    const auto index = static_cast<int64_t>(i);
    return InvalidArgument(
        "the scale {} of group {} of row {} is not a power of two from 2^-127 to {}",
        matrix.scales[i], index % matrix.num_groups(), index / matrix.num_groups(), kMaxMxfp4Scale);
  }
  return absl::OkStatus();
}

absl::Status CheckNvfp4(const QuantizedMatrix& matrix) {
  if (matrix.num_scale_blocks() != 1) {
    return InvalidArgument("fp4 codes with scales of blocks of {} columns; the kernels take rows",
                           matrix.block_columns);
  }
  const int64_t groups = matrix.num_groups();
  for (int64_t row = 0; row < matrix.n; ++row) {
    const float of_row = matrix.block_scales[static_cast<size_t>(row)];
    if (!(of_row > 0) || !std::isfinite(of_row)) {
      return InvalidArgument("the scale {} of row {} is not a positive number", of_row, row);
    }
    for (int64_t group = 0; group < groups; ++group) {
      const float scale = matrix.scales[static_cast<size_t>(row * groups + group)];
      if (!IsE4M3(scale)) {
        return InvalidArgument("the scale {} of group {} of row {} has no exact value in E4M3",
                               scale, group, row);
      }
      const float both = matrix.CombineScales(scale, of_row);
      if (!IsNvfp4Scale(both) || (both == 0) != (scale == 0)) {
        return InvalidArgument(
            "the scale {} of group {} of row {}, of both levels; the kernels take magnitudes from "
            "{} to below {}, and 0",
            both, group, row, kMinNvfp4Scale, kMaxNvfp4Scale);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StripCodec> ChooseFp4Codec(const QuantizedMatrix& matrix) {
  if (!matrix.has_two_levels()) {
    LOCKSTEP_RETURN_IF_ERROR(CheckMxfp4(matrix));
    return StripCodec::kMxfp4;
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckNvfp4(matrix));
  return StripCodec::kNvfp4;
}

}  // namespace lockstep::kernels
