#include "worker/cuda/load/model_limits.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

#include "common/status.h"
#include "kernels/norm/device_row_size.h"
#include "kernels/sampling/cuda/sample_cuda.h"

namespace lockstep::worker {
namespace {

// Ranks exchange rows in pieces of 16 bytes.
absl::Status CheckShares(const ModelSpec& spec, int64_t degree) {
  constexpr int64_t kBFloat16s = 8;
  constexpr int64_t kFloats = 4;
  const std::tuple<std::string_view, int64_t, int64_t> shares[] = {
      {"hidden size", spec.hidden_size, kBFloat16s},
      {"intermediate size", spec.intermediate_size, kBFloat16s},
      {"vocabulary", spec.vocab_size, kFloats}};
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

absl::Status CheckCudaSpec(const ModelSpec& spec, int64_t degree) {
  constexpr std::array<int64_t, 7> kHeadDims = {16, 32, 64, 80, 96, 128, 256};
  if (std::find(kHeadDims.begin(), kHeadDims.end(), spec.head_dim) == kHeadDims.end()) {
    return Unimplemented("head size is {}, the CUDA kernels take {}", spec.head_dim,
                         fmt::join(kHeadDims, ", "));
  }
  if (spec.num_heads / spec.num_kv_heads > 16) {
    return Unimplemented("{} heads share a KV head, the CUDA kernels take at most 16",
                         spec.num_heads / spec.num_kv_heads);
  }
  for (const int64_t size : {spec.hidden_size, spec.intermediate_size}) {
    if (size % 8 != 0) {
      return Unimplemented(
          "a hidden or intermediate size is {}, the CUDA kernels need a multiple "
          "of 8",
          size);
    }
  }
  if (spec.hidden_size > kernels::kMaxDeviceRowSize) {
    return Unimplemented("hidden size is {}, the CUDA kernels take at most {}", spec.hidden_size,
                         kernels::kMaxDeviceRowSize);
  }
  if (spec.vocab_size > kernels::kMaxDeviceVocab) {
    return Unimplemented("the vocabulary has {} tokens, the CUDA kernels take at most {}",
                         spec.vocab_size, kernels::kMaxDeviceVocab);
  }
  return degree == 1 ? absl::OkStatus() : CheckShares(spec, degree);
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
