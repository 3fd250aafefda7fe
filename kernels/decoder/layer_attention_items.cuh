#pragma once

#include "kernels/decoder/layer_attention.cuh"

// How LayerAttention goes from item to item, attends to the keys of each, and folds the splits.
namespace lockstep::kernels {

template <typename Form>
template <typename WaitForWords>
__device__ __forceinline__ void LayerAttention<Form>::Attend(const DecodeLayer& layer,
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

template <typename Form>
__device__ __forceinline__ void LayerAttention<Form>::ScoreKeys(const LayerItem& work,
                                                                bool has_new_key) {
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

template <typename Form>
__device__ __forceinline__ void LayerAttention<Form>::WeighValues(const LayerItem& work) {
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
    math.Attend(scores, arguments.exponent_scale, block_.Kv().Tile(progress_.slot.stage), num_keys);
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
    StoreTagged(partial + row * kHeadDim + column, __float_as_uint(first), __float_as_uint(second),
                tag_);
  });
  const int row = lane_ / 4;
  if (warp_ == 0 && lane_ % 4 == 0 && row < arguments.group) {
    StoreTagged(partial + arguments.group * kHeadDim + 2 * row,
                __float_as_uint(math.rows[0].reference), __float_as_uint(sum), tag_);
  }
}

template <typename Form>
__device__ __forceinline__ void LayerAttention<Form>::FoldSplits(const LayerItem& work) const {
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

template <typename Form>
__device__ __forceinline__ void LayerAttention<Form>::PatchTile(const LayerItem& work) const {
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

}  // namespace lockstep::kernels
