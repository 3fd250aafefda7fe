#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "kernels/core/bfloat16.h"
#include "kernels/core/stream.h"
#include "kernels/device/cuda_stream.h"

namespace lockstep::kernels {

// LayerNorm (arXiv 1607.06450), with the residual add in front of it when `delta` is set:
//   residual = bf16(input + delta), written to residual_out
//   centred  = residual - mean(residual)
//   output   = bf16(centred * (1 / sqrt(mean(centred^2) + eps)) * weight + bias)
// Both sums are the fixed tree over elements that rms_norm.h describes.
struct LayerNormParams {
  const BFloat16* input = nullptr;   // [num_rows, size]
  const BFloat16* delta = nullptr;   // [num_rows, size], or null
  BFloat16* residual_out = nullptr;  // [num_rows, size], with delta; may be `input`
  const float* weight = nullptr;     // [size]
  const float* bias = nullptr;       // [size]
  BFloat16* output = nullptr;        // [num_rows, size]
  int64_t num_rows = 0;
  int64_t size = 0;
  float eps = 0.0f;
};

absl::Status LayerNorm(const Stream& stream, const LayerNormParams& params);

// CUDA: sizes and alignment as RmsNorm's. `weight` and `bias` must not be written by kernels that
// are still under way.
absl::Status LayerNorm(const CudaStream& stream, const LayerNormParams& params);

}  // namespace lockstep::kernels
