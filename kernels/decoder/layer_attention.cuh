#pragma once

#include <cstdint>

#include "kernels/attention/decode/decode_warp.cuh"
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
                                         const WaitForWords& wait_for_words) {
    bool has_waited = false;
    const auto wait = [&] {
      if (!has_waited) wait_for_words();
      has_waited = true;
    };
    const DecodeArguments& arguments = block_.Attention();
    const int num_items = ptx::WarpUniform(NumItems(block_));
    const bool is_only_item = num_items <= static_cast<int>(gridDim.x);
    ClearPaddingRows();
    for (int item = FirstItem(); item < num_items; item += gridDim.x) {
      const LayerItem work = is_only_item ? BlockItem(block_) : FindWork(block_, item);
      const bool has_new_key = work.key_end == block_.NumKeys()[work.row];
      const int num_heads = arguments.group + (has_new_key ? 2 : 0);
      for (int head = FreeWarp(); head < num_heads; head += kConsumerWarps) {
        PrepareHead(layer, work, head, wait);
        __syncwarp();  // lanes without elements were done earlier
      }
      wait();
      SyncConsumers();
      if (warp_ < kMathWarps) {
        WeighValues(work);
      } else {
        ScoreKeys(work, has_new_key);
      }
      __syncwarp();  // some lanes had nothing to store
      // The next item needs this one's memory. Without a next item, the barriers of the products
      // come before the next use.
      if (!is_only_item) SyncConsumers();
    }
    wait();
    for (int item = FirstItem(); item < num_items; item += gridDim.x) {
      const LayerItem work = is_only_item ? BlockItem(block_) : FindWork(block_, item);
      if (work.num_parts > 1 && work.key_begin == 0) FoldSplits(work);
    }
  }

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
  __device__ __forceinline__ void PatchTile(const LayerItem& work) const {
    constexpr int kWords = kHeadDim / 2;
    const int key = work.key_end - 1;
    unsigned char* const page = block_.template At<unsigned char>(
        progress_.slot.stage * DecodeShared<kHeadDim>::kTileBytes +
        key % kKeyTile / kKvBlockTokens * KvTile<kHeadDim>::kPageBytes);
    const uint32_t* const new_key = block_.template At<uint32_t>(block_.Memory().new_key);
    const uint32_t* const new_value = block_.template At<uint32_t>(block_.Memory().new_value);
#pragma unroll
    for (int word = lane_; word < kWords; word += 32) {
      const int offset = 2 * DeviceKvOffset(key % kKvBlockTokens, 2 * word, kHeadDim);
      *reinterpret_cast<uint32_t*>(page + offset) = new_key[word];
      *reinterpret_cast<uint32_t*>(page + KvTile<kHeadDim>::kHalfBytes + offset) = new_value[word];
    }
  }

  // The item's tiles pass through two groups of warps. The warps that do not multiply compute the
  // scores, each warp those of one page of a tile, up to kScoreBuffers tiles ahead. The others
  // follow with the softmax and the values.
  __device__ __forceinline__ void ScoreKeys(const LayerItem& work, bool has_new_key) {
    const DecodeArguments& arguments = block_.Attention();
    const int page = warp_ - kMathWarps;
    MathWarp<kHeadDim, 1> math = {};
    math.lane = lane_;
    math.LoadQueries(block_.Kv().Query(progress_.slot.stage), arguments.group);
    for (int key = work.key_begin; key < work.key_end; key += kKeyTile) {
      const int num_keys = min(work.key_end - key, static_cast<int>(kKeyTile));
      WaitForTile();
      const bool has_patch = has_new_key && work.key_end <= key + kKeyTile;
      if (has_patch) {
        if (page == 0) PatchTile(work);
        __syncwarp();  // some lanes had nothing to write
        ptx::SyncThreads(kPatchBarrier, kMathThreads);
      }
      float scores[2][4] = {};
      const bool has_keys = page * kKvBlockTokens < num_keys;
      if (has_keys) {
        math.Score(block_.Kv().Tile(progress_.slot.stage) + page * KvTile<kHeadDim>::kPageBytes,
                   scores);
      }
      if (key - work.key_begin >= kScoreBuffers * kKeyTile) {
        ptx::SyncThreads(kFreeScoresBarrier + progress_.score_buffer, kConsumerThreads);
      }
      if (has_keys) Scores().template Store<1>(scores, arguments.group, page, lane_);
      __syncwarp();  // rows that do not exist have no scores
      ptx::ArriveAtThreads(kScoresBarrier + progress_.score_buffer, kConsumerThreads);
      if (has_patch) ptx::FenceAsyncProxy();  // the copy engine comes after the patch
      LeaveTile();
    }
  }

  __device__ __forceinline__ void WeighValues(const LayerItem& work) {
    const DecodeArguments& arguments = block_.Attention();
    MathWarp<kHeadDim, 1> math = {};
    math.warp = warp_;
    math.lane = lane_;
    math.Begin();
    uint64_t* partial = Partial(work.slot);
    ptx::ComputeNow(partial);
    for (int key = work.key_begin; key < work.key_end; key += kKeyTile) {
      const int num_keys = min(work.key_end - key, static_cast<int>(kKeyTile));
      WaitForTile();
      ptx::SyncThreads(kScoresBarrier + progress_.score_buffer, kConsumerThreads);
      float scores[8][4];
      Scores().template Load<1>(scores, arguments.group, num_keys, lane_);
      if (key + kScoreBuffers * kKeyTile < work.key_end) {
        ptx::ArriveAtThreads(kFreeScoresBarrier + progress_.score_buffer, kConsumerThreads);
      }
      math.Attend(scores, arguments.exponent_scale, block_.Kv().Tile(progress_.slot.stage),
                  num_keys);
      LeaveTile();
    }
    const float sum = SumOverQuad(math.rows[0].sum);
    if (work.num_parts == 1) {
      const float reciprocal = __frcp_rn(sum);
      const int first_word = FirstOutputWord(work);
      math.ForOutputs(arguments.group, [&](int, int row, int column, float first, float second) {
        StoreTagged(OutputWord(work.row, first_word + (row * kHeadDim + column) / 2),
                    FinishPair(first, second, reciprocal), tag_);
      });
      return;
    }
    math.ForOutputs(arguments.group, [&](int, int row, int column, float first, float second) {
      StoreTagged(partial + row * kHeadDim + column, __float_as_uint(first),
                  __float_as_uint(second), tag_);
    });
    const int row = lane_ / 4;
    if (warp_ == 0 && lane_ % 4 == 0 && row < arguments.group) {
      StoreTagged(partial + arguments.group * kHeadDim + 2 * row,
                  __float_as_uint(math.rows[0].reference), __float_as_uint(sum), tag_);
    }
  }

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
  __device__ __forceinline__ void FoldSplits(const LayerItem& work) const {
    const DecodeArguments& arguments = block_.Attention();
    constexpr int kPairs = kHeadDim / 2;
    const int num_pairs = arguments.group * kPairs;
    const int64_t split_stride =
        block_.Params().shape.num_kv_heads * PartialStride(arguments.group, kHeadDim);
    const uint64_t* const partial = Partial(work.first_slot);
    for (int base = 32 * FreeWarp(); base < num_pairs; base += kConsumerThreads) {
      const int i = base + lane_;
      uint64_t* to = OutputWord(work.row, FirstOutputWord(work) + i);
      ptx::ComputeNow(to);
      const uint64_t* const values = partial + 2 * i;
      const uint64_t* const states = partial + arguments.group * kHeadDim + 2 * (i / kPairs);
      SoftmaxRow row;
      float2 sums = make_float2(0.0f, 0.0f);
      for (int split = 0; split < work.num_parts; split += kFoldAtOnce) {
        const uint64_t* from[2 * kFoldAtOnce];
#pragma unroll
        for (int j = 0; j < kFoldAtOnce; ++j) {
          const bool exists = split + j < work.num_parts && i < num_pairs;
          const int64_t offset = (split + j) * split_stride;
          from[2 * j] = exists ? values + offset : nullptr;
          from[2 * j + 1] = exists ? states + offset : nullptr;
        }
        float2 open = {};
        LoadTaggedPairs(tag_, from, [&](int j, uint32_t first, uint32_t second) {
          const float2 loaded = make_float2(__uint_as_float(first), __uint_as_float(second));
          if (j % 2 == 0) {
            open = loaded;
            return;
          }
          const PartialFold fold(row.reference, loaded.x, arguments.exponent_scale);
          row.reference = fold.reference;
          row.sum = fold(row.sum, loaded.y);
          sums = make_float2(fold(sums.x, open.x), fold(sums.y, open.y));
        });
      }
      if (i < num_pairs) {
        StoreTagged(to, FinishPair(sums.x, sums.y, __frcp_rn(row.sum)), tag_);
      }
      __syncwarp();
    }
  }

  const LayersBlock<Form> block_;
  const uint32_t tag_;
  AttentionProgress& progress_;
  const int warp_;
  const int lane_;
};

}  // namespace lockstep::kernels
