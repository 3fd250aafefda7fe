#include "kernels/gemm/packed_matrix.h"

namespace lockstep::kernels {

void PackRows(const float* rows, int64_t first_output, int64_t num_outputs, int64_t k,
              BFloat16* packed) {
  for (int64_t row = 0; row < num_outputs; ++row) {
    const int64_t output = first_output + row;
    const float* from = rows + row * k;
    BFloat16* to =
        packed + (output / kPanelOutputs) * kPanelOutputs * k + (output % kPanelOutputs) * 2;
    for (int64_t i = 0; i < k; i += 2) {
      to[i * kPanelOutputs] = ToBFloat16(from[i]);
      to[i * kPanelOutputs + 1] = ToBFloat16(from[i + 1]);
    }
  }
}

}  // namespace lockstep::kernels
