#pragma once

#include <absl/status/status.h>

#include <type_traits>

#include "kernels/attention/paged_attention.h"
#include "kernels/kv_cache/device_paged_kv.h"

namespace lockstep::kernels {

inline constexpr int64_t kMaxDeviceGroup = 16;  // query heads of one KV head

// What PlanPagedDecode, PagedDecodeAttention and PagedPrefillAttention do after their checks.
absl::Status LaunchDecodePlan(const CudaStream& stream, const PagedDecodeAttentionParams& params,
                              int max_runs);
// The number of runs that LaunchPagedDecode expects in the plan.
int MaxDecodeRuns(const CudaStream& stream, const PagedDecodeAttentionParams& params);
absl::Status LaunchPagedDecode(const CudaStream& stream, const PagedDecodeAttentionParams& params);
absl::Status LaunchPagedPrefill(const CudaStream& stream,
                                const PagedPrefillAttentionParams& params);
// For head_dim 64, 128 and 256.
absl::Status LaunchWarpgroupPrefill(const CudaStream& stream,
                                    const PagedPrefillAttentionParams& params);

// Calls launch(std::integral_constant<int, head_dim>()). Returns false for a head_dim without
// kernels.
template <typename Launcher>
constexpr bool ForHeadDim(int64_t head_dim, const Launcher& launch) {
  switch (head_dim) {
    case 16:
      launch(std::integral_constant<int, 16>());
      return true;
    case 32:
      launch(std::integral_constant<int, 32>());
      return true;
    case 64:
      launch(std::integral_constant<int, 64>());
      return true;
    case 80:
      launch(std::integral_constant<int, 80>());
      return true;
    case 96:
      launch(std::integral_constant<int, 96>());
      return true;
    case 128:
      launch(std::integral_constant<int, 128>());
      return true;
    case 256:
      launch(std::integral_constant<int, 256>());
      return true;
    default:
      return false;
  }
}

// Calls launch(head_dim, std::integral_constant<KvType, type>()), both as constants. Returns false
// for a pool without kernels.
template <typename Launcher>
constexpr bool ForKv(const PagedKv& kv, const Launcher& launch) {
  if (kv.type == KvType::kBFloat16) {
    return ForHeadDim(kv.head_dim, [&](auto head_dim) {
      launch(head_dim, std::integral_constant<KvType, KvType::kBFloat16>());
    });
  }
  if (!DeviceTakesKvCodes(kv.head_dim)) return false;
  return ForHeadDim(kv.head_dim, [&](auto head_dim) {
    if constexpr (DeviceTakesKvCodes(head_dim())) {
      launch(head_dim, std::integral_constant<KvType, KvType::kFp8>());
    }
  });
}

}  // namespace lockstep::kernels
