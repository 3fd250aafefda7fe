#include "worker/cuda/steps/decode_graphs.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "common/status.h"
#include "kernels/device/cuda_status.h"
#include "worker/cuda/steps/round.h"

namespace lockstep::worker {
namespace {

constexpr int64_t kSmallestKeyBucket = 512;
// Graphs with drafts for up to this many rows are captured before serving. Drafts save most where
// few sequences run.
constexpr int64_t kPreparedDraftRows = 32;

// Distance between buckets of rows. Padding is computed like any row. From 33 rows on it is less
// than a quarter of the rows.
int64_t RowStep(int64_t num_rows) {
  if (num_rows <= 2) return 1;
  if (num_rows <= 4) return 2;
  if (num_rows <= 16) return 4;
  if (num_rows <= 64) return 8;
  if (num_rows <= 128) return 16;
  return 32;
}

}  // namespace

DecodeGraphs::~DecodeGraphs() {
  for (const auto& [bucket, graph] : graphs_) cudaGraphExecDestroy(graph);
}

int64_t DecodeGraphs::RowBucket(int64_t num_rows) const {
  const int64_t step = RowStep(num_rows);
  return std::min((num_rows + step - 1) / step * step, max_rows_);
}

int64_t DecodeGraphs::KeyBucket(int64_t max_keys) const {
  int64_t bucket = kSmallestKeyBucket;
  while (bucket < max_keys) bucket *= 2;
  return std::min<int64_t>(bucket, model_.info().max_context_tokens);
}

absl::Status DecodeGraphs::Prepare(int64_t max_keys) {
  LOCKSTEP_RETURN_IF_ERROR(PrepareRows({.max_keys = max_keys}, max_rows_));
  if (memory_.draft_numbers == nullptr) return absl::OkStatus();
  // The rows of a sequence share their keys, unless there are few.
  const int64_t max_rows = std::min(max_rows_, kPreparedDraftRows);
  LOCKSTEP_RETURN_IF_ERROR(PrepareRows({.max_keys = 1, .has_drafts = true}, max_rows));
  return PrepareRows({.max_keys = max_keys, .rows_share = true, .has_drafts = true}, max_rows);
}

absl::Status DecodeGraphs::PrepareRows(const Iteration& like, int64_t max_rows) {
  Iteration iteration = like;
  for (int64_t rows = 1; rows <= max_rows; ++rows) {
    if (RowBucket(rows) != rows) continue;
    iteration.num_rows = rows;
    for (int64_t keys = KeyBucket(1);; keys = KeyBucket(keys + 1)) {
      iteration.max_keys = keys;
      for (const bool greedy : {false, true}) {
        iteration.sampling.all_plain_greedy = greedy;
        LOCKSTEP_RETURN_IF_ERROR(Find(iteration).status());
      }
      if (keys >= KeyBucket(like.max_keys)) break;
    }
  }
  return absl::OkStatus();
}

DecodeGraphs::Iteration DecodeGraphs::BucketOf(const Iteration& iteration) const {
  return {.num_rows = RowBucket(iteration.num_rows),
          .max_keys = KeyBucket(iteration.max_keys),
          .rows_share = iteration.rows_share,
          .has_drafts = iteration.has_drafts,
          .sampling = iteration.sampling};
}

bool DecodeGraphs::IsCaptured(const Iteration& iteration) const {
  return graphs_.contains(BucketOf(iteration));
}

absl::Status DecodeGraphs::Capture(const Iteration& iteration) {
  return Find(BucketOf(iteration)).status();
}

absl::Status DecodeGraphs::Launch(const Iteration& iteration) {
  LOCKSTEP_ASSIGN_OR_RETURN(CUgraphExec_st* const graph, Find(BucketOf(iteration)));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaGraphLaunch(graph, model_.stream().handle));
  return absl::OkStatus();
}

absl::StatusOr<CUgraphExec_st*> DecodeGraphs::Find(const Iteration& bucket) {
  const auto found = graphs_.find(bucket);
  if (found != graphs_.end()) return found->second;
  cudaStream_t const stream = model_.stream().handle;
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  const absl::Status status = EnqueueIteration(bucket);
  cudaGraph_t graph = nullptr;
  const cudaError_t end = cudaStreamEndCapture(stream, &graph);
  LOCKSTEP_RETURN_IF_ERROR(status);
  LOCKSTEP_RETURN_IF_CUDA_ERROR(end);
  cudaGraphExec_t executable = nullptr;
  const cudaError_t instantiated = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  LOCKSTEP_RETURN_IF_CUDA_ERROR(instantiated);
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaGraphUpload(executable, stream));
  graphs_.emplace(bucket, executable);
  return executable;
}

absl::Status DecodeGraphs::EnqueueIteration(const Iteration& bucket) {
  return EnqueueRound(model_, memory_,
                      {.decode_slots = memory_.row_slots,
                       .num_decode_rows = bucket.num_rows,
                       .max_decode_keys = bucket.max_keys,
                       .decode_rows_share = bucket.rows_share,
                       .num_tokens = bucket.num_rows,
                       .num_logits_rows = bucket.num_rows},
                      {.slots = memory_.row_slots,
                       .num_rows = bucket.num_rows,
                       .all_plain_greedy = bucket.sampling.all_plain_greedy,
                       .describes = bucket.sampling.describes,
                       .has_drafts = bucket.has_drafts});
}

}  // namespace lockstep::worker
