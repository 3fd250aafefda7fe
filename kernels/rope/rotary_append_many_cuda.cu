#include <algorithm>

#include "kernels/kv_cache/kv_codes.cuh"
#include "kernels/rope/rotary_append_cuda.h"
#include "kernels/rope/rotate_head.cuh"
#include "kernels/rope/token_warp.cuh"

// RotaryAppend of many tokens. Eight lanes take a head, and a warp four heads at a time. A lane has
// consecutive elements and their partners, so that it reads and writes up to 16 bytes at once. Only
// the sum of squares needs other elements, because its order is fixed: it reads them in shared
// memory.
namespace lockstep::kernels {
namespace {

constexpr int kLanesOfHead = 8;
constexpr int kHeadsAtOnce = 32 / kLanesOfHead;

// `kBytes` bytes, moved by instructions of up to 16.
template <int kBytes>
__device__ __forceinline__ void Move(const void* from, void* to) {
  if constexpr (kBytes == 8) {
    *static_cast<uint2*>(to) = *static_cast<const uint2*>(from);
  } else {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) {
      static_cast<uint4*>(to)[i] = static_cast<const uint4*>(from)[i];
    }
  }
}

template <int kHeadDim, KvType kType>
class TokenHeadQuads {
 public:
  static constexpr int kHalfWords = kHeadDim / 4;           // of a pair of elements each
  static constexpr int kWords = kHalfWords / kLanesOfHead;  // of a lane, in each half
  static constexpr int kChunkWords = kKvChunkCodes / 2;
  // Four heads, in banks that differ.
  static constexpr int kSharedStride = 2 * kHalfWords + kLanesOfHead;
  static constexpr int kSharedWords = kHeadsAtOnce * kSharedStride;

  __device__ TokenHeadQuads(const RotaryAppendParams& params, int64_t token, uint64_t slot,
                            uint32_t* shared_words)
      : params_(params),
        num_heads_(static_cast<int>(params.num_heads)),
        num_kv_heads_(static_cast<int>(params.kv.num_kv_heads)),
        lane_(static_cast<int>(threadIdx.x) % 32),
        block_(static_cast<int64_t>(slot / kKvBlockTokens)),
        block_token_(static_cast<int>(slot % kKvBlockTokens)),
        row_(reinterpret_cast<uint32_t*>(params.qkv) + token * NumHeads() * 2 * kHalfWords),
        shared_words_(shared_words + lane_ / kLanesOfHead * kSharedStride) {
    const int64_t angles = int64_t{params.positions[token]} * 2 * kHalfWords + 2 * FirstWord();
    Move<8 * kWords>(params.cos + angles, cos_);
    Move<8 * kWords>(params.sin + angles, sin_);
  }

  __device__ int NumHeads() const { return num_heads_ + 2 * num_kv_heads_; }

  // Processes the heads first .. end - 1. The next heads are on their way while some are processed.
  __device__ void Process(int first, int end) {
    Words next = Load(first, end);
    for (int head = first; head < end; head += kHeadsAtOnce) {
      Words words = next;
      next = Load(head + kHeadsAtOnce, end);
      Finish(head + lane_ / kLanesOfHead, head < num_heads_ + num_kv_heads_, end, words);
    }
  }

 private:
  struct Words {
    alignas(16) uint32_t first[kWords];
    alignas(16) uint32_t second[kWords];
  };

  __device__ int FirstWord() const { return lane_ % kLanesOfHead * kWords; }

  // Of the head that this lane's group has.
  __device__ Words Load(int first_head, int end) const {
    Words words = {};
    const int head = first_head + lane_ / kLanesOfHead;
    if (head >= end) return words;
    const uint32_t* const from = row_ + head * 2 * kHalfWords + FirstWord();
    Move<4 * kWords>(from, words.first);
    Move<4 * kWords>(from + kHalfWords, words.second);
    return words;
  }

