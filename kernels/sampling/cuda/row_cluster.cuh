#pragma once

#include <cooperative_groups.h>

#include "kernels/core/ptx/memory.cuh"
#include "kernels/sampling/cuda/row_scratch.cuh"
#include "kernels/sampling/cuda/score_order.cuh"

// A row of scores in the shared memory of a cluster of blocks, and the reductions over it. Every
// reduction is of integers or of maxima, so nothing depends on the order of threads or blocks.
namespace lockstep::kernels {

// What a block knows about its cluster's row. Call all methods from all threads of the cluster,
// unless they say otherwise. row_list.cuh has Gather and SortList.
class RowCluster {
 public:
  // `logits`: [vocab_size]. Block r of the cluster keeps elements r * chunk_size and following.
  __device__ __forceinline__ RowCluster(RowScratch& scratch, char* dynamic_shared,
                                        const float* logits, int vocab_size, int chunk_size)
      : cluster_(cooperative_groups::this_cluster()),
        scratch_(scratch),
        workspace_(*reinterpret_cast<Workspace*>(dynamic_shared)),
        scores_(reinterpret_cast<float*>(dynamic_shared + sizeof(Workspace))),
        rank_(static_cast<int>(cluster_.block_rank())),
        begin_(rank_ * chunk_size),
        size_(max(0, min(chunk_size, vocab_size - begin_))),
        logits_(logits + begin_) {
    if (threadIdx.x == 0) scratch.list_size = 0;
    cluster_.barrier_arrive();
  }
  // Waits until all blocks have started. Call before the first access to another block's memory.
  __device__ __forceinline__ void WaitForStart() { cluster_.barrier_wait(); }

  __device__ __forceinline__ int rank() const { return rank_; }
  __device__ __forceinline__ bool leads() const { return rank_ == 0; }
  __device__ __forceinline__ int begin() const { return begin_; }
  __device__ __forceinline__ int size() const { return size_; }
  __device__ __forceinline__ float* scores() const { return scores_; }
  __device__ __forceinline__ const float* logits() const { return logits_; }
  // Results of the latest Share, one per block.
  __device__ __forceinline__ const Pair* shared_pairs() const { return scratch_.blocks[parity_]; }
  // Results of the latest Share, one per warp of this block.
  __device__ __forceinline__ const Pair* warp_pairs() const { return scratch_.warps; }

  // Starts to copy the chunk to scores(). FinishLoad waits for it. The last vector of the row is
  // filled up with -inf, for tokens beyond the vocabulary.
  __device__ __forceinline__ void StartLoad(bool aligned);
  __device__ __forceinline__ void FinishLoad();
  // {best candidate, ~key of the lowest score above -inf} of this thread's part of the chunk.
  __device__ __forceinline__ Pair Scan() const;

  // Combines the values of each block's threads to one value per block. All blocks then know all of
  // these.
  template <typename Combine>
  __device__ __forceinline__ void Share(Pair value, Combine combine);
  // As Share, and then combines the values of the blocks to one for the row.
  template <typename Combine>
  __device__ __forceinline__ Pair Reduce(Pair value, Combine combine);

  // Calls visit(first token, scores) for every kVector neighbours of the chunk, each by one thread.
  template <int kUnrolled = 2, typename Visit>
  __device__ __forceinline__ void ForEachVector(Visit visit) const {
#pragma unroll kUnrolled
    for (int i = static_cast<int>(threadIdx.x) * kVector; i < size_; i += kRowThreads * kVector) {
      visit(static_cast<uint32_t>(begin_ + i), *reinterpret_cast<const float4*>(scores_ + i));
    }
  }
  // Calls visit(token, score) for every score of the chunk, each by one thread.
  template <typename Visit>
  __device__ __forceinline__ void ForEach(Visit visit) const {
    ForEachVector([&](uint32_t token, const float4& values) {
      visit(token, values.x);
      visit(token + 1, values.y);
      visit(token + 2, values.z);
      visit(token + 3, values.w);
    });
  }

  // Collects the candidates that accepts(score, token) accepts in the leader's list. The list keeps
  // at most kMaxListed of them.
  template <typename Accepts>
  __device__ __forceinline__ void Gather(Accepts accepts);
  // Sorts the list, best first, and returns its length. Call from the leader's threads only.
  __device__ __forceinline__ int SortList();
  __device__ __forceinline__ const Candidate* list() const { return workspace_.list; }

  __device__ __forceinline__ RowScratch& scratch() { return scratch_; }
  __device__ __forceinline__ Workspace& workspace() { return workspace_; }
  // The same object in the shared memory of another block.
  template <typename T>
  __device__ __forceinline__ T* Of(int block, T* object) {
    return cluster_.map_shared_rank(object, block);
  }
  __device__ __forceinline__ void Synchronize() { cluster_.sync(); }

 private:
  cooperative_groups::cluster_group cluster_;
  RowScratch& scratch_;
  Workspace& workspace_;
  float* const scores_;
  const int rank_;
  const int begin_;
  const int size_;
  const float* const logits_;
  int parity_ = 0;
};

__device__ __forceinline__ void RowCluster::StartLoad(bool aligned) {
  const int vector_size = aligned ? size_ / kVector * kVector : 0;
  for (int i = static_cast<int>(threadIdx.x) * kVector; i < vector_size;
       i += kRowThreads * kVector) {
    ptx::CopyAsync16(ptx::SharedAddress(scores_ + i), logits_ + i);
  }
  ptx::CopyAsyncCommit();
#pragma unroll 8
  for (int i = vector_size + static_cast<int>(threadIdx.x); i < size_; i += kRowThreads) {
    scores_[i] = __ldcg(logits_ + i);
  }
  const int padding = size_ + static_cast<int>(threadIdx.x);
  if (padding < (size_ + kVector - 1) / kVector * kVector) scores_[padding] = -INFINITY;
}

__device__ __forceinline__ void RowCluster::FinishLoad() {
  ptx::CopyAsyncWait<0>();
  __syncthreads();
}

__device__ __forceinline__ Pair RowCluster::Scan() const {
  ThreadExtremes extremes;
  ForEach([&](uint32_t token, float score) { extremes.See(score, token); });
  return extremes.Extremes();
}

template <typename Combine>
__device__ __forceinline__ void RowCluster::Share(Pair value, Combine combine) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = combine(value, {__shfl_xor_sync(kAllLanes, value.first, distance),
                            __shfl_xor_sync(kAllLanes, value.second, distance)});
  }
  if (threadIdx.x % 32 == 0) scratch_.warps[threadIdx.x / 32] = value;
  __syncthreads();
  // Two halves take turns: a slow block may still read the results of the previous Share.
  parity_ ^= 1;
  if (threadIdx.x < kRowBlocks) {
    Pair block = scratch_.warps[0];
#pragma unroll
    for (int warp = 1; warp < kRowWarps; ++warp) block = combine(block, scratch_.warps[warp]);
    *cluster_.map_shared_rank(&scratch_.blocks[parity_][rank_], static_cast<int>(threadIdx.x)) =
        block;
  }
  cluster_.sync();
}

template <typename Combine>
__device__ __forceinline__ Pair RowCluster::Reduce(Pair value, Combine combine) {
  Share(value, combine);
  Pair result = shared_pairs()[0];
  for (int block = 1; block < kRowBlocks; ++block) result = combine(result, shared_pairs()[block]);
  return result;
}

}  // namespace lockstep::kernels
