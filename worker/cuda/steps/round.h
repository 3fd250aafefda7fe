#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "kernels/sampling/cuda/sample_cuda.h"
#include "worker/cuda/model.h"
#include "worker/cuda/steps/step_memory.h"

namespace lockstep::worker {

// Rows of a pass that sample a token. Their logits come first.
struct SampledRows {
  const uint32_t* slots = nullptr;  // [num_rows], device or pinned
  int64_t num_rows = 0;
  bool all_plain_greedy = false;  // see SampleRowsParams
  bool describes = false;         // some row wants log-probabilities
  bool has_drafts = false;        // there are rows of drafts; the rows are memory.row_slots
};

// Prompt tokens whose log-probability is wanted. Their logits come behind those of the rows that
// sample. Pinned.
struct DescribedPrompts {
  const TokenId* tokens = nullptr;    // [num_rows]
  const int32_t* num_best = nullptr;  // [num_rows]
  kernels::RowDescription* descriptions = nullptr;
  int64_t num_rows = 0;
};

// Enqueues one round of a rank: drafts, if it has rows of drafts, prepares the inputs, runs the
// pass, samples the tokens of its rows, and finishes, with an entry in the rank's result ring.
// Graphs capture it, and steps with chunks launch it. Every rank samples, so that each knows the
// next tokens. Only rank 0 computes log-probabilities, because only its results are reported. A
// batch without tokens has no pass. begin_ns of `batch` is ignored.
absl::Status EnqueueRound(CudaModel& model, const CudaStepMemory& memory, CudaBatch batch,
                          const SampledRows& rows, const DescribedPrompts& prompts = {});

}  // namespace lockstep::worker
