#pragma once

#include "kernels/sampling/cuda/row_cluster.cuh"
#include "kernels/sampling/cuda/sample_cuda.h"
#include "kernels/slots/draft_rows.cuh"

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

// The drafts before a row. They count for penalties as if they were generated: the row's result is
// only kept if they were.
struct DraftsBefore {
  const TokenId* tokens;
  uint32_t count;

  __device__ __forceinline__ static DraftsBefore Of(const SampleRowsParams& all, int64_t row) {
    const DraftTable& table = all.draft_rows.table;
    return {table.tokens + static_cast<int64_t>(all.row_slots[row]) * table.max_drafts,
            DraftNumber(all.draft_rows, row)};
  }
  // Of this thread's draft in the row's chunk. Thread i has draft i; not below row.size(): it has
  // none, or it is elsewhere.
  __device__ __forceinline__ uint32_t Place(const RowCluster& row) const {
    return threadIdx.x < count ? tokens[threadIdx.x] - static_cast<uint32_t>(row.begin())
                               : UINT32_MAX;
  }
  // A token's entry in token_counts once the drafts are generated, too.
  __device__ __forceinline__ uint32_t Count(TokenId token, uint32_t before) const {
    for (uint32_t i = 0; i < count; ++i) {
      if (tokens[i] == token) before = before == 0 ? 2 : before + 1;
    }
    return before;
  }
};

// The penalties of all tokens, and once more, from the scores before, those of the drafts.
// `counts`: of the chunk's tokens.
__device__ __forceinline__ void ApplyPenaltiesWithDrafts(const DeviceSampleParams& params,
                                                         const DraftsBefore& drafts,
                                                         const uint32_t* counts, RowCluster& row) {
  float* const saved = reinterpret_cast<float*>(row.workspace().list);  // not in use yet
  const auto size = static_cast<uint32_t>(row.size());
  if (const uint32_t place = drafts.Place(row); place < size) {
    saved[threadIdx.x] = row.scores()[place];
  }
  __syncthreads();
  ApplyPenalties(params, counts, row);
  __syncthreads();
  if (const uint32_t place = drafts.Place(row); place < size) {
    float score = saved[threadIdx.x];
    Penalise(params, drafts.Count(drafts.tokens[threadIdx.x], __ldcg(counts + place)), &score);
    row.scores()[place] = score;
  }
}

// Steps 1 to 5 of sample.h on the chunk that the block keeps. kHasDrafts: rows may be of drafts.
template <bool kHasDrafts>
__device__ __forceinline__ void AdjustScores(const SampleRowsParams& all, const RowTask& task,
                                             RowCluster& row) {
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
    const uint32_t* const counts =
        all.tables.token_counts + params.count_row * all.vocab_size + row.begin();
    if constexpr (kHasDrafts) {
      ApplyPenaltiesWithDrafts(params, DraftsBefore::Of(all, blockIdx.y), counts, row);
    } else {
      ApplyPenalties(params, counts, row);
    }
    __syncthreads();
  }
  if (task.masks_stop_ids) {
    ForEachListed(row, ids + params.stop_begin, params.num_stop,
                  [&](uint32_t place, uint32_t) { scores[place] = -INFINITY; });
    __syncthreads();
  }
}

}  // namespace lockstep::kernels
