#pragma once

#include <absl/status/status.h>

#include "kernels/rope/rotary_append.h"

namespace lockstep::kernels {

inline constexpr int kMaxDeviceRotaryHeadDim = 256;

// RotaryAppend on CUDA, after its checks.
absl::Status LaunchRotaryAppend(const CudaStream& stream, const RotaryAppendParams& params);

// The same for many tokens, with a head_dim of 64, 128 or 256.
absl::Status LaunchRotaryAppendRows(const CudaStream& stream, const RotaryAppendParams& params);

}  // namespace lockstep::kernels
