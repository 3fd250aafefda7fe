#pragma once

#include <absl/status/status.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "common/status.h"
#include "kernels/norm/device_row_size.h"
#include "kernels/norm/row_norm.cuh"

// What the launchers of RMSNorm and LayerNorm share.
namespace lockstep::kernels {

static_assert(kMaxDeviceRowSize == 2 * kRowGroup * kMaxRowThreads);

inline absl::Status CheckRowSize(const char* op, int64_t size) {
  if (size > 0 && size % kRowGroup == 0 && size <= kMaxDeviceRowSize) return absl::OkStatus();
  return InvalidArgument("{}: the row size must be a multiple of {} up to {}, got {}", op,
                         kRowGroup, kMaxDeviceRowSize, size);
}

// Threads of a block for rows of `size` elements: a power of two. Each thread takes one group, or
// two if the row has more than kMaxRowThreads * kRowGroup elements.
inline int RowThreads(int64_t size) {
  const auto num_groups = static_cast<uint32_t>(size / kRowGroup);
  return static_cast<int>(std::clamp<uint32_t>(std::bit_ceil(num_groups), 32, kMaxRowThreads));
}

}  // namespace lockstep::kernels
