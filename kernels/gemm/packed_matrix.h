#pragma once

#include <cstdint>

#include "kernels/core/bfloat16.h"

namespace lockstep::kernels {

// Weights in bf16 as the CPU GEMM reads them: panels of 32 outputs, in a panel pairs of consecutive
// k for all outputs, [ceil(n / 32)][k / 2][32][2] bf16. Outputs beyond n are zero.
inline constexpr int64_t kPanelOutputs = 32;

inline int64_t NumPanels(int64_t n) { return (n + kPanelOutputs - 1) / kPanelOutputs; }

// Size of the storage, in elements.
inline int64_t PackedElements(int64_t n, int64_t k) { return NumPanels(n) * kPanelOutputs * k; }

// Writes rows [first_output, first_output + num_outputs) of a row-major [n, k] matrix, rounded to
// bf16, into storage that was zero before. Threads may pack distinct rows at the same time.
void PackRows(const float* rows, int64_t first_output, int64_t num_outputs, int64_t k,
              BFloat16* packed);

}  // namespace lockstep::kernels
