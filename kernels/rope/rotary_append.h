#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "kernels/core/bfloat16.h"
#include "kernels/device/cuda_stream.h"
#include "kernels/kv_cache/paged_kv.h"

namespace lockstep::kernels {

struct Stream;  // kernels/core/stream.h

// What happens to the output of the QKV projection before attention, for each token: RMSNorm over
// every q and k head (Qwen3 only), then rotary embedding of q and k (arXiv 2104.09864, element i
// paired with i + head_dim / 2), then one rounding. Nothing is rounded between norm and rotation. q
// is rotated in place. k and v go to the token's place in the KV pool, as codes if it holds codes.
struct RotaryAppendParams {
  BFloat16* qkv = nullptr;               // [num_tokens, num_heads + 2 * kv.num_kv_heads, head_dim]
  const float* q_norm_weight = nullptr;  // [head_dim], or null: no norm
  const float* k_norm_weight = nullptr;  // [head_dim], or null
  float norm_eps = 0.0f;
  const float* cos = nullptr;           // [max_positions, head_dim / 2]
  const float* sin = nullptr;           // [max_positions, head_dim / 2]
  const uint32_t* positions = nullptr;  // [num_tokens]
  const uint64_t* kv_slots = nullptr;   // [num_tokens]: block * 16 + token in block, all distinct
  PagedKv kv;
  int64_t num_heads = 0;
  int64_t num_tokens = 0;
};

// INVALID_ARGUMENT for an odd head_dim or one above 512.
absl::Status RotaryAppend(const Stream& stream, const RotaryAppendParams& params);

// On the device k and v go to the order of kernels/kv_cache/device_paged_kv.h. A token with the
// slot kNoKvSlot is padding at any position: nothing of it is read or written. With overlapped
// launches the kernel may read kv_slots, positions, cos, sin and the norm weights before it waits
// for its predecessor. The kernel that writes one of these must let no successor start before it
// has ended, as PrepareStepInputs does without next_may_start.
// INVALID_ARGUMENT for a head_dim that is no multiple of 16 (with codes: of 32) or above 256, and
// where qkv, kv.data, cos, sin or a norm weight is not aligned to 16 bytes.
inline constexpr uint64_t kNoKvSlot = UINT64_MAX;
absl::Status RotaryAppend(const CudaStream& stream, const RotaryAppendParams& params);

}  // namespace lockstep::kernels
