#include "kernels/activation/swiglu_isa.h"
#include "kernels/core/vector_math.h"

namespace lockstep::kernels::LOCKSTEP_ISA {

void SwiGluRows(const SwiGluParams& params, int64_t row_begin, int64_t row_end) {
  const int64_t size = params.size;
  for (int64_t row = row_begin; row < row_end; ++row) {
    const BFloat16* gate = params.gate_up + row * 2 * size;
    const BFloat16* up = gate + size;
    BFloat16* __restrict output = params.output + row * size;
    for (int64_t i = 0; i < size; ++i) {
      output[i] = ToBFloat16(GatedValue(ToFloat(gate[i]), ToFloat(up[i])));
    }
  }
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
