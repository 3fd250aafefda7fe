#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "kernels/core/bfloat16.h"
#include "kernels/device/cuda_stream.h"
#include "kernels/formats/fp8_activations/fp8_tiling.h"

namespace lockstep::kernels {

enum class Fp8ScaleLayout {
  kBlock,    // [ceil(n / 128), ceil(k / 128)]: one for 128 rows and 128 columns
  kChannel,  // [n]: one for a row
};

struct Fp8Weights {
  const uint8_t* codes = nullptr;  // E4M3, [n, k], aligned to 16 bytes
  const float* scales = nullptr;
  Fp8ScaleLayout layout = Fp8ScaleLayout::kBlock;
  int64_t n = 0;
  int64_t k = 0;  // a multiple of 16
};

// Products of E4M3 codes with E4M3 codes on the GPU. With x and s_x of the input
// (QuantizeActivations) and w and s_w of the weights, for every 128 columns of k, ascending:
//   partial = sum of x * w, as a chain of four wgmma instructions for 32 columns computes it from
//             zero;
//   sum = fma(partial, s_x * s_w, sum), in fp32.
// Then the bias is added. A bf16 output is rounded once. Columns behind k are zeros in the chain.
//
// wgmma sums with fewer bits than fp32. Its bits do not depend on the number of rows and columns,
// nor on which operand is first, so a row has the same bits in every batch. Other instructions give
// other bits: nothing else may compute these products (docs/numerics.md).
struct Fp8GemmParams {
  const uint8_t* codes = nullptr;  // of the input, [num_rows, k], aligned to 16 bytes
  const float* scales = nullptr;   // of the input, as QuantizeActivations writes them
  Fp8Weights weights;
  const float* bias = nullptr;  // [n], or null
  BFloat16* output = nullptr;   // [num_rows, n]; exactly one of the two outputs is set
  float* output_f32 = nullptr;  // [num_rows, n], not rounded
  int64_t output_stride = 0;    // elements between rows
  int64_t num_rows = 0;
};

// INVALID_ARGUMENT for sizes or addresses that the copy engine does not take.
absl::Status Fp8Gemm(const CudaStream& stream, const Fp8GemmParams& params);

// With a given tiling, which decides speed alone. INVALID_ARGUMENT for a tiling that is not
// compiled or does not fit.
absl::Status LaunchFp8Gemm(const CudaStream& stream, const Fp8GemmParams& params,
                           const Fp8Tiling& tiling);

}  // namespace lockstep::kernels
