#pragma once

#include <cstdint>

#include "kernels/core/ptx/memory.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/kv_cache/device_paged_kv.h"
#include "kernels/rope/rotary_append.h"

// The common part of RotaryAppend's kernels: a warp takes some heads of a token, in a row's order:
// queries, keys, values.
namespace lockstep::kernels {

inline constexpr int kTokenWarpsPerBlock = 4;

[[gnu::always_inline]] constexpr int64_t RowHeads(const RotaryAppendParams& params) {
  return params.num_heads + 2 * params.kv.num_kv_heads;
}

__device__ __forceinline__ bool HasNorm(const RotaryAppendParams& params) {
  return params.q_norm_weight != nullptr || params.k_norm_weight != nullptr;
}

// The token of this warp; its slot is kNoKvSlot for padding, and where there is none.
struct TokenWarp {
  __device__ TokenWarp(const RotaryAppendParams& params, int warps_of_token) {
    warp = int64_t{blockIdx.x} * kTokenWarpsPerBlock + static_cast<int64_t>(threadIdx.x / 32);
    token = warp / warps_of_token;
    slot = token < params.num_tokens ? params.kv_slots[token] : kNoKvSlot;
  }

  int64_t warp;  // its number in the grid
  int64_t token;
  uint64_t slot;
};

// kernel(params, warps_of_token, heads_of_warp).
inline absl::Status LaunchTokenWarps(const CudaStream& stream, const char* name,
                                     void (*kernel)(RotaryAppendParams, int, int),
                                     const RotaryAppendParams& params, int64_t heads_of_warp) {
  const int64_t warps_of_token = (RowHeads(params) + heads_of_warp - 1) / heads_of_warp;
  const int64_t num_warps = params.num_tokens * warps_of_token;
  const int64_t num_blocks = (num_warps + kTokenWarpsPerBlock - 1) / kTokenWarpsPerBlock;
  return Launch(
      stream, name,
      {.grid = dim3(static_cast<unsigned>(num_blocks)), .block = dim3(32 * kTokenWarpsPerBlock)},
      kernel, params, static_cast<int>(warps_of_token), static_cast<int>(heads_of_warp));
}

}  // namespace lockstep::kernels
