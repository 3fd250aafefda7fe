#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "kernels/core/bfloat16.h"
#include "kernels/core/stream.h"
#include "kernels/device/cuda_stream.h"

namespace lockstep::kernels {

// output = bf16(silu(gate) * up) for every row; gate and up lie side by side, as one GEMM writes
// them.
struct SwiGluParams {
  const BFloat16* gate_up = nullptr;  // [num_rows, 2 * size]: gate, then up
  BFloat16* output = nullptr;         // [num_rows, size]
  int64_t num_rows = 0;
  int64_t size = 0;
};

absl::Status SwiGlu(const Stream& stream, const SwiGluParams& params);

// CUDA: `size` is a multiple of 8 and the arrays are aligned to 16 bytes; otherwise
// INVALID_ARGUMENT.
absl::Status SwiGlu(const CudaStream& stream, const SwiGluParams& params);

}  // namespace lockstep::kernels
