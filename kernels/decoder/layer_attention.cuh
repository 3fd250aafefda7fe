#pragma once

#include <cstdint>

#include "kernels/attention/decode/decode_warp.cuh"
#include "kernels/decoder/decode_layers_words.h"
#include "kernels/decoder/layer_items.cuh"
#include "kernels/decoder/layers_block.cuh"
#include "kernels/decoder/tagged_words.cuh"
#include "kernels/kv_cache/device_paged_kv.h"
#include "kernels/rope/rotate_head.cuh"

namespace lockstep::kernels {

inline constexpr int kFoldAtOnce = 6;  // partial results that a thread requests together

// How far a block has come with its keys and values.
struct AttentionProgress {
  RingSlot slot;
  int score_buffer = 0;
};

// Attention of a layer: reads the words of q, k and v, and writes the words of the attention. Used
// by all consumers. The items (layer_items.cuh) are dealt out to the blocks in turn, to the last
// block first. The block with the first split of a row and KV head folds all splits.
// layer_attention_items.cuh has the members that are only declared here.
template <typename Form>
class LayerAttention {
 public:
  // tag: of the current layer. `progress` must outlive the object.
  __device__ LayerAttention(const LayersBlock<Form>& block, int warp, uint32_t tag,
                            AttentionProgress& progress)
      : block_(block),
        tag_(tag),
        progress_(progress),
        warp_(warp),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  // Every warp calls wait_for_words() once, before it asks for words.
  template <typename WaitForWords>
  __device__ __forceinline__ void Attend(const DecodeLayer& layer,
                                         const WaitForWords& wait_for_words);

 private:
  static constexpr int kHeadDim = Form::kHeadDim;
  static constexpr int kRows = Form::kRows;

  // Numbers the consumers so that those come first which do not multiply. They are also the first
  // to be done with the item's tiles.
  __device__ __forceinline__ int FreeWarp() const {
    static_assert(kMathWarps == kProductWarps);
    return (warp_ + kConsumerWarps - kProductWarps) % kConsumerWarps;
  }

  // The first blocks do it. They keep the residual. So they get here only when all readers of the
  // previous layer's words have finished.
  __device__ __forceinline__ void ClearPaddingRows() const {
    for (int row = 0; row < kRows; ++row) {
      if (block_.NumKeys()[row] != 0 || static_cast<int>(blockIdx.x) != row) continue;
      for (int i = 2 * threadIdx.x; i < block_.QSize() / 2; i += 2 * kConsumerThreads) {
        StoreTagged(OutputWord(row, i), 0, 0, tag_);
      }
    }
    __syncwarp();
  }