  // `rotates`: whether any head of the warp is a query or a key.
  __device__ void Finish(int head, bool rotates, int end, Words& words) {
    const bool is_query = head < num_heads_;
    const bool is_value = head >= num_heads_ + num_kv_heads_;
    if (rotates) {
      const float* const weight = is_query ? params_.q_norm_weight : params_.k_norm_weight;
      const float inverse_rms = HasNorm(params_) ? InverseRms(words) : 0.0f;
      if (!is_value) Rotate(weight, inverse_rms, words);
    }
    const int kv_head = head - num_heads_ - (is_value ? num_kv_heads_ : 0);
    const bool exists = head < end;
    if (kType == KvType::kFp8) AppendCodes(is_value, kv_head, exists && !is_query, words);
    if (!exists) return;
    if (is_query) {
      uint32_t* const to = row_ + head * 2 * kHalfWords + FirstWord();
      Move<4 * kWords>(words.first, to);
      Move<4 * kWords>(words.second, to + kHalfWords);
    } else if (kType == KvType::kBFloat16) {
      BFloat16* const to = is_value ? DeviceValues(params_.kv, block_, kv_head)
                                    : DeviceKeys(params_.kv, block_, kv_head);
      Append(words.first, 0, to);
      Append(words.second, kHeadDim / 2, to);
    }
  }

  __device__ float InverseRms(const Words& words) const {
    __syncwarp();
    Move<4 * kWords>(words.first, shared_words_ + FirstWord());
    Move<4 * kWords>(words.second, shared_words_ + kHalfWords + FirstWord());
    __syncwarp();
    return HeadInverseRms(shared_words_, kHeadDim, params_.norm_eps, lane_);
  }

  __device__ void Rotate(const float* weight, float inverse_rms, Words& words) {
    if (weight != nullptr && weight != loaded_weight_) {
      loaded_weight_ = weight;
      Move<8 * kWords>(weight + 2 * FirstWord(), first_weight_);
      Move<8 * kWords>(weight + 2 * (kHalfWords + FirstWord()), second_weight_);
    }
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      RotaryFactors factors;
      factors.cos = Pair(cos_, i);
      factors.sin = Pair(sin_, i);
      factors.first_weight = Pair(first_weight_, i);
      factors.second_weight = Pair(second_weight_, i);
      const RotatedPairs pairs =
          RotatePairs(words.first[i], words.second[i], weight != nullptr, inverse_rms, factors);
      words.first[i] = pairs.first;
      words.second[i] = pairs.second;
    }
  }
  __device__ static float2 Pair(const float (&values)[2 * kWords], int i) {
    return make_float2(values[2 * i], values[2 * i + 1]);
  }

  // Writes this lane's words of a half that begins at `first_dim` to a key or value of the block.
  __device__ void Append(const uint32_t (&words)[kWords], int first_dim, BFloat16* to) const {
    constexpr int kPartWords = std::min(kWords, kKvChunkElements / 2);
#pragma unroll
    for (int i = 0; i < kWords; i += kPartWords) {
      const int dim = first_dim + 2 * (FirstWord() + i);
      Move<4 * kPartWords>(words + i, to + DeviceKvOffset(block_token_, dim, kHeadDim));
    }
  }

