#pragma once

#include <cstdint>

#include "kernels/attention/decode/decode_block.cuh"
#include "kernels/attention/decode/decode_runs.h"
#include "kernels/decoder/layers_block.cuh"

// How the DecodeLayers kernel divides attention among its blocks: split by split. There are few
// rows, so splits find blocks of their own. Each split is a part that the row's result is folded
// from.
namespace lockstep::kernels {

// The splits of the first zone are shorter than the others.
inline constexpr int kNumShortSplits = static_cast<int>(kSecondSplitZone.first_split);

template <typename Form>
__device__ __forceinline__ int NumItems(const LayersBlock<Form>& block) {
  return (block.FirstLongSplits()[Form::kRows] + block.FirstShortSplits()[Form::kRows]) *
         static_cast<int>(block.Attention().params.kv.num_kv_heads);
}

// Long splits come first, so that blocks end at about the same time. The splits of either kind are
// ordered row by row, within a row from the last split to the first, and within a split by KV head.
// Call from whole warps.
template <typename Form>
__device__ __forceinline__ LayerItem FindWork(const LayersBlock<Form>& block, int item) {
  const int num_kv_heads = static_cast<int>(block.Attention().params.kv.num_kv_heads);
  const int* const first_long = block.FirstLongSplits();
  const int* const first_short = block.FirstShortSplits();
  int index = ptx::WarpUniform(item / num_kv_heads);
  // Not under a condition: ptxas 13.0 makes a WarpUniform conditional on a predicate that is not
  // set.
  const int num_long = ptx::WarpUniform(first_long[Form::kRows]);
  const bool is_long = index < num_long;
  const int* const firsts = is_long ? first_long : first_short;
  if (!is_long) index -= num_long;
  int row = 0;
  for (int end = Form::kRows; end - row > 1;) {
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

// The first item of this block; it also has every gridDim.x-th after it. The last blocks come
// first: they do not multiply, if any block does not.
__device__ __forceinline__ int FirstItem() { return static_cast<int>(gridDim.x - 1 - blockIdx.x); }

// Stores the item that the block has, if it has one, for BlockItem. Call from a whole warp, behind
// a barrier after CountWork. There must be a barrier of the consumers before BlockItem.
template <typename Form>
__device__ __forceinline__ void StoreBlockItem(const LayersBlock<Form>& block, int lane) {
  if (FirstItem() >= NumItems(block)) return;
  const LayerItem work = FindWork(block, FirstItem());
  if (lane == 0) *block.template At<LayerItem>(block.Memory().block_item) = work;
}

// FindWork, where each block has at most one item: it is the same in all layers. Call from whole
// warps.
template <typename Form>
__device__ __forceinline__ LayerItem BlockItem(const LayersBlock<Form>& block) {
  LayerItem work = *block.template At<const LayerItem>(block.Memory().block_item);
  work.num_parts = ptx::WarpUniform(work.num_parts);
  work.key_begin = ptx::WarpUniform(work.key_begin);
  work.key_end = ptx::WarpUniform(work.key_end);
  return work;
}

// Fills num_keys and the tables of splits. The first threads of the block do it. A barrier must
// follow before anyone reads them.
template <typename Form>
__device__ __forceinline__ void CountWork(const LayersBlock<Form>& block) {
  static_assert(Form::kRows < kConsumerThreads);
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread <= Form::kRows) {
    int splits_before = 0;
    int short_before = 0;
#pragma unroll
    for (int row = 0; row < Form::kRows; ++row) {
      const uint32_t position = block.Params().positions[row];
      const int keys = position == kNoPosition ? 0 : static_cast<int>(position) + 1;
      const int splits = keys == 0 ? 0 : LastSplit(keys) + 1;
      if (row == thread) block.NumKeys()[row] = keys;
      if (row >= thread) continue;
      splits_before += splits;
      short_before += min(splits, kNumShortSplits);
    }
    block.FirstShortSplits()[thread] = short_before;
    block.FirstLongSplits()[thread] = splits_before - short_before;
  }
}

}  // namespace lockstep::kernels