  // Prepares one head of the item's row. Heads are numbered: the query heads, then the new key,
  // then the new value. One warp does what rotary_append.h describes. A query goes to where the
  // item's first tile expects it. Calls wait() before it asks for words.
  template <typename Wait>
  __device__ __forceinline__ void PrepareHead(const DecodeLayer& layer, const LayerItem& work,
                                              int head, const Wait& wait) const {
    constexpr int kWords = kHeadDim / 2;
    const int group = block_.Attention().group;
    const int num_heads = static_cast<int>(block_.Params().shape.num_heads);
    const int num_kv_heads = static_cast<int>(block_.Params().shape.num_kv_heads);
    const bool is_query = head < group;
    const bool is_key = head == group;
    const int row_head = is_query ? work.kv_head * group + head
                         : is_key ? num_heads + work.kv_head
                                  : num_heads + num_kv_heads + work.kv_head;
    uint32_t* const words =
        block_.template At<uint32_t>(block_.Memory().head_words) + warp_ * kWords;
    const uint64_t* const from =
        block_.Words(block_.Offsets().qkv) + work.row * (block_.QkvSize() / 2) + row_head * kWords;
    // Gets everything ready that does not depend on the words before it waits for the words.
    constexpr int kHalf = kHeadDim / 2;
    static_assert(kHalf <= 64);  // two elements for each lane
    const uint64_t kv_slot = block_.Params().kv_slots[work.row];
    const int64_t table_row = static_cast<int64_t>(block_.Params().positions[work.row]) * kHalf;
    const float* const weight = is_query ? layer.q_norm : is_key ? layer.k_norm : nullptr;
    const int element = 2 * lane_ < kHalf ? 2 * lane_ : 0;
    const bool has_words = 2 * lane_ < kWords;
    uint32_t* stored[2] = {};  // where two words of the new key or value go
    if (!is_query) {
      PagedKv kv = block_.Attention().params.kv;
      kv.data = layer.kv;
      const auto page = static_cast<int64_t>(kv_slot / kKvBlockTokens);
      const int token = static_cast<int>(kv_slot % kKvBlockTokens);
      BFloat16* const elements =
          is_key ? DeviceKeys(kv, page, work.kv_head) : DeviceValues(kv, page, work.kv_head);
      const int first = is_key ? element : has_words ? 4 * lane_ : 0;
      const int second = is_key ? element + kHalf : first + 2;
      stored[0] = reinterpret_cast<uint32_t*>(elements + DeviceKvOffset(token, first, kHeadDim));
      stored[1] = reinterpret_cast<uint32_t*>(elements + DeviceKvOffset(token, second, kHeadDim));
    }
    ptx::ComputeNow(stored[0]);
    ptx::ComputeNow(stored[1]);
    const RotaryFactors factors(block_.Params().cos + table_row, block_.Params().sin + table_row,
                                weight, element, kHalf);
    __syncwarp();
    wait();
    const uint64_t* const pair[1] = {has_words ? from + 2 * lane_ : nullptr};
    uint2 own = {};
    LoadTaggedPairs(tag_, pair,
                    [&](int, uint32_t first, uint32_t second) { own = make_uint2(first, second); });
    if (!is_query && !is_key) {
      if (has_words) {
        *block_.template At<uint2>(block_.Memory().new_value + 8 * lane_) = own;
        *stored[0] = own.x;
        *stored[1] = own.y;
      }
      return;
    }
    if (has_words) *reinterpret_cast<uint2*>(words + 2 * lane_) = own;
    __syncwarp();
    const float inverse_rms =
        weight == nullptr ? 0.0f : HeadInverseRms(words, kHeadDim, block_.Params().norm_eps, lane_);
    if (2 * lane_ >= kHalf) return;
    uint32_t* const to = block_.template At<uint32_t>(
        is_query ? block_.Kv().layout.queries +
                       progress_.slot.stage * block_.Kv().layout.query_bytes + head * kHeadDim * 2
                 : block_.Memory().new_key);
    const RotatedPairs rotated = RotatePairs(words[element / 2], words[(element + kHalf) / 2],
                                             weight != nullptr, inverse_rms, factors);
    to[element / 2] = rotated.first;
    to[(element + kHalf) / 2] = rotated.second;
    if (is_query) return;
    *stored[0] = rotated.first;
    *stored[1] = rotated.second;
  }

  // Writes the new key and value into the tile, because the copy engine brought the page as it was
  // before this step. One warp does it.
  __device__ __forceinline__ void PatchTile(const LayerItem& work) const;

  // The item's tiles pass through two groups of warps. The warps that do not multiply compute the
  // scores, each warp those of one page of a tile, up to kScoreBuffers tiles ahead. The others
  // follow with the softmax and the values.
  __device__ __forceinline__ void ScoreKeys(const LayerItem& work, bool has_new_key);

  __device__ __forceinline__ void WeighValues(const LayerItem& work);

  __device__ __forceinline__ void WaitForTile() const {
    ptx::WaitBarrier(block_.Kv().FullBarrier(progress_.slot.stage), progress_.slot.phase);
  }
  // Every reader arrives itself. So a race checker sees that the next copy comes after these reads.
  __device__ __forceinline__ void LeaveTile() {
    ptx::Arrive(block_.Kv().EmptyBarrier(progress_.slot.stage));
    progress_.slot.Advance(block_.Attention().num_stages);
    progress_.score_buffer ^= 1;
  }
  __device__ __forceinline__ ScoreExchange Scores() const {
    return {block_.template At<float>(block_.Kv().layout.scores) +
            progress_.score_buffer * block_.Kv().layout.score_floats};
  }

  __device__ __forceinline__ uint64_t* Partial(int slot) const {
    return block_.Words(block_.Offsets().partials) +
           static_cast<int64_t>(slot) * PartialStride(block_.Attention().group, kHeadDim);
  }
  __device__ __forceinline__ uint64_t* OutputWord(int row, int word) const {
    return block_.Words(block_.Offsets().attention) + row * SpreadRow::Words(block_.QSize() / 2) +
           SpreadRow::Offset(word);
  }
  __device__ __forceinline__ int FirstOutputWord(const LayerItem& work) const {
    return work.kv_head * block_.Attention().group * (kHeadDim / 2);
  }

  // Folds the partials of all splits in ascending order. Only the block with the first split calls
  // it.
  __device__ __forceinline__ void FoldSplits(const LayerItem& work) const;

  const LayersBlock<Form> block_;
  const uint32_t tag_;
  AttentionProgress& progress_;
  const int warp_;
  const int lane_;
};

}  // namespace lockstep::kernels
