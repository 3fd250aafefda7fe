#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "kernels/core/stream.h"
#include "kernels/gemm/packed_matrix.h"

namespace lockstep::kernels {

// output[m][n] = sum over k of input[m][k] * weights[n][k], plus bias[n].
//
// The canonical dot product: one fp32 accumulator per output element, k ascending, whatever the
// number of rows, their order, or the number of threads; then the bias; then, for a bf16 output,
// one rounding. No K is ever split. docs/decisions/0001-cpu-gemm.md says why this is not a library
// call.
struct GemmParams {
  const BFloat16* input = nullptr;  // [num_rows, k]
  int64_t input_stride = 0;         // elements between rows
  PackedMatrix weights;             // [n, k]
  const float* bias = nullptr;      // [n], or null
  BFloat16* output = nullptr;       // [num_rows, n]; exactly one of the two outputs is set
  float* output_f32 = nullptr;      // [num_rows, n], not rounded: for logits
  int64_t output_stride = 0;        // elements between rows
  int64_t num_rows = 0;
};

// INVALID_ARGUMENT for an odd k.
absl::Status Gemm(const Stream& stream, const GemmParams& params);

}  // namespace lockstep::kernels
