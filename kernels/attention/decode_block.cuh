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
};

// Floats of one partial result: [group, head_dim], then (max, sum) per head.
__host__ __device__ constexpr int PartialStride(int group, int head_dim) {
  return group * head_dim + (2 * group + 3) / 4 * 4;
}

struct DecodeItem {
  int row;
  int kv_head;
  int num_splits;  // of the row; 0: there is no more work
  int first_slot;  // of the row and head; those of its splits are num_kv_heads apart
  int slot;        // among all partial results
  int key_begin;
  int key_end;
};

// Read by lane 0, which also tells when the place may be reused.
__device__ __forceinline__ DecodeItem Broadcast(const DecodeItem& item, int lane) {
  DecodeItem result = {};
  if (lane == 0) result = item;
  const auto from_first = [](int value) { return __shfl_sync(0xFFFFFFFFu, value, 0); };
  return {from_first(result.row),        from_first(result.kv_head), from_first(result.num_splits),
          from_first(result.first_slot), from_first(result.slot),    from_first(result.key_begin),
          from_first(result.key_end)};
}

// Partial results on their way from the math warps to the counting warp, and the answers, by turns.
struct DecodeArrivals {
  DecodeItem written[kArrivalTurns];  // num_splits = 0: no more will come
  DecodeItem folds[kArrivalTurns];    // the same if it was the last of its row; else num_splits = 0
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
        first_splits(num_keys + num_rows * 4),
        end(first_splits + 2 * (num_rows + 1) * 4) {}

  int query_bytes;
  int queries;       // [num_stages][group, head_dim] bf16
  int scores;        // [2][group, kScoreStride] fp32
  int barriers;      // [kMaxDecodeStages] full, [kMaxDecodeStages] empty, [kArrivalTurns]
                     // written, [kArrivalTurns] counted
  int works;         // [kMaxDecodeStages] DecodeItem: whose tile it is
  int arrivals;      // DecodeArrivals
  int num_keys;      // [num_rows]
  int first_splits;  // [2][num_rows + 1]: long and short splits of the rows before
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
  __device__ __forceinline__ const int* NumKeys() const {
    return reinterpret_cast<const int*>(shared + layout.num_keys);
  }
  __device__ __forceinline__ const int* FirstLongSplits() const {
    return reinterpret_cast<const int*>(shared + layout.first_splits);
  }
  __device__ __forceinline__ const int* FirstShortSplits(int num_rows) const {
    return FirstLongSplits() + num_rows + 1;
  }
  __device__ __forceinline__ int NumItems(const DecodeArguments& arguments) const {
    const int num_rows = static_cast<int>(arguments.params.num_rows);
    return (FirstLongSplits()[num_rows] + FirstShortSplits(num_rows)[num_rows]) *
           static_cast<int>(arguments.params.kv.num_kv_heads);
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

// The splits of the first zone are shorter than the others.
inline constexpr int kNumShortSplits = static_cast<int>(kSecondSplitZone.first_split);

// Long splits first, so that blocks end at about the same time; of either kind row by row, from the
// last split of a row to its first, KV heads within.
template <int kHeadDim>
__device__ __forceinline__ DecodeItem FindWork(const DecodeArguments& arguments,
                                               const DecodeBlock<kHeadDim>& block, int item) {
  const int num_kv_heads = static_cast<int>(arguments.params.kv.num_kv_heads);
  const int num_rows = static_cast<int>(arguments.params.num_rows);
  const int* const first_long = block.FirstLongSplits();
  const int* const first_short = block.FirstShortSplits(num_rows);
  int index = item / num_kv_heads;
  const bool is_long = index < first_long[num_rows];
  const int* const firsts = is_long ? first_long : first_short;
  if (!is_long) index -= first_long[num_rows];
  int row = 0;
  for (int end = num_rows; end - row > 1;) {
    const int middle = (row + end) / 2;
    if (firsts[middle] <= index) {
      row = middle;
    } else {
      end = middle;
    }
  }
  const int split = firsts[row + 1] - 1 - index + (is_long ? kNumShortSplits : 0);
  DecodeItem work;
  work.row = row;
  work.kv_head = item % num_kv_heads;
  work.num_splits = first_long[row + 1] - first_long[row] + first_short[row + 1] - first_short[row];
  work.first_slot = (first_long[row] + first_short[row]) * num_kv_heads + work.kv_head;
  work.slot = work.first_slot + split * num_kv_heads;
  work.key_begin = static_cast<int>(AttentionSplitBegin(split));
  work.key_end = min(static_cast<int>(AttentionSplitBegin(split + 1)), block.NumKeys()[row]);
  return work;
}

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

// Fills num_keys and first_splits, by the threads that `sync` is a barrier of: the first two warps
// at least.
template <int kHeadDim, typename Sync>
__device__ __forceinline__ void CountWork(const DecodeArguments& arguments,
                                          const DecodeBlock<kHeadDim>& block, const Sync& sync) {
  const int num_rows = static_cast<int>(arguments.params.num_rows);
  int* const num_keys = const_cast<int*>(block.NumKeys());
  int* const long_splits = const_cast<int*>(block.FirstLongSplits());
  int* const short_splits = const_cast<int*>(block.FirstShortSplits(num_rows));
  for (int row = threadIdx.x; row < num_rows; row += kDecodeThreads) {
    const uint32_t position = arguments.params.positions[row];
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
