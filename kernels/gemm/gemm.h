#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "kernels/activation/gelu.h"
#include "kernels/core/stream.h"
#include "kernels/device/cuda_stream.h"
#include "kernels/gemm/weight_matrix.h"

namespace lockstep::kernels {

// output[m][n] = sum over k of input[m][k] * weights[n][k], plus bias[n].
//
// The canonical dot product: one fp32 accumulator per output element, k ascending; then the bias;
// then, for a bf16 output, one rounding. It is the same for every number of rows, order of rows,
// and number of threads. No K is ever split. docs/decisions/0001-cpu-gemm.md says why this is not a
// library call.
struct GemmParams {
  const BFloat16* input = nullptr;  // [num_rows, k]
  int64_t input_stride = 0;         // elements between rows
  WeightMatrix weights;             // [n, k]
  const float* bias = nullptr;      // [n], or null
  BFloat16* output = nullptr;       // [num_rows, n]; exactly one of the two outputs is set
  float* output_f32 = nullptr;      // [num_rows, n], not rounded: for logits
  int64_t output_stride = 0;        // elements between rows
  int64_t num_rows = 0;
};

// Weights may be packed. INVALID_ARGUMENT for an odd k.
absl::Status Gemm(const Stream& stream, const GemmParams& params);

// On the GPU: one fp32 accumulator per output, k ascending in steps of 16 as a chain of
// mma.m16n8k16 does. This is our own kernel for weights in bf16, with the tiling that a rule
// chooses; CudaGemm (cuda_gemm.h) has plans for many rows and takes packed weights, with the same
// bits. INVALID_ARGUMENT unless weights are in bf16, k and input_stride multiples of 8, and input
// and weights aligned to 16 bytes.
absl::Status Gemm(const CudaStream& stream, const GemmParams& params);

// The product, rounded to bf16, and SwiGLU of it, rounded again, in one kernel:
// output[m][i] = silu(product[m][i]) * product[m][n / 2 + i], the weights being [gate rows; up
// rows]. Output: [num_rows, n / 2] bf16; the bits are those of Gemm and then SwiGlu.
// INVALID_ARGUMENT unless n is a multiple of 16.
absl::Status GemmSwiGlu(const CudaStream& stream, const GemmParams& params);
// Without a plan use it up to here: its epilogue grows with the rows, beyond what a second kernel
// costs.
inline constexpr int64_t kGemmSwiGluMaxRows = 32;

// The product, rounded to bf16, and GELU of it, rounded again, in one kernel. Output: [num_rows, n]
// bf16; the bits are those of Gemm and then Gelu. INVALID_ARGUMENT for more rows: two kernels are
// faster then.
inline constexpr int64_t kGemmGeluMaxRows = 16;
absl::Status GemmGelu(const CudaStream& stream, const GemmParams& params, GeluForm form);

}  // namespace lockstep::kernels
