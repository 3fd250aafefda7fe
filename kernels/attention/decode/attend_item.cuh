#pragma once

#include <cstdint>

#include "kernels/attention/decode/decode_block.cuh"
#include "kernels/attention/decode/decode_warp.cuh"
#include "kernels/core/ptx/mbarrier.cuh"

// Decode attention over the keys of one split, tile by tile out of the block's ring.
namespace lockstep::kernels {

struct KeyRange {
  int begin;
  int end;
};

// Call from all math warps. `num_query_rows` of the rows of `math` are in use, at most 8 * kHalves.
// Calls on_tile(first key, address) for every tile before the tile is read. At the first tile,
// on_tile makes sure that `math` has its queries.
template <int kHeadDim, int kHalves, KvType kType, typename OnTile>
__device__ __forceinline__ void AttendKeys(const DecodeArguments& arguments,
                                           const DecodeBlock<kHeadDim, kType>& block,
                                           const KeyRange& keys, int num_query_rows,
                                           MathWarp<kHeadDim, kHalves, kType>& math, RingSlot& slot,
                                           int& buffer, const OnTile& on_tile) {
  float* const scores = reinterpret_cast<float*>(block.shared + block.layout.scores);
  for (int key = keys.begin; key < keys.end; key += kKeyTile) {
    const int num_keys = min(keys.end - key, static_cast<int>(kKeyTile));
    const uint32_t tile = block.Tile(slot.stage);
    const ScoreExchange exchange = {scores + buffer * block.layout.score_floats};
    ptx::WaitBarrier(block.FullBarrier(slot.stage), slot.phase);
    on_tile(key, tile);
    if (key == keys.begin) math.Begin();
    if (math.warp * kKvBlockTokens < num_keys) {
      float page_scores[2][4];
      math.Score(tile + math.warp * KvTile<kHeadDim, kType>::kPageBytes, page_scores);
      exchange.template Store<kHalves>(page_scores, num_query_rows, math.warp, math.lane);
    }
    ptx::SyncThreads(kMathBarrier, kMathThreads);
    float tile_scores[8][4];
    exchange.template Load<kHalves>(tile_scores, num_query_rows, num_keys, math.lane);
    math.Attend(tile_scores, arguments.exponent_scale, tile, num_keys);
    // Every reader arrives itself. So a race checker sees that the next copy comes after these
    // reads.
    ptx::Arrive(block.EmptyBarrier(slot.stage));
    slot.Advance(arguments.num_stages);
    buffer ^= 1;
  }
}

}  // namespace lockstep::kernels
