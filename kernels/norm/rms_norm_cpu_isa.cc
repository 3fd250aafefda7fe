#include "kernels/norm/rms_norm_isa.h"
#include "kernels/norm/row_norm.h"

namespace lockstep::kernels::LOCKSTEP_ISA {

void RmsNormRows(const RmsNormParams& params, int64_t row_begin, int64_t row_end) {
  const int64_t size = params.size;
  for (int64_t row = row_begin; row < row_end; ++row) {
    const BFloat16* values = params.input + row * size;
    if (params.delta != nullptr) {
      const BFloat16* delta = params.delta + row * size;
      BFloat16* residual = params.residual_out + row * size;
      for (int64_t i = 0; i < size; ++i) {
        residual[i] = ToBFloat16(ToFloat(values[i]) + ToFloat(delta[i]));
      }
      values = residual;
    }
    const float inverse_rms = InverseRms(values, size, params.eps);
    BFloat16* output = params.output + row * size;
    for (int64_t i = 0; i < size; ++i) {
      output[i] = ToBFloat16(NormedValue(values[i], inverse_rms, params.weight[i]));
    }
  }
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
