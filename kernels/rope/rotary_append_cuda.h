#pragma once

#include <absl/status/status.h>

#include "kernels/rope/rotary_append.h"

namespace lockstep::kernels {

inline constexpr int kMaxDeviceRotaryHeadDim = 256;
inline constexpr int kRotaryAlignmentBytes = 16;

// RotaryAppend on CUDA, after its checks.
absl::Status LaunchRotaryAppend(const CudaStream& stream, const RotaryAppendParams& params);

// The same with a kernel for many tokens, if it takes the head_dim.
constexpr bool TakesManyTokens(int64_t head_dim) {
  return head_dim == 64 || head_dim == 128 || head_dim == 256;
}
absl::Status LaunchRotaryAppendMany(const CudaStream& stream, const RotaryAppendParams& params);

}  // namespace lockstep::kernels