  // Writes a key, or a value, as codes. Call from all lanes. The lanes of a head without `writes`
  // write nothing.
  __device__ void AppendCodes(bool is_value, int kv_head, bool writes, const Words& words) const {
    uint32_t magnitudes = 0;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      magnitudes = MaxMagnitudes(MaxMagnitudes(magnitudes, words.first[i]), words.second[i]);
    }
    magnitudes = MaxOfPair(magnitudes);
#pragma unroll
    for (int distance = kLanesOfHead / 2; distance > 0; distance /= 2) {
      magnitudes = max(magnitudes, __shfl_xor_sync(0xFFFFFFFFu, magnitudes, distance));
    }
    const uint32_t scale = KvScaleOf(magnitudes);
    const float inverse_scale = InverseKvScale(scale);
    uint32_t first[kWords];
    uint32_t second[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      first[i] = KvCodes(words.first[i], inverse_scale);
      second[i] = KvCodes(words.second[i], inverse_scale);
    }
    uint8_t* const to = is_value ? DeviceValueCodes(params_.kv, block_, kv_head)
                                 : DeviceKeyCodes(params_.kv, block_, kv_head);
    const int dim = 2 * FirstWord();
    if constexpr (kWords == kChunkWords) {
      if (writes) {
        WriteCodes<4>(first, first + 4, dim, to);
        WriteCodes<4>(second, second + 4, dim + kHeadDim / 2, to);
      }
    } else {
      // Lanes with the lower and the upper 8 of 16 dims exchange codes. Then the lower lane has all
      // 16 dims in the first half of the head, the upper one in the second half.
      constexpr int kDistance = kChunkWords / 2 / kWords;
      const bool is_upper = (lane_ & kDistance) != 0;
      uint32_t received[kWords];
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        received[i] = __shfl_xor_sync(0xFFFFFFFFu, is_upper ? first[i] : second[i], kDistance);
      }
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        first[i] = is_upper ? received[i] : first[i];
        second[i] = is_upper ? second[i] : received[i];
      }
      if (writes) {
        WriteCodes<kWords>(first, second, is_upper ? dim - 8 + kHeadDim / 2 : dim, to);
      }
    }
    if (!writes || lane_ % kLanesOfHead != 0) return;
    (is_value ? DeviceValueScales(params_.kv, block_, kv_head)
              : DeviceKeyScales(params_.kv, block_, kv_head))[block_token_] =
        static_cast<uint8_t>(scale);
  }

  // Writes codes of 2 * kCount dims from `dim` on, and of as many 8 dims later.
  template <int kCount>
  __device__ void WriteCodes(const uint32_t* low, const uint32_t* high, int dim,
                             uint8_t* to) const {
    alignas(16) uint32_t mixed[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) mixed[i] = __byte_perm(low[i], high[i], 0x5140);
    Move<4 * kCount>(mixed, to + DeviceKvCodeOffset(block_token_, dim, kHeadDim));
  }

  const RotaryAppendParams& params_;
  const int num_heads_;
  const int num_kv_heads_;
  const int lane_;
  const int64_t block_;
  const int block_token_;
  uint32_t* const row_;           // of the token, in pairs of elements
  uint32_t* const shared_words_;  // of this lane's head
  const float* loaded_weight_ = nullptr;
  alignas(16) float cos_[2 * kWords];
  alignas(16) float sin_[2 * kWords];
  alignas(16) float first_weight_[2 * kWords] = {};
  alignas(16) float second_weight_[2 * kWords] = {};
};

template <int kHeadDim, KvType kType>
__global__ __launch_bounds__(32 * kTokenWarpsPerBlock) void RotaryAppendManyKernel(
    const __grid_constant__ RotaryAppendParams params, int warps_of_token, int heads_of_warp) {
  using Heads = TokenHeadQuads<kHeadDim, kType>;
  __shared__ __align__(16) uint32_t shared_words[kTokenWarpsPerBlock][Heads::kSharedWords];
  ptx::AllowSuccessor();
  // From here to the wait, read only what the comment on RotaryAppend lists.
  const TokenWarp warp(params, warps_of_token);
  if (warp.slot == kNoKvSlot) return ptx::WaitForPredecessor();
  Heads heads(params, warp.token, warp.slot, shared_words[threadIdx.x / 32]);
  ptx::WaitForPredecessor();
  const int first = static_cast<int>(warp.warp % warps_of_token) * heads_of_warp;
  heads.Process(first, min(first + heads_of_warp, heads.NumHeads()));
}

template <int kHeadDim>
absl::Status LaunchHeadDim(const CudaStream& stream, const RotaryAppendParams& params) {
  // Enough warps to fill the device, but no more for a token than it has groups of heads.
  constexpr int64_t kWarpsOfMultiprocessor = 16;
  const int64_t num_warps = stream.num_multiprocessors * kWarpsOfMultiprocessor;
  const int64_t groups = (RowHeads(params) + kHeadsAtOnce - 1) / kHeadsAtOnce;
  const int64_t warps_of_token =
      std::clamp((num_warps + params.num_tokens - 1) / params.num_tokens, int64_t{1}, groups);
  const int64_t groups_of_warp = (groups + warps_of_token - 1) / warps_of_token;
  return LaunchTokenWarps(stream, "rotary append of many tokens",
                          params.kv.type == KvType::kFp8
                              ? RotaryAppendManyKernel<kHeadDim, KvType::kFp8>
                              : RotaryAppendManyKernel<kHeadDim, KvType::kBFloat16>,
                          params, groups_of_warp * kHeadsAtOnce);
}

}  // namespace

absl::Status LaunchRotaryAppendMany(const CudaStream& stream, const RotaryAppendParams& params) {
  switch (params.kv.head_dim) {
    case 64:
      return LaunchHeadDim<64>(stream, params);
    case 128:
      return LaunchHeadDim<128>(stream, params);
    default:
      return LaunchHeadDim<256>(stream, params);
  }
}

}  // namespace lockstep::kernels
