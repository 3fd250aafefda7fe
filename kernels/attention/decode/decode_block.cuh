#pragma once

#include <cstdint>

#include "kernels/attention/decode/decode_plan.cuh"
#include "kernels/attention/kv_tile.cuh"
#include "kernels/attention/paged_attention.h"
#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/core/ptx/mbarrier.cuh"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/core/ring_slot.cuh"

// A block of the decode kernel: its items of work, and the layout of its shared memory.
namespace lockstep::kernels {

inline constexpr int kMathWarps = 4;
inline constexpr int kMathThreads = 32 * kMathWarps;
inline constexpr int kCopyWarp = kMathWarps;
inline constexpr int kCountWarp = kMathWarps + 1;
inline constexpr int kDecodeThreads = kMathThreads + 64;
inline constexpr int kMathBarrier = 1;
inline constexpr int kStartBarrier = 2;
inline constexpr int kScoreStride = kKeyTile + 8;  // floats between rows: no bank conflicts
inline constexpr int kMaxDecodeStages = 6;
// With so few rows most multiprocessors are free, and the next kernel may begin at once. With more
// rows it may begin once this kernel has asked for its first keys. Blocks of the next kernel ask
// for many more bytes, and these keys would wait behind them.
inline constexpr int kFewDecodeRows = 2;
inline constexpr int kArrivalTurns = 4;  // parts that may be uncounted at once
static_assert(kMathWarps == kKeyTilePages);

struct DecodeArguments {
  PagedDecodeAttentionParams params;
  float exponent_scale = 0.0f;
  int group = 0;
  int num_stages = 0;
  // Only PagedDecodeAttention uses the rest.
  int max_query_rows = 0;  // of an item
  int shared_bytes = 0;
  int max_parts = 0;  // parts of a row, at most; each row has room for this many partial results
  int max_runs = 0;
};

// Floats of one partial result: [group, head_dim], then (reference, sum) per head.
__host__ __device__ constexpr int PartialStride(int group, int head_dim) {
  return group * head_dim + (2 * group + 3) / 4 * 4;
}

// A split of one row for one KV head, or of several rows that have the split's keys in common.
struct DecodeItem {
  int num_rows;  // 0: there is no more work
  int kv_head;
  int part;  // number of this part among the parts of each row
  int key_begin;
  int key_end;
  bool enters;  // the block's first item of these rows: the queries are loaded with it
  bool opens;   // the first split of its part
  bool closes;  // the last split of its part
};

// Only lane 0 reads `item`. Its later arrival tells that the place may be reused.
__device__ __forceinline__ DecodeItem Broadcast(const DecodeItem& item, int lane) {
  DecodeItem result = {};
  if (lane == 0) result = item;
  const auto from_first = [](int value) { return __shfl_sync(0xFFFFFFFFu, value, 0); };
  return {from_first(result.num_rows),   from_first(result.kv_head),
          from_first(result.part),       from_first(result.key_begin),
          from_first(result.key_end),    from_first(result.enters) != 0,
          from_first(result.opens) != 0, from_first(result.closes) != 0};
}

// One of an item's rows.
struct DecodeItemRow {
  uint16_t row;
  uint16_t num_parts;  // parts that the row's result is folded from
};

struct DecodeWork {
  DecodeItem item;
  DecodeItemRow rows[kQueryRows];  // [item.num_rows]
};

struct DecodeFold {
  int kv_head;
  uint32_t complete;  // bit i: all parts of row i are there
  DecodeItemRow rows[kQueryRows];
};

// Finished parts on their way from the math warps to the counting warp, and the answers. Turn t
// uses entry t % kArrivalTurns.
struct DecodeArrivals {
  DecodeWork written[kArrivalTurns];  // item.num_rows = 0: no more will come
  DecodeFold folds[kArrivalTurns];
};

// Byte offsets in dynamic shared memory.
template <int kHeadDim, KvType kType = KvType::kBFloat16>
struct DecodeShared {
  static constexpr int kTileBytes = kKeyTilePages * KvTile<kHeadDim, kType>::kPageBytes;
  static constexpr int kNumBarriers = 2 * kMaxDecodeStages + 2 * kArrivalTurns;

  // score_rows: the most query heads that an item has.
  __host__ __device__ DecodeShared(int group, int score_rows, int num_stages)
      : query_bytes(group * kHeadDim * 2),
        score_floats(score_rows * kScoreStride),
        queries(num_stages * kTileBytes),
        scores(queries + num_stages * query_bytes),
        barriers(scores + 2 * score_floats * 4),
        works(barriers + kNumBarriers * 8),
        arrivals(works + kMaxDecodeStages * static_cast<int>(sizeof(DecodeWork))),
        end(arrivals + static_cast<int>(sizeof(DecodeArrivals))) {}

  int query_bytes;
  int score_floats;
  int queries;   // [num_stages][group, head_dim] bf16
  int scores;    // [2][score_floats]: [score_rows, kScoreStride] fp32
  int barriers;  // [kMaxDecodeStages] full, [kMaxDecodeStages] empty, [kArrivalTurns]
                 // written, [kArrivalTurns] counted
  int works;     // [kMaxDecodeStages] DecodeWork: the item with its first tile in this stage. From
                 // here on for PagedDecodeAttention only
  int arrivals;  // DecodeArrivals
  int end;
};

// What every warp knows about its block.
template <int kHeadDim, KvType kType = KvType::kBFloat16>
struct DecodeBlock {
  __device__ __forceinline__ static int KvHead() { return static_cast<int>(blockIdx.x); }
  // The number of its DecodeStart.
  __device__ __forceinline__ static int Start() { return static_cast<int>(blockIdx.y); }
  __device__ __forceinline__ uint32_t FullBarrier(int stage) const {
    return address + layout.barriers + 8 * stage;
  }
  __device__ __forceinline__ uint32_t EmptyBarrier(int stage) const {
    return address + layout.barriers + 8 * (kMaxDecodeStages + stage);
  }
  __device__ __forceinline__ uint32_t WrittenBarrier(int turn) const {
    return address + layout.barriers + 8 * (2 * kMaxDecodeStages + turn % kArrivalTurns);
  }
  __device__ __forceinline__ uint32_t CountedBarrier(int turn) const {
    return WrittenBarrier(turn) + 8 * kArrivalTurns;
  }
  __device__ __forceinline__ uint32_t Tile(int stage) const {
    return address + stage * DecodeShared<kHeadDim, kType>::kTileBytes;
  }
  __device__ __forceinline__ uint32_t Query(int stage) const {
    return address + layout.queries + stage * layout.query_bytes;
  }
  __device__ __forceinline__ DecodeWork& Work(int stage) const {
    return reinterpret_cast<DecodeWork*>(shared + layout.works)[stage];
  }
  __device__ __forceinline__ DecodeArrivals& ArrivalTurns() const {
    return *reinterpret_cast<DecodeArrivals*>(shared + layout.arrivals);
  }

  DecodeShared<kHeadDim, kType> layout;
  unsigned char* shared;
  uint32_t address;  // of `shared`
};

}  // namespace lockstep::kernels
