#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "kernels/core/bfloat16.h"
#include "kernels/core/stream.h"
#include "kernels/device/cuda_stream.h"

namespace lockstep::kernels {

// output[i] = table[indices[i]]: embeddings of tokens and positions, and the rows that need logits.
// Zeros for the index kNoRow, which is padding.
inline constexpr uint32_t kNoRow = UINT32_MAX;
struct GatherRowsParams {
  const BFloat16* table = nullptr;    // [num_table_rows, size]
  const uint32_t* indices = nullptr;  // [num_rows]
  BFloat16* output = nullptr;         // [num_rows, size]
  int64_t num_table_rows = 0;
  int64_t num_rows = 0;
  int64_t size = 0;
};

// Any other index outside the table is a broken invariant: callers check token ids.
absl::Status GatherRows(const Stream& stream, const GatherRowsParams& params);

// CUDA: `size` is a multiple of 8 and the arrays are aligned to 16 bytes; otherwise
// INVALID_ARGUMENT. Any other index outside the table stops the device with an error (a trap).
absl::Status GatherRows(const CudaStream& stream, const GatherRowsParams& params);

}  // namespace lockstep::kernels
