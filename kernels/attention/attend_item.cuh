#pragma once

#include <cstdint>

#include "kernels/attention/decode_block.cuh"
#include "kernels/attention/decode_warp.cuh"
#include "kernels/core/ptx/mbarrier.cuh"

// One work item of decode attention: one split of one row for one KV head, tile by tile out of the
// block's ring. The queries of a part lie with its first tile.
namespace lockstep::kernels {

// By all math warps. on_tile(first key, address) sees every tile before it is read.
template <int kHeadDim, int kHalves, typename OnTile>
__device__ __forceinline__ void AttendItem(const DecodeArguments& arguments,
                                           const DecodeBlock<kHeadDim>& block,
                                           const DecodeItem& work,
                                           MathWarp<kHeadDim, kHalves>& math, RingSlot& slot,
                                           int& buffer, const OnTile& on_tile) {
  float* const scores = reinterpret_cast<float*>(block.shared + block.layout.scores);
  for (int key = work.key_begin; key < work.key_end; key += kKeyTile) {
    const int num_keys = min(work.key_end - key, static_cast<int>(kKeyTile));
    const uint32_t tile = block.Tile(slot.stage);
    const ScoreExchange exchange = {scores + buffer * arguments.group * kScoreStride};
    ptx::WaitBarrier(block.FullBarrier(slot.stage), slot.phase);
    on_tile(key, tile);
    if (key == work.key_begin) {
      if (work.opens) math.LoadQueries(block.Query(slot.stage), arguments.group);
      math.Begin();
    }
    if (math.warp * kKvBlockTokens < num_keys) {
      float page_scores[2][4];
      math.Score(tile + math.warp * KvTile<kHeadDim>::kPageBytes, page_scores);
      exchange.template Store<kHalves>(page_scores, arguments.group, math.warp, math.lane);
    }
    ptx::SyncThreads(kMathBarrier, kMathThreads);
    float tile_scores[8][4];
    exchange.template Load<kHalves>(tile_scores, arguments.group, num_keys, math.lane);
    math.Attend(tile_scores, arguments.exponent_scale, tile, num_keys);
    // Every reader arrives itself: a checker of races sees which reads the next copy is behind.
    ptx::Arrive(block.EmptyBarrier(slot.stage));
    slot.Advance(arguments.num_stages);
    buffer ^= 1;
  }
}

}  // namespace lockstep::kernels
