#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "kernels/core/bfloat16.h"
#include "kernels/device/cuda_stream.h"
#include "kernels/formats/strips/strip_matrix.h"
#include "kernels/formats/strips/strip_tiling.h"

namespace lockstep::kernels {

// Products on the GPU with weights that stay packed. output[m][n] = sum over k of input[m][k] *
// weights[n][k], plus bias[n]. Every weight is DequantizeRow's bf16, and the sum is the canonical
// dot product. So the bits are those of Gemm (kernels/gemm/gemm.h) with the weights in bf16.
struct StripGemmParams {
  const BFloat16* input = nullptr;  // [num_rows, k], aligned to 16 bytes
  int64_t input_stride = 0;         // elements between rows, a multiple of 8
  StripMatrix weights;              // k must be a multiple of 8
  const float* bias = nullptr;      // [n], or null
  BFloat16* output = nullptr;       // [num_rows, n]; exactly one of the two outputs is set
  float* output_f32 = nullptr;      // [num_rows, n], not rounded
  int64_t output_stride = 0;        // elements between rows
  int64_t num_rows = 0;
};

// INVALID_ARGUMENT for sizes or addresses that the copy engine does not take.
absl::Status StripGemm(const CudaStream& stream, const StripGemmParams& params);
// The product and SwiGLU of it, with the bits of GemmSwiGlu: the weights are [gate rows; up rows].
// Output: [num_rows, n / 2] bf16. INVALID_ARGUMENT unless n is a multiple of
// 2 * kBandRows.
absl::Status StripGemmSwiGlu(const CudaStream& stream, const StripGemmParams& params);

// The two with a given tiling, which decides speed alone. INVALID_ARGUMENT for a tiling that is not
// compiled or does not fit.
absl::Status LaunchStripGemm(const CudaStream& stream, const StripGemmParams& params, bool gated,
                             const StripTiling& tiling);

// The weights in bf16, row-major [n, k]: for products of many rows, which read weights that were
// expanded once.
absl::Status ExpandStrips(const CudaStream& stream, const StripMatrix& weights, BFloat16* output);

}  // namespace lockstep::kernels
