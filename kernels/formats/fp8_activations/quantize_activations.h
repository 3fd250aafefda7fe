#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "kernels/core/bfloat16.h"
#include "kernels/core/divide_up.h"
#include "kernels/device/cuda_stream.h"

namespace lockstep::kernels {

// Columns of k that share a scale: those of an activation row, and with block scales those of 128
// weight rows. The last block may have fewer.
inline constexpr int64_t kFp8BlockColumns = 128;
constexpr int64_t NumFp8Blocks(int64_t k) { return DivideUp(k, kFp8BlockColumns); }

// Scales of activations lie block by block, [num_blocks, ActivationScaleStride(num_rows)]: those of
// a tile are neighbours, and the copy engine takes multiples of 16 bytes.
constexpr int64_t ActivationScaleStride(int64_t num_rows) { return DivideUp(num_rows, 4) * 4; }

// Rows of activations to E4M3 codes. Of each row and block, in fp32:
//   scale = max |x| / 448, or 1 if that is 0;
//   code = x / scale, rounded to E4M3 (nearest, ties to even; beyond 448 to 448).
// A row's codes and scales depend on that row alone. NaN becomes the code 0x7F.
struct QuantizeActivationsParams {
  const BFloat16* input = nullptr;  // [num_rows, k]
  int64_t input_stride = 0;         // elements between rows
  int64_t num_rows = 0;
  int64_t k = 0;
  uint8_t* codes = nullptr;  // [num_rows, k]
  float* scales = nullptr;  // [num_blocks, ActivationScaleStride(num_rows)]; padding is not written
};

// INVALID_ARGUMENT unless k is a multiple of 16, the input stride one of 8, and input and codes are
// aligned to 16 bytes.
absl::Status QuantizeActivations(const CudaStream& stream, const QuantizeActivationsParams& params);

// The same on the CPU, at its plainest: what the kernel is compared with.
void QuantizeActivationsReference(const QuantizeActivationsParams& params);

}  // namespace lockstep::kernels
