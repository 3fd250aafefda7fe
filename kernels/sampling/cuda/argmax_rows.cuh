#pragma once

#include <cooperative_groups.h>

#include "kernels/core/ptx/memory.cuh"
#include "kernels/sampling/cuda/sample_cuda.h"
#include "kernels/sampling/cuda/score_order.cuh"
#include "kernels/slots/draft_rows.cuh"

// The best token of every row, for steps that need nothing else. No scores are kept, so many blocks
// share a multiprocessor. How a row is spread over threads cannot change its best candidate.
namespace lockstep::kernels {

inline constexpr int kArgmaxBlocks = 8;

// The best candidate of the vectors at first, first + kStride and so on; kBatch loads at a time.
template <int kStride, int kBatch>
__device__ __forceinline__ Candidate BestOfVectors(const float* logits, int first, int size) {
  float best = -INFINITY;
  int best_token = 0;
  const auto see = [&](float score, int token) {
    if (score > best) {
      best = score;
      best_token = token;
    }
  };
  for (; first < size; first += kBatch * kStride) {
    float4 values[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int i = first + j * kStride;
      values[j] = i < size ? __ldcg(reinterpret_cast<const float4*>(logits + i))
                           : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int i = first + j * kStride;
      see(values[j].x, i);
      see(values[j].y, i + 1);
      see(values[j].z, i + 2);
      see(values[j].w, i + 3);
    }
  }
  return MakeCandidate(best, static_cast<uint32_t>(best_token));
}

template <int kThreads>
__global__ void __cluster_dims__(kArgmaxBlocks, 1, 1) __launch_bounds__(kThreads, 2048 / kThreads)
    ArgmaxRowsKernel(const __grid_constant__ SampleRowsParams all, bool aligned) {
  constexpr int kVectorSize = 4;
  constexpr int kRowThreadCount = kThreads * kArgmaxBlocks;
  constexpr int kBatch = 5;
  __shared__ Candidate warps[kThreads / 32];
  __shared__ Candidate blocks[kArgmaxBlocks];
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
  auto cluster = cooperative_groups::this_cluster();
  cluster.barrier_arrive();
  const int64_t row = blockIdx.y;
  const float* const logits = all.logits + row * all.row_stride;
  const int size = static_cast<int>(all.vocab_size);
  const int thread = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const int vector_size = aligned ? size / kVectorSize * kVectorSize : 0;
  Candidate best = BestOfVectors<kRowThreadCount * kVectorSize, kBatch>(
      logits, thread * kVectorSize, vector_size);
#pragma unroll 4
  for (int i = vector_size + thread; i < size; i += kRowThreadCount) {
    best = max(best, MakeCandidate(__ldcg(logits + i), static_cast<uint32_t>(i)));
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    best = max(best, __shfl_xor_sync(0xFFFFFFFFu, best, distance));
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = best;
  __syncthreads();
  cluster.barrier_wait();
  if (threadIdx.x == 0) {
    for (const Candidate other : warps) best = max(best, other);
    *cluster.map_shared_rank(&blocks[cluster.block_rank()], 0) = best;
  }
  cluster.sync();
  if (cluster.block_rank() != 0 || threadIdx.x != 0) return;
  for (const Candidate other : blocks) best = max(best, other);
  const uint32_t slot = all.row_slots[row];
  const bool samples = IsLiveRow(all.state, all.draft_rows, slot, DraftNumber(all.draft_rows, row));
  const bool found = samples && CandidateKey(best) != kMaskedKey;
  all.tokens[row] = found ? CandidateToken(best) : 0;
  all.statuses[row] = found ? kSampled : samples ? kNoTokenLeft : kNotSampled;
  if (all.num_best != nullptr)
    all.num_best[row] = found ? all.tables.params[slot].num_logprobs : -1;
}

}  // namespace lockstep::kernels
