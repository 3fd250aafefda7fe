#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <cstdint>

#include "worker/cuda/model.h"
#include "worker/cuda/steps/step_memory.h"

struct CUgraphExec_st;

namespace lockstep::worker {

// One decode iteration, from the slots' state to the entry in the result ring, captured as CUDA
// graphs. There is a graph for each bucket of rows and of keys, so no branch and no grid of a graph
// ever changes. Rows beyond the batch are padding. Owns the graphs. Used by one thread. Each rank
// has graphs of its own. Only those of rank 0 compute log-probabilities, because only its results
// are reported.
class DecodeGraphs {
 public:
  // What the sampling of a batch needs.
  struct Sampling {
    bool describes = false;         // some row wants log-probabilities
    bool all_plain_greedy = false;  // see SampleRowsParams

    friend bool operator==(const Sampling&, const Sampling&) = default;
  };

  struct Iteration {
    int64_t num_rows = 0;
    int64_t max_keys = 0;     // that a row attends to
    bool rows_share = false;  // see CudaBatch
    bool has_drafts = false;  // some rows are of drafts
    Sampling sampling = {};

    template <typename H>
    friend H AbslHashValue(H h, const Iteration& iteration) {
      return H::combine(std::move(h), iteration.num_rows, iteration.max_keys, iteration.rows_share,
                        iteration.has_drafts, iteration.sampling.describes,
                        iteration.sampling.all_plain_greedy);
    }
    friend bool operator==(const Iteration&, const Iteration&) = default;
  };

  // `model` and `memory` outlive the object. A batch has at most `max_rows` rows.
  DecodeGraphs(CudaModel& model, const CudaStepMemory& memory, int64_t max_rows)
      : model_(model), memory_(memory), max_rows_(max_rows) {}
  DecodeGraphs(const DecodeGraphs&) = delete;
  DecodeGraphs& operator=(const DecodeGraphs&) = delete;
  ~DecodeGraphs();

  // Captures the graphs without log-probabilities and without shared keys, for all buckets of rows
  // and for up to `max_keys` keys. If there are drafts, also graphs with drafts, for few rows.
  absl::Status Prepare(int64_t max_keys);

  int64_t max_rows() const { return max_rows_; }
  size_t num_captured() const { return graphs_.size(); }
  // The number of rows that a batch of `num_rows` is padded to.
  int64_t RowBucket(int64_t num_rows) const;
  // Enqueues an iteration over memory.row_slots[0 .. RowBucket(num_rows)). If the graph does not
  // exist yet, captures it first.
  absl::Status Launch(const Iteration& iteration);
  bool IsCaptured(const Iteration& iteration) const;
  absl::Status Capture(const Iteration& iteration);

 private:
  int64_t KeyBucket(int64_t max_keys) const;
  // The largest iteration that the same graph serves.
  Iteration BucketOf(const Iteration& iteration) const;
  // Captures graphs like one of `like`, for up to its number of keys and `max_rows` rows.
  absl::Status PrepareRows(const Iteration& like, int64_t max_rows);
  absl::StatusOr<CUgraphExec_st*> Find(const Iteration& bucket);
  absl::Status EnqueueIteration(const Iteration& bucket);

  CudaModel& model_;
  const CudaStepMemory& memory_;
  const int64_t max_rows_;
  absl::flat_hash_map<Iteration, CUgraphExec_st*> graphs_;  // by bucket
};

}  // namespace lockstep::worker
