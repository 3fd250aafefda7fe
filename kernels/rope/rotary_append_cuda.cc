#include "kernels/rope/rotary_append_cuda.h"

#include <initializer_list>

#include "common/status.h"
#include "kernels/core/alignment.h"
#include "kernels/kv_cache/device_paged_kv.h"

namespace lockstep::kernels {

absl::Status RotaryAppend(const CudaStream& stream, const RotaryAppendParams& params) {
  if (params.kv.head_dim % 16 != 0 || params.kv.head_dim > kMaxDeviceRotaryHeadDim) {
    return InvalidArgument(
        "rotary embedding: on CUDA head_dim must be a multiple of 16 and at most {}, got {}",
        kMaxDeviceRotaryHeadDim, params.kv.head_dim);
  }
  if (params.kv.type == KvType::kFp8 && !DeviceTakesKvCodes(params.kv.head_dim)) {
    return InvalidArgument(
        "rotary embedding: with keys and values in FP8 head_dim must be a multiple of 32 on CUDA, "
        "got {}",
        params.kv.head_dim);
  }
  if (params.num_tokens <= 0) return absl::OkStatus();
  for (const void* const address :
       std::initializer_list<const void*>{params.qkv, params.kv.data, params.q_norm_weight,
                                          params.k_norm_weight, params.cos, params.sin}) {
    if (!IsAligned(address, kRotaryAlignmentBytes)) {
      return InvalidArgument(
          "rotary embedding: heads, angles and weights must be aligned to {} bytes on CUDA",
          kRotaryAlignmentBytes);
    }
  }
  return LaunchRotaryAppend(stream, params);
}

}  // namespace lockstep::kernels
