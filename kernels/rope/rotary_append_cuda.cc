#include "kernels/rope/rotary_append_cuda.h"

#include "common/status.h"

namespace lockstep::kernels {

absl::Status RotaryAppend(const CudaStream& stream, const RotaryAppendParams& params) {
  if (params.kv.head_dim % 16 != 0 || params.kv.head_dim > kMaxDeviceRotaryHeadDim) {
    return InvalidArgument(
        "rotary embedding: on CUDA head_dim must be a multiple of 16 and at most {}, got {}",
        kMaxDeviceRotaryHeadDim, params.kv.head_dim);
  }
  if (params.num_tokens <= 0) return absl::OkStatus();
  return LaunchRotaryAppend(stream, params);
}

}  // namespace lockstep::kernels
