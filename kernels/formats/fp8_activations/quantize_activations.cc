#include "kernels/formats/fp8_activations/quantize_activations.h"

#include <algorithm>
#include <cmath>

#include "kernels/formats/small_floats.h"

namespace lockstep::kernels {
namespace {

uint8_t CodeOf(float quotient) {
  if (std::isnan(quotient)) return 0x7F;
  return FloatToE4M3(std::clamp(quotient, -kMaxE4M3, kMaxE4M3));
}

}  // namespace

void QuantizeActivationsReference(const QuantizeActivationsParams& params) {
  const int64_t scale_stride = ActivationScaleStride(params.num_rows);
  for (int64_t row = 0; row < params.num_rows; ++row) {
    const BFloat16* const values = params.input + row * params.input_stride;
    for (int64_t block = 0; block < NumFp8Blocks(params.k); ++block) {
      const int64_t begin = block * kFp8BlockColumns;
      const int64_t end = std::min(begin + kFp8BlockColumns, params.k);
      float largest = 0.0f;
      for (int64_t i = begin; i < end; ++i) {
        // A comparison with NaN is false, so NaN is never the largest.
        largest = std::max(largest, std::fabs(ToFloat(values[i])));
      }
      const float quotient = largest / kMaxE4M3;
      const float scale = quotient == 0.0f ? 1.0f : quotient;
      params.scales[block * scale_stride + row] = scale;
      for (int64_t i = begin; i < end; ++i) {
        params.codes[row * params.k + i] = CodeOf(ToFloat(values[i]) / scale);
      }
    }
  }
}

}  // namespace lockstep::kernels
