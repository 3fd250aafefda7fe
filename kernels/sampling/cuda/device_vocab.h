#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "common/status.h"
#include "kernels/core/alignment.h"
#include "kernels/sampling/cuda/sample_cuda.h"

// The shapes that the device's samplers take.
namespace lockstep::kernels {

inline constexpr int kBlocksPerRow = 8;

inline absl::Status CheckDeviceVocab(const char* op, int64_t vocab_size) {
  if (vocab_size > 0 && vocab_size <= kMaxDeviceVocab) return absl::OkStatus();
  return InvalidArgument("{}: the vocabulary must have 1 to {} tokens, got {}", op, kMaxDeviceVocab,
                         vocab_size);
}

// Scores per block of a row's cluster; a multiple of 4.
inline int RowChunkSize(int64_t vocab_size) {
  constexpr int64_t kVector = 4;
  const int64_t per_block = (vocab_size + kBlocksPerRow - 1) / kBlocksPerRow;
  return static_cast<int>((per_block + kVector - 1) / kVector * kVector);
}

// Whether every row can be read 16 bytes at a time.
inline bool IsVectorAligned(const float* logits, int64_t row_stride) {
  return IsAligned(logits, 16) && row_stride % 4 == 0;
}

}  // namespace lockstep::kernels
