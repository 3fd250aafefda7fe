#pragma once

#include <cstdint>

#include "kernels/attention/decode/decode_run_walk.h"
#include "kernels/attention/decode/decode_runs.h"
#include "kernels/attention/paged_attention.h"

// The plan of a step's decode attention in device memory: PlanPagedDecode writes it once a step,
// and the attention of every layer reads it.
namespace lockstep::kernels {

// Rows of one matrix product. Each is one query head. They belong to one row of the step, or to
// several rows with the same keys, and share the keys and values that are read.
inline constexpr int kQueryRows = 16;

// How many rows of the step may share one matrix product.
constexpr int MaxSharingRows(const PagedDecodeAttentionParams& params) {
  const int group = static_cast<int>(params.num_heads / params.kv.num_kv_heads);
  return params.may_share && group < kQueryRows ? kQueryRows / group : 1;
}

// How many block numbers a warp reads at once.
inline constexpr int kPagesOfWarp = 32;

// The keys of a split. A page has kKvBlockTokens keys.
struct SplitKeys {
  [[gnu::always_inline]] constexpr int FirstPage() const {
    return begin / static_cast<int>(kKvBlockTokens);
  }
  [[gnu::always_inline]] constexpr int NumPages() const {
    return (end - begin + static_cast<int>(kKvBlockTokens) - 1) / static_cast<int>(kKvBlockTokens);
  }

  int begin = 0;
  int end = 0;
};

// Those of the walk's current split.
[[gnu::always_inline]] constexpr SplitKeys KeysOf(const DecodeRunWalk& walk) {
  SplitKeys keys = {FirstTileOfSplit(walk.Split()) * static_cast<int>(kKeyTile),
                    FirstTileOfSplit(walk.Split() + 1) * static_cast<int>(kKeyTile)};
  if (keys.end > walk.Strand().num_keys) keys.end = walk.Strand().num_keys;
  return keys;
}

// A block reads this before it asks for its first keys. It reads all at once. If it read cuts, then
// a strand, then block numbers, it would wait for memory three times.
struct alignas(16) DecodeStart {
  DecodeRunWalk walk;
  BlockId pages[kPagesOfWarp];  // the first block numbers of the walk's first split
};

// The plan's arrays in `memory`, for at most `max_runs` runs of `num_rows` rows.
struct DecodePlanMemory {
  __host__ __device__ DecodePlanMemory(int32_t* memory, int num_rows, int max_runs)
      : shared_strands(reinterpret_cast<DecodeStrand*>(memory)),
        own_strands(shared_strands + num_rows / 2),
        starts(reinterpret_cast<DecodeStart*>(own_strands + num_rows)),
        rows(reinterpret_cast<int*>(starts + max_runs)),
        num_parts(rows + num_rows) {}

  DecodeStrand* shared_strands;  // [num_rows / 2], of at least two rows each
  DecodeStrand* own_strands;     // [num_rows]
  DecodeStart* starts;           // [max_runs], longer runs first; some may be empty
  int* rows;       // [num_rows]: row numbers; the rows of a shared strand are consecutive
  int* num_parts;  // [num_rows]: parts that the row's result is folded from; 0: padding
};
static_assert(sizeof(DecodeStart) <= 4 * kDecodeRunElements);

}  // namespace lockstep::kernels
