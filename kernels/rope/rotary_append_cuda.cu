#include <algorithm>

#include "kernels/kv_cache/kv_codes.cuh"
#include "kernels/rope/rotary_append_cuda.h"
#include "kernels/rope/rotate_head.cuh"
#include "kernels/rope/token_warp.cuh"

// RotaryAppend of few tokens, or with a head_dim that the kernel for many does not take. A warp
// takes its heads one after the other. What depends on the position alone stays in registers.
namespace lockstep::kernels {
namespace {

// kSteps: how many steps a head takes. In one step each of 32 lanes takes a pair of elements and
// its partner.
template <int kSteps>
struct HeadWords {
  uint32_t words[kSteps];
  uint32_t partners[kSteps];
};

template <int kSteps, KvType kType>
class TokenHeads {
 public:
  using Words = HeadWords<kSteps>;

  __device__ TokenHeads(const RotaryAppendParams& params, int64_t token, uint64_t slot,
                        uint32_t* shared_words)
      : params_(params),
        head_dim_(static_cast<int>(params.kv.head_dim)),
        half_(head_dim_ / 2),
        num_heads_(static_cast<int>(params.num_heads)),
        num_kv_heads_(static_cast<int>(params.kv.num_kv_heads)),
        lane_(static_cast<int>(threadIdx.x) % 32),
        block_(static_cast<int64_t>(slot / kKvBlockTokens)),
        block_token_(static_cast<int>(slot % kKvBlockTokens)),
        row_(reinterpret_cast<uint32_t*>(params.qkv) + token * NumHeads() * half_),
        shared_words_(shared_words) {
    const int64_t table_row = static_cast<int64_t>(params.positions[token]) * half_;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int i = Element(step);
      if (i >= half_) continue;
      const float* const cos = params.cos + table_row;
      const float* const sin = params.sin + table_row;
      query_factors_[step] = RotaryFactors(cos, sin, params.q_norm_weight, i, half_);
      key_factors_[step] = RotaryFactors(cos, sin, params.k_norm_weight, i, half_);
      if constexpr (kType == KvType::kFp8) {
        // Lanes 4 apart exchange codes, so that each writes four bytes of a chunk.
        const int dim = (IsUpperLane() ? i - 8 + half_ : i) / kKvChunkCodes * kKvChunkCodes + i % 8;
        word_offset_[step] = DeviceKvCodeOffset(block_token_, dim, head_dim_);
      } else {
        word_offset_[step] = DeviceKvOffset(block_token_, i, head_dim_);
        partner_offset_[step] = DeviceKvOffset(block_token_, i + half_, head_dim_);
      }
    }
  }

  __device__ int NumHeads() const { return num_heads_ + 2 * num_kv_heads_; }

  // Processes the heads first .. end - 1. The next head is on its way while one is processed.
  __device__ void Process(int first, int end) {
    Words next = Load(first);
    for (int head = first; head < end; ++head) {
      const Words words = next;
      if (head + 1 < end) next = Load(head + 1);
      Finish(head, words, HasNorm(params_) ? InverseRms(words) : 0.0f);
    }
  }

