#include "kernels/core/ptx/memory.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/kv_cache/device_paged_kv.h"
#include "kernels/rope/rotary_append_cuda.h"
#include "kernels/rope/rotate_head.cuh"

// A warp per token and head: q, k and v heads alike, in the order in which they lie in a row.
namespace lockstep::kernels {
namespace {

constexpr int kWarpsPerBlock = 4;
constexpr int kMaxWords = kMaxDeviceRotaryHeadDim / 2;  // pairs of elements of a head

__global__ __launch_bounds__(32 * kWarpsPerBlock) void RotaryAppendKernel(
    const RotaryAppendParams params) {
  __shared__ uint32_t shared_words[kWarpsPerBlock][kMaxWords];
  const int lane = threadIdx.x % 32;
  uint32_t* words = shared_words[threadIdx.x / 32];
  const int head_dim = static_cast<int>(params.kv.head_dim);
  const int half = head_dim / 2;
  const int num_kv_heads = static_cast<int>(params.kv.num_kv_heads);
  const int num_heads = static_cast<int>(params.num_heads);
  const int row_heads = num_heads + 2 * num_kv_heads;
  ptx::WaitForPredecessor();
  ptx::AllowSuccessor();
  const int64_t warp =
      int64_t{blockIdx.x} * kWarpsPerBlock + static_cast<int64_t>(threadIdx.x / 32);
  const int64_t token = warp / row_heads;
  const int head = static_cast<int>(warp % row_heads);
  if (token >= params.num_tokens) return;
  const uint64_t slot = params.kv_slots[token];
  if (slot == kNoKvSlot) return;

  uint32_t* row = reinterpret_cast<uint32_t*>(params.qkv) + warp * half;
  for (int i = lane; i < half; i += 32) words[i] = row[i];
  __syncwarp();
  const auto block = static_cast<int64_t>(slot / kKvBlockTokens);
  const int block_token = static_cast<int>(slot % kKvBlockTokens);
  if (head >= num_heads + num_kv_heads) {
    BFloat16* values = DeviceValues(params.kv, block, head - num_heads - num_kv_heads);
    for (int i = lane; i < half; i += 32) {
      *reinterpret_cast<uint32_t*>(values + DeviceKvOffset(block_token, 2 * i, head_dim)) =
          words[i];
    }
    return;
  }
  const bool is_query = head < num_heads;
  const float* weight = is_query ? params.q_norm_weight : params.k_norm_weight;
  const float inverse_rms =
      weight == nullptr ? 0.0f : HeadInverseRms(words, head_dim, params.norm_eps, lane);
  const int64_t table_row = static_cast<int64_t>(params.positions[token]) * half;
  BFloat16* keys = is_query ? nullptr : DeviceKeys(params.kv, block, head - num_heads);
  for (int i = 2 * lane; i < half; i += 64) {
    const RotaryFactors factors(params.cos + table_row, params.sin + table_row, weight, i, half);
    const RotatedPairs rotated =
        RotatePairs(words, i, half, weight != nullptr, inverse_rms, factors);
    if (is_query) {
      row[i / 2] = rotated.first;
      row[(i + half) / 2] = rotated.second;
    } else {
      *reinterpret_cast<uint32_t*>(keys + DeviceKvOffset(block_token, i, head_dim)) = rotated.first;
      *reinterpret_cast<uint32_t*>(keys + DeviceKvOffset(block_token, i + half, head_dim)) =
          rotated.second;
    }
  }
}

}  // namespace

absl::Status LaunchRotaryAppend(const CudaStream& stream, const RotaryAppendParams& params) {
  const int64_t num_warps = params.num_tokens * (params.num_heads + 2 * params.kv.num_kv_heads);
  return Launch(
      stream, "rotary append",
      {.grid = dim3(static_cast<unsigned>((num_warps + kWarpsPerBlock - 1) / kWarpsPerBlock)),
       .block = dim3(32 * kWarpsPerBlock)},
      RotaryAppendKernel, params);
}

}  // namespace lockstep::kernels
