#pragma once

#include "kernels/sampling/cuda/row_cluster.cuh"
#include "kernels/sampling/cuda/sample_cuda.h"

// One row's parameters, and their effect on its scores before the choice.
namespace lockstep::kernels {

// What a row's cluster must know besides the scores.
struct RowTask {
  DeviceSampleParams params;
  uint32_t position = 0;  // of the token being sampled: the number of known tokens
  bool masks_stop_ids = false;
  TokenId* token = nullptr;  // where the row's result goes

  __device__ __forceinline__ bool adjusts() const {
    return params.num_allowed != 0 || params.num_bias != 0 || params.count_row != kNoCountRow ||
           masks_stop_ids;
  }
  __device__ __forceinline__ bool by_rank(int vocab_size) const {
    return params.top_p < 1 ||
           (params.top_k != 0 && params.top_k < static_cast<uint32_t>(vocab_size));
  }
};

// Calls visit(index in the chunk, index in the list) for the ids of a list that lie in this block's
// chunk.
template <typename Visit>
__device__ __forceinline__ void ForEachListed(const RowCluster& row, const TokenId* ids,
                                              uint32_t count, Visit visit) {
  for (uint32_t i = threadIdx.x; i < count; i += kRowThreads) {
    const uint32_t place = ids[i] - static_cast<uint32_t>(row.begin());
    if (place < static_cast<uint32_t>(row.size())) visit(place, i);
  }
}

__device__ __forceinline__ void Penalise(const DeviceSampleParams& params, uint32_t count,
                                         float* place) {
  if (count == 0) return;
  float score = DeviceFiniteScore(*place);
  score = score > 0 ? __fdiv_rn(score, params.repetition_penalty)
                    : __fmul_rn(score, params.repetition_penalty);
  if (count > 1) {
    score = __fsub_rn(score, params.presence_penalty);
    score = __fsub_rn(score, __fmul_rn(params.frequency_penalty, static_cast<float>(count - 1)));
  }
  *place = DeviceFiniteScore(score);
}

// `counts`: of the chunk's tokens.
__device__ __forceinline__ void ApplyPenalties(const DeviceSampleParams& params,
                                               const uint32_t* counts, const RowCluster& row) {
  // Several loads under way before the first is used.
  constexpr int kBatch = 10;
  for (int first = static_cast<int>(threadIdx.x); first < row.size();
       first += kBatch * kRowThreads) {
    uint32_t batch[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int i = first + j * kRowThreads;
      batch[j] = i < row.size() ? __ldcg(counts + i) : 0;
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      Penalise(params, batch[j], row.scores() + first + j * kRowThreads);
    }
  }
}

// Steps 1 to 5 of sample.h on the chunk that the block keeps.
__device__ __forceinline__ void AdjustScores(const SampleRowsParams& all, const RowTask& task,
                                             const RowCluster& row) {
  const DeviceSampleParams& params = task.params;
  const TokenId* const ids = all.tables.list_ids;
  float* const scores = row.scores();
  if (params.num_allowed != 0) {
    for (int i = static_cast<int>(threadIdx.x); i < row.size(); i += kRowThreads) {
      scores[i] = -INFINITY;
    }
    __syncthreads();
    ForEachListed(row, ids + params.allowed_begin, params.num_allowed,
                  [&](uint32_t place, uint32_t) { scores[place] = __ldcg(row.logits() + place); });
    __syncthreads();
  }
  const float* const values = all.tables.list_values + params.bias_begin;
  ForEachListed(row, ids + params.bias_begin, params.num_bias, [&](uint32_t place, uint32_t i) {
    scores[place] = DeviceFiniteScore(__fadd_rn(DeviceFiniteScore(scores[place]), values[i]));
  });
  __syncthreads();
  if (params.count_row != kNoCountRow) {
    ApplyPenalties(params,
                   all.tables.token_counts + params.count_row * all.vocab_size + row.begin(), row);
    __syncthreads();
  }
  if (task.masks_stop_ids) {
    ForEachListed(row, ids + params.stop_begin, params.num_stop,
                  [&](uint32_t place, uint32_t) { scores[place] = -INFINITY; });
    __syncthreads();
  }
}

}  // namespace lockstep::kernels