 private:
  __device__ int Element(int step) const { return 2 * lane_ + 64 * step; }
  __device__ Words Load(int head) const {
    Words words = {};
    const uint32_t* const from = row_ + head * half_;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (Element(step) >= half_) continue;
      words.words[step] = from[Element(step) / 2];
      words.partners[step] = from[(Element(step) + half_) / 2];
    }
    return words;
  }
  __device__ float InverseRms(const Words& head) const {
    __syncwarp();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (Element(step) >= half_) continue;
      shared_words_[Element(step) / 2] = head.words[step];
      shared_words_[(Element(step) + half_) / 2] = head.partners[step];
    }
    __syncwarp();
    return HeadInverseRms(shared_words_, head_dim_, params_.norm_eps, lane_);
  }

  // Rotates the head if it is a query or a key, and writes it.
  __device__ void Finish(int head, const Words& words, float inverse_rms) const {
    const bool is_query = head < num_heads_;
    const bool is_value = head >= num_heads_ + num_kv_heads_;
    const bool has_norm = (is_query ? params_.q_norm_weight : params_.k_norm_weight) != nullptr;
    RotatedPairs pairs[kSteps] = {};
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (Element(step) >= half_) continue;
      pairs[step] = {words.words[step], words.partners[step]};
      if (!is_value) {
        RotaryFactors factors = key_factors_[step];
        if (is_query) factors = query_factors_[step];
        pairs[step] =
            RotatePairs(pairs[step].first, pairs[step].second, has_norm, inverse_rms, factors);
      }
      if (is_query) {
        row_[head * half_ + Element(step) / 2] = pairs[step].first;
        row_[head * half_ + (Element(step) + half_) / 2] = pairs[step].second;
      }
    }
    if (!is_query) Append(is_value, head - num_heads_ - (is_value ? num_kv_heads_ : 0), pairs);
  }

  // Writes a key, or a value, to its place.
  __device__ void Append(bool is_value, int kv_head, const RotatedPairs (&pairs)[kSteps]) const {
    if constexpr (kType == KvType::kFp8) {
      return AppendCodes(is_value, kv_head, pairs);
    } else {
      BFloat16* const to = is_value ? DeviceValues(params_.kv, block_, kv_head)
                                    : DeviceKeys(params_.kv, block_, kv_head);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        if (Element(step) >= half_) continue;
        *reinterpret_cast<uint32_t*>(to + word_offset_[step]) = pairs[step].first;
        *reinterpret_cast<uint32_t*>(to + partner_offset_[step]) = pairs[step].second;
      }
    }
  }

  // Elements that do not exist are zero.
  __device__ void AppendCodes(bool is_value, int kv_head,
                              const RotatedPairs (&pairs)[kSteps]) const {
    uint32_t magnitudes = 0;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      magnitudes = MaxMagnitudes(MaxMagnitudes(magnitudes, pairs[step].first), pairs[step].second);
    }
    const uint32_t scale = KvScaleOf(__reduce_max_sync(0xFFFFFFFFu, MaxOfPair(magnitudes)));
    const float inverse_scale = InverseKvScale(scale);
    uint8_t* const to = is_value ? DeviceValueCodes(params_.kv, block_, kv_head)
                                 : DeviceKeyCodes(params_.kv, block_, kv_head);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const uint32_t first = KvCodes(pairs[step].first, inverse_scale);
      const uint32_t second = KvCodes(pairs[step].second, inverse_scale);
      // The lower lane takes both lanes' first codes, the upper one their second codes.
      const uint32_t sent = IsUpperLane() ? first : second;
      const uint32_t received = __shfl_xor_sync(0xFFFFFFFFu, sent, 4);
      if (Element(step) >= half_) continue;
      const uint32_t low = IsUpperLane() ? received : first;
      const uint32_t high = IsUpperLane() ? second : received;
      *reinterpret_cast<uint32_t*>(to + word_offset_[step]) = __byte_perm(low, high, 0x5140);
    }
    if (lane_ != 0) return;
    (is_value ? DeviceValueScales(params_.kv, block_, kv_head)
              : DeviceKeyScales(params_.kv, block_, kv_head))[block_token_] =
        static_cast<uint8_t>(scale);
  }

  // Whether the lane has the upper 8 of 16 dims.
  __device__ bool IsUpperLane() const { return (lane_ & 4) != 0; }

  const RotaryAppendParams& params_;
  const int head_dim_;
  const int half_;
  const int num_heads_;
  const int num_kv_heads_;
  const int lane_;
  const int64_t block_;
  const int block_token_;
  uint32_t* const row_;           // of the token, in pairs of elements
  uint32_t* const shared_words_;  // of one head
  RotaryFactors query_factors_[kSteps];
  RotaryFactors key_factors_[kSteps];
  int word_offset_[kSteps];
  int partner_offset_[kSteps];  // not for codes
};

template <int kSteps, KvType kType>
__global__ __launch_bounds__(32 * kTokenWarpsPerBlock) void RotaryAppendKernel(
    const __grid_constant__ RotaryAppendParams params, int warps_of_token, int heads_of_warp) {
  __shared__ uint32_t shared_words[kTokenWarpsPerBlock][64 * kSteps];
  ptx::AllowSuccessor();
  // From here to the wait, read only what the comment on RotaryAppend lists.
  const TokenWarp warp(params, warps_of_token);
  if (warp.slot == kNoKvSlot) return ptx::WaitForPredecessor();
  TokenHeads<kSteps, kType> heads(params, warp.token, warp.slot, shared_words[threadIdx.x / 32]);
  ptx::WaitForPredecessor();
  const int first = static_cast<int>(warp.warp % warps_of_token) * heads_of_warp;
  heads.Process(first, min(first + heads_of_warp, heads.NumHeads()));
}

template <KvType kType>
auto KernelOf(int64_t head_dim) {
  return head_dim <= 128 ? RotaryAppendKernel<1, kType> : RotaryAppendKernel<2, kType>;
}

}  // namespace

absl::Status LaunchRotaryAppend(const CudaStream& stream, const RotaryAppendParams& params) {
  // A warp for each head is fastest while all warps are on the device at once.
  constexpr int64_t kWarpsOfMultiprocessor = 32;
  const int64_t num_warps = stream.num_multiprocessors * kWarpsOfMultiprocessor;
  const int64_t num_heads = params.num_tokens * RowHeads(params);
  const int64_t head_dim = params.kv.head_dim;
  if (num_heads > num_warps && TakesManyTokens(head_dim)) {
    return LaunchRotaryAppendMany(stream, params);
  }
  return LaunchTokenWarps(stream, "rotary append",
                          params.kv.type == KvType::kFp8 ? KernelOf<KvType::kFp8>(head_dim)
                                                         : KernelOf<KvType::kBFloat16>(head_dim),
                          params, std::clamp(num_heads / num_warps, int64_t{1}, RowHeads(params)));
}

}  // namespace lockstep::kernels
