#pragma once

#include <cstdint>

#include "kernels/attention/kv_tile.cuh"
#include "kernels/attention/paged_attention.h"
#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/core/ptx/mbarrier.cuh"
#include "kernels/core/ptx/memory.cuh"

// The blocks of the decode kernel: what they share in shared memory, and how they find their work.
namespace lockstep::kernels {

inline constexpr int kMathWarps = 4;
inline constexpr int kMathThreads = 32 * kMathWarps;
inline constexpr int kCopyWarp = kMathWarps;
inline constexpr int kCountWarp = kMathWarps + 1;
inline constexpr int kDecodeThreads = kMathThreads + 64;
inline constexpr int kMathBarrier = 1;
inline constexpr int kScoreStride = kKeyTile + 8;  // floats between rows: no bank conflicts
inline constexpr int kMaxDecodeStages = 6;
inline constexpr int kArrivalTurns = 4;  // partial results whose arrival is being counted
static_assert(kMathWarps == kKeyTilePages);

struct DecodeArguments {
  PagedDecodeAttentionParams params;
  float exponent_scale;
  int group;
  int num_stages;
  int max_splits;  // of a row; partial results lie row by row, that many splits each
};

// Floats of one partial result: [group, head_dim], then (max, sum) per head.
__host__ __device__ constexpr int PartialStride(int group, int head_dim) {
  return group * head_dim + (2 * group + 3) / 4 * 4;
}

struct DecodeItem {
  int row;
  int kv_head;
  int num_parts;   // that the row's result is folded from; 0: there is no more work
  int first_slot;  // of the row and head; those of its parts are num_kv_heads apart
  int slot;        // of this part, among all partial results
  int key_begin;
  int key_end;
  bool opens;   // the first split of its part
  bool closes;  // the last one
};

// Read by lane 0, which also tells when the place may be reused.
__device__ __forceinline__ DecodeItem Broadcast(const DecodeItem& item, int lane) {
  DecodeItem result = {};
  if (lane == 0) result = item;
  const auto from_first = [](int value) { return __shfl_sync(0xFFFFFFFFu, value, 0); };
  return {
      from_first(result.row),        from_first(result.kv_head),    from_first(result.num_parts),
      from_first(result.first_slot), from_first(result.slot),       from_first(result.key_begin),
      from_first(result.key_end),    from_first(result.opens) != 0, from_first(result.closes) != 0};
}

// Partial results on their way from the math warps to the counting warp, and the answers, by turns.
struct DecodeArrivals {
  DecodeItem written[kArrivalTurns];  // num_parts = 0: no more will come
  DecodeItem folds[kArrivalTurns];    // the same if it was the last of its row; else num_parts = 0
};

// Byte offsets in dynamic shared memory.
template <int kHeadDim>
struct DecodeShared {
  static constexpr int kTileBytes = kKeyTilePages * KvTile<kHeadDim>::kPageBytes;
  static constexpr int kNumBarriers = 2 * kMaxDecodeStages + 2 * kArrivalTurns;

  __host__ __device__ DecodeShared(int num_rows, int group, int num_stages)
      : query_bytes(group * kHeadDim * 2),
        queries(num_stages * kTileBytes),
        scores(queries + num_stages * query_bytes),
        barriers(scores + 2 * group * kScoreStride * 4),
        works(barriers + kNumBarriers * 8),
        arrivals(works + kMaxDecodeStages * static_cast<int>(sizeof(DecodeItem))),
        num_keys(arrivals + static_cast<int>(sizeof(DecodeArrivals))),
        work_table(num_keys + num_rows * 4),
        end(work_table + 2 * (num_rows + 1) * 4) {}

  int query_bytes;
  int queries;     // [num_stages][group, head_dim] bf16
  int scores;      // [2][group, kScoreStride] fp32
  int barriers;    // [kMaxDecodeStages] full, [kMaxDecodeStages] empty, [kArrivalTurns]
                   // written, [kArrivalTurns] counted
  int works;       // [kMaxDecodeStages] DecodeItem: whose tile it is
  int arrivals;    // DecodeArrivals
  int num_keys;    // [num_rows]
  int work_table;  // [2 * (num_rows + 1)] int: what a kernel finds its work by
  int end;
};

// What every warp of a block knows of it.
template <int kHeadDim>
struct DecodeBlock {
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
    return address + stage * DecodeShared<kHeadDim>::kTileBytes;
  }
  __device__ __forceinline__ uint32_t Query(int stage) const {
    return address + layout.queries + stage * layout.query_bytes;
  }
  __device__ __forceinline__ DecodeItem& Work(int stage) const {
    return reinterpret_cast<DecodeItem*>(shared + layout.works)[stage];
  }
  __device__ __forceinline__ DecodeArrivals& ArrivalTurns() const {
    return *reinterpret_cast<DecodeArrivals*>(shared + layout.arrivals);
  }
  __device__ __forceinline__ int* NumKeys() const {
    return reinterpret_cast<int*>(shared + layout.num_keys);
  }
  __device__ __forceinline__ int* WorkTable() const {
    return reinterpret_cast<int*>(shared + layout.work_table);
  }

  DecodeShared<kHeadDim> layout;
  unsigned char* shared;
  uint32_t address;  // of `shared`
};

// A position in the ring of tiles.
struct RingSlot {
  int stage = 0;
  uint32_t phase = 0;

  __device__ __forceinline__ void Advance(int num_stages) {
    if (++stage == num_stages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

// Turns counts into the sums of those before, with the total behind; by one warp.
__device__ __forceinline__ void SumBefore(int* counts, int size, int lane) {
  int total = 0;
  for (int base = 0; base < size; base += 32) {
    const int count = base + lane < size ? counts[base + lane] : 0;
    int sum = count;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int before = __shfl_up_sync(0xFFFFFFFFu, sum, distance);
      if (lane >= distance) sum += before;
    }
    if (base + lane < size) counts[base + lane] = total + sum - count;
    total += __shfl_sync(0xFFFFFFFFu, sum, 31);
  }
  if (lane == 0) counts[size] = total;
}

}  // namespace lockstep::kernels
