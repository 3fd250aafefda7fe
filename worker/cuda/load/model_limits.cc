#include "worker/cuda/load/model_limits.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

#include "common/status.h"
#include "kernels/kv_cache/device_paged_kv.h"
#include "kernels/norm/device_row_size.h"
#include "kernels/sampling/cuda/sample_cuda.h"

namespace lockstep::worker {
namespace {

// All layers of a pass are computed in one way.
absl::Status CheckKinds(const ModelPlan& plan) {
  if (const int64_t window_tokens = plan.ShortestWindow(); window_tokens > 0) {
    return Unimplemented("layers with a window of {} tokens: the CUDA kernels have none yet",
                         window_tokens);
  }
  if (plan.rotations.size() > 1) {
    return Unimplemented("layers with {} different rotations: the CUDA backend has one table",
                         plan.rotations.size());
  }
  if (plan.kinds.size() > 1) {
    return Unimplemented("layers of {} kinds: the CUDA backend takes one", plan.kinds.size());
  }
  return absl::OkStatus();
}

// Ranks exchange rows in pieces of 16 bytes.
absl::Status CheckShares(const ModelPlan& plan, int64_t degree) {
  constexpr int64_t kBFloat16s = 8;
  constexpr int64_t kFloats = 4;
  const std::tuple<std::string_view, int64_t, int64_t> shares[] = {
      {"hidden size", plan.hidden_size, kBFloat16s},
      {"intermediate size", plan.kinds.front().mlp.intermediate_size, kBFloat16s},
      {"vocabulary", plan.vocab_size, kFloats}};
  for (const auto& [name, size, unit] : shares) {
    if (size / degree % unit != 0) {
      return Unimplemented(
          "{} GPUs cannot share a {} of {}: each one's part must be a multiple of {}", degree, name,
          size, unit);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCudaPlan(const ModelPlan& plan, int64_t degree) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKinds(plan));
  const LayerKind& kind = plan.kinds.front();
  const AttentionPlan& attention = kind.attention;
  constexpr std::array<int64_t, 7> kHeadDims = {16, 32, 64, 80, 96, 128, 256};
  if (std::find(kHeadDims.begin(), kHeadDims.end(), attention.head_dim) == kHeadDims.end()) {
    return Unimplemented("head size is {}, the CUDA kernels take {}", attention.head_dim,
                         fmt::join(kHeadDims, ", "));
  }
  if (plan.kv_groups.front().type == kernels::KvType::kFp8 &&
      !kernels::DeviceTakesKvCodes(attention.head_dim)) {
    return Unimplemented(
        "head size is {}: the CUDA kernels keep keys and values in FP8 only for multiples of 32",
        attention.head_dim);
  }
  if (attention.num_heads / attention.num_kv_heads > 16) {
    return Unimplemented("{} heads share a KV head, the CUDA kernels take at most 16",
                         attention.num_heads / attention.num_kv_heads);
  }
  for (const int64_t size : {plan.hidden_size, kind.mlp.intermediate_size}) {
    if (size % 8 != 0) {
      return Unimplemented(
          "a hidden or intermediate size is {}, the CUDA kernels need a multiple "
          "of 8",
          size);
    }
  }
  if (plan.hidden_size > kernels::kMaxDeviceRowSize) {
    return Unimplemented("hidden size is {}, the CUDA kernels take at most {}", plan.hidden_size,
                         kernels::kMaxDeviceRowSize);
  }
  if (plan.vocab_size > kernels::kMaxDeviceVocab) {
    return Unimplemented("the vocabulary has {} tokens, the CUDA kernels take at most {}",
                         plan.vocab_size, kernels::kMaxDeviceVocab);
  }
  return degree == 1 ? absl::OkStatus() : CheckShares(plan, degree);
}

absl::StatusOr<std::vector<int>> RankDevicesOf(const ModelOptions& options) {
  const int degree = static_cast<int>(options.tensor_parallel);
  if (degree > kMaxCudaRanks) {
    return Unimplemented("{} ranks of tensor parallelism: at most {} GPUs can share a model",
                         degree, kMaxCudaRanks);
  }
  std::vector<int> devices = options.rank_devices;
  if (devices.empty()) {
    for (int rank = 0; rank < degree; ++rank) devices.push_back(rank);
  }
  if (static_cast<int>(devices.size()) != degree) {
    return InvalidArgument("{} GPUs for {} ranks of tensor parallelism", devices.size(), degree);
  }
  return devices;
}

}  // namespace lockstep::worker
