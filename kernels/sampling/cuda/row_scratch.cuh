#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/sampling/cuda/score_order.cuh"

// What the blocks of a row's cluster keep in shared memory.
namespace lockstep::kernels {

inline constexpr int kRowBlocks = 8;
inline constexpr int kRowThreads = 512;
inline constexpr int kRowWarps = kRowThreads / 32;
inline constexpr int kBins = 2048;
inline constexpr int kMaxListed = 2048;
inline constexpr int kVector = 4;  // scores per 16-byte access
inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

struct Pair {
  unsigned long long first;
  unsigned long long second;
};
struct SumOfPairs {
  __device__ __forceinline__ Pair operator()(Pair a, Pair b) const {
    return {a.first + b.first, a.second + b.second};
  }
};
struct MaxOfPairs {
  __device__ __forceinline__ Pair operator()(Pair a, Pair b) const {
    return {a.first > b.first ? a.first : b.first, a.second > b.second ? a.second : b.second};
  }
};

// A block's scratch memory that holds the histogram first, and lists later.
union Workspace {
  struct {
    unsigned counts[kBins];
    unsigned weights_low[kBins];
    unsigned weights_high[kBins];
  } histogram;
  Candidate list[kMaxListed];
};

struct RowScratch {
  Pair warps[kRowWarps];
  Pair blocks[2][kRowBlocks];
  Pair located;
  unsigned list_size;
};

// Bytes of dynamic shared memory for chunks of `chunk_size` scores.
inline size_t RowSharedBytes(int chunk_size) {
  return sizeof(Workspace) + static_cast<size_t>(chunk_size) * sizeof(float);
}

// Keeps the best and the lowest score that one thread sees. It must see tokens in ascending order.
struct ThreadExtremes {
  float best = -INFINITY;
  uint32_t best_token = 0;
  float lowest = INFINITY;

  __device__ __forceinline__ void See(float score, uint32_t token) {
    if (score > best) {
      best = score;
      best_token = token;
    }
    if (score > -INFINITY) lowest = fminf(lowest, score);
  }
  __device__ __forceinline__ Pair Extremes() const {
    return {MakeCandidate(best, best_token), ~ScoreKey(lowest)};
  }
};

}  // namespace lockstep::kernels
