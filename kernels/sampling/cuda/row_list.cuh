#pragma once

#include "kernels/sampling/cuda/row_cluster.cuh"

// How RowCluster collects and sorts the list of candidates.
namespace lockstep::kernels {

template <typename Accepts>
__device__ __forceinline__ void RowCluster::Gather(Accepts accepts) {
  unsigned* const list_size = cluster_.map_shared_rank(&scratch_.list_size, 0);
  Candidate* const list = cluster_.map_shared_rank(&workspace_, 0)->list;
  ForEach([&](uint32_t token, float score) {
    if (!accepts(score, token)) return;
    const unsigned place = atomicAdd(list_size, 1u);
    if (place < kMaxListed) list[place] = MakeCandidate(score, token);
  });
  cluster_.sync();
}

__device__ __forceinline__ int RowCluster::SortList() {
  Candidate* const list = workspace_.list;
  const int count = min(static_cast<int>(scratch_.list_size), kMaxListed);
  int padded = 2;
  while (padded < count) padded *= 2;
  for (int i = count + static_cast<int>(threadIdx.x); i < padded; i += kRowThreads) list[i] = 0;
  __syncthreads();
  if (threadIdx.x == 0) scratch_.list_size = 0;
  // Bitonic: runs of `run` elements, alternately descending and ascending, are merged.
  for (int run = 2; run <= padded; run *= 2) {
    for (int distance = run / 2; distance > 0; distance /= 2) {
      for (int i = static_cast<int>(threadIdx.x); i < padded / 2; i += kRowThreads) {
        const int low = 2 * i - (i & (distance - 1));
        const int high = low + distance;
        const Candidate a = list[low];
        const Candidate b = list[high];
        const bool descends = (low & run) == 0;
        if ((a < b) == descends) {
          list[low] = b;
          list[high] = a;
        }
      }
      __syncthreads();
    }
  }
  return count;
}

}  // namespace lockstep::kernels
