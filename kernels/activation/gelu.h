#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "kernels/core/bfloat16.h"
#include "kernels/core/stream.h"
#include "kernels/device/cuda_stream.h"

namespace lockstep::kernels {

// GELU, arXiv 1606.08415.
enum class GeluForm {
  kTanh,  // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), GPT-2's "gelu_new"
  kErf,   // x / 2 * (1 + erf(x / sqrt(2)))
};

// output = bf16(gelu(input)), element by element.
struct GeluParams {
  const BFloat16* input = nullptr;  // [num_rows, size]
  BFloat16* output = nullptr;       // [num_rows, size]; may be `input`
  int64_t num_rows = 0;
  int64_t size = 0;
  GeluForm form = GeluForm::kTanh;
};

absl::Status Gelu(const Stream& stream, const GeluParams& params);

// CUDA: `size` is a multiple of 8 and the arrays are aligned to 16 bytes; otherwise
// INVALID_ARGUMENT.
absl::Status Gelu(const CudaStream& stream, const GeluParams& params);

}  // namespace lockstep::kernels
