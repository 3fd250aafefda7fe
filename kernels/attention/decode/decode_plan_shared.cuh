#pragma once

#include <cstdint>

#include "kernels/attention/decode/decode_runs.h"
#include "kernels/attention/paged_attention.h"

// What the block that plans a step keeps in shared memory.
namespace lockstep::kernels {

inline constexpr int kPlanThreads = 1024;
inline constexpr int kPlanWarps = kPlanThreads / 32;
static_assert(kPlanThreads >= kMaxDecodeRows && kPlanThreads >= kMaxDecodeRuns);
inline constexpr int kMaxGroups = static_cast<int>(kMaxDecodeRows / 2);

inline constexpr int kNumDepths = 7;    // of FindLeaders
inline constexpr int kPagesAtOnce = 4;  // pages that a lane compares

inline constexpr uint32_t kNoBlock = UINT32_MAX;
inline constexpr int kMapSize = 2 * kPlanThreads;
inline constexpr int kMapShift = 21;  // kMapSize = 2^(32 - 21)
static_assert(kMapSize == 1 << (32 - kMapShift));

// The lowest row that has a block at a depth. A hash table, keyed by the block.
struct FirstRows {
  uint32_t block[kMapSize];
  int row[kMapSize];
};

struct PlanShared {
  int num_keys[kMaxDecodeRows];
  int whole_splits[kMaxDecodeRows];  // splits that end before the row's last key
  int leader[kMaxDecodeRows];  // the row that this row follows; FormGroups replaces it by a key to
                               // sort by
  int shared_splits[kMaxDecodeRows];  // splits in common with the leader
  int is_leader[kMaxDecodeRows];
  union {
    FirstRows first_rows;
    struct {
      int order[kMaxDecodeRows];         // rows, sorted
      int group_number[kMaxDecodeRows];  // by place in `order`: how many groups begin before it
      // For each group.
      int no_split[kMaxGroups];  // zeros: their strands begin with the rows' first split
      int shared_tiles[kMaxGroups + 1];
      int folded_splits[kMaxGroups];
      // For each row.
      int first_split[kMaxDecodeRows];
      int own_tiles[kMaxDecodeRows + 1];
    };
  };
  int longer_runs[kMaxDecodeRuns];  // how many of the runs before a run are longer than the mean
  int num_longer_runs;
  int num_groups;
  int num_own;  // strands up to the last that has keys
  DecodePlan shared_plan;
  DecodePlan own_plan;
};
static_assert(sizeof(PlanShared) <= 48 * 1024);

// Replaces each count by the sum of the counts before it, and writes the total to counts[size].
// Call from one warp.
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
