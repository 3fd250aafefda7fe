#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "kernels/core/bfloat16.h"
#include "kernels/core/stream.h"
#include "kernels/device/cuda_stream.h"

namespace lockstep::kernels {

// RMSNorm (arXiv 1910.07467), with the residual add in front of it when `delta` is set:
//   residual = bf16(input + delta), written to residual_out
//   output   = bf16(residual * (1 / sqrt(mean(residual^2) + eps)) * weight)
// The sum of squares is a fixed tree over elements, the same for every number of rows. CPU: element
// i goes to partial i mod 16 in ascending order, then partials j and j + 8, j + 4, j + 2, j + 1 are
// added. CUDA: the balanced binary tree over the row. Neighbours are added, then neighbouring sums,
// and so on. What is missing to a power of two counts 0. Any power of two of threads reproduces
// this tree.
struct RmsNormParams {
  const BFloat16* input = nullptr;   // [num_rows, size]
  const BFloat16* delta = nullptr;   // [num_rows, size], or null
  BFloat16* residual_out = nullptr;  // [num_rows, size], with delta; may be `input`
  const float* weight = nullptr;     // [size]
  BFloat16* output = nullptr;        // [num_rows, size]
  int64_t num_rows = 0;
  int64_t size = 0;
  float eps = 0.0f;
};

absl::Status RmsNorm(const Stream& stream, const RmsNormParams& params);

// CUDA: `size` is a multiple of 8, at most 8192, and all arrays are aligned to 16 bytes; otherwise
// INVALID_ARGUMENT. `weight` must not be written by kernels that are still under way.
absl::Status RmsNorm(const CudaStream& stream, const RmsNormParams& params);

}  // namespace lockstep::kernels
