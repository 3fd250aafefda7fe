#pragma once

#include <cstdint>

#include "kernels/attention/decode/decode_block.cuh"
#include "kernels/decoder/layers_block.cuh"

// How the DecodeLayers kernel divides attention among its blocks: split by split. There are few
// rows, so splits find blocks of their own. Each split is a part that the row's result is folded
// from.
namespace lockstep::kernels {

// The splits of the first zone are shorter than the others.
inline constexpr int kNumShortSplits = static_cast<int>(kSecondSplitZone.first_split);

// One split of one row for one KV head.
struct LayerItem {
  int row;
  int kv_head;
  int num_parts;   // parts that the row's result is folded from
  int first_slot;  // of the first part of the row and head; the slots of its parts are num_kv_heads
                   // apart
  int slot;        // of this part, among all partial results
  int key_begin;
  int key_end;
};

template <int kHeadDim>
__device__ __forceinline__ int NumItems(const LayersBlock<kHeadDim>& block) {
  const int num_rows = block.NumRows();
  return (block.FirstLongSplits()[num_rows] + block.FirstShortSplits()[num_rows]) *
         static_cast<int>(block.Attention().params.kv.num_kv_heads);
}

// Long splits come first, so that blocks end at about the same time. The splits of either kind are
// ordered row by row, within a row from the last split to the first, and within a split by KV head.
// Call from whole warps.
template <int kHeadDim>
__device__ __forceinline__ LayerItem FindWork(const LayersBlock<kHeadDim>& block, int item) {
  const int num_kv_heads = static_cast<int>(block.Attention().params.kv.num_kv_heads);
  const int num_rows = block.NumRows();
  const int* const first_long = block.FirstLongSplits();
  const int* const first_short = block.FirstShortSplits();
  int index = ptx::WarpUniform(item / num_kv_heads);
  const bool is_long = index < ptx::WarpUniform(first_long[num_rows]);
  const int* const firsts = is_long ? first_long : first_short;
  if (!is_long) index -= ptx::WarpUniform(first_long[num_rows]);
  int row = 0;
  for (int end = ptx::WarpUniform(num_rows); end - row > 1;) {
    const int middle = (row + end) / 2;
    if (ptx::WarpUniform(firsts[middle]) <= index) {
      row = middle;
    } else {
      end = middle;
    }
  }
  const int split = firsts[row + 1] - 1 - index + (is_long ? kNumShortSplits : 0);
  LayerItem work;
  work.row = row;
  work.kv_head = item % num_kv_heads;
  work.num_parts = ptx::WarpUniform(first_long[row + 1] - first_long[row] + first_short[row + 1] -
                                    first_short[row]);
  work.first_slot = (first_long[row] + first_short[row]) * num_kv_heads + work.kv_head;
  work.slot = work.first_slot + split * num_kv_heads;
  const int begin = static_cast<int>(AttentionSplitBegin(split));
  const int end = static_cast<int>(AttentionSplitBegin(split + 1));
  work.key_begin = ptx::WarpUniform(begin);
  work.key_end = ptx::WarpUniform(min(end, block.NumKeys()[row]));
  return work;
}

// Fills num_keys and the tables of splits. Call from all threads that take part in the barrier
// `sync`. They include the first two warps.
template <int kHeadDim, typename Sync>
__device__ __forceinline__ void CountWork(const LayersBlock<kHeadDim>& block, const Sync& sync) {
  const int num_rows = block.NumRows();
  int* const num_keys = block.NumKeys();
  int* const long_splits = block.FirstLongSplits();
  int* const short_splits = block.FirstShortSplits();
  for (int row = threadIdx.x; row < num_rows; row += kDecodeThreads) {
    const uint32_t position = block.Params().positions[row];
    const int keys = position == kNoPosition ? 0 : static_cast<int>(position) + 1;
    const int splits = static_cast<int>(NumAttentionSplits(keys));
    num_keys[row] = keys;
    short_splits[row] = min(splits, kNumShortSplits);
    long_splits[row] = splits - short_splits[row];
  }
  sync();
  if (threadIdx.x < 32) SumBefore(long_splits, num_rows, threadIdx.x);
  if (threadIdx.x / 32 == 1) SumBefore(short_splits, num_rows, threadIdx.x % 32);
  sync();
}

}  // namespace lockstep::kernels
