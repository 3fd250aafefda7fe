#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/ids.h"
#include "lockstep/worker/v1/worker.pb.h"
#include "worker/steps/executor_limits.h"

namespace lockstep::worker {

// Counts of a step, for metrics.
struct StepStats {
  uint32_t num_prefill_rows = 0;
  uint32_t num_decode_rows = 0;      // one token left to compute, then a sample
  uint32_t num_live_slots = 0;       // after the step
  uint32_t num_graph_replays = 0;    // CUDA: iterations that a graph ran
  uint32_t num_graph_misses = 0;     // iterations that had to capture a graph first
  uint32_t num_masks = 0;            // tokens that were sampled under a constraint
  uint64_t mask_ns = 0;              // spent waiting for these masks
  uint32_t num_engine_restarts = 0;  // of the constraint engine
  bool refused = false;
};

// Runs the steps of one lease after the other. Each kind of device has an implementation. Steps may
// be submitted while others are in progress; results come in order. Lives on the executor thread.
// Never chooses what to run, and knows nothing of streams or policy. A step that breaks the
// contract is refused as a whole, and every later step too, until a resync. A row that fails only
// makes its slot inert.
class StepRunner {
 public:
  virtual ~StepRunner() = default;

  virtual const StepBounds& bounds() const = 0;
  // Both drop every slot. Nothing may be pending. Epochs start at 1.
  virtual void BeginLease(uint64_t epoch) = 0;
  virtual void EndLease() = 0;

  // Starts a step. Every step gets one result.
  virtual void Submit(const v1::StepRequest& step) = 0;
  // Submitted steps without a result taken.
  virtual size_t num_pending() const = 0;
  // Takes the result of the oldest pending step. Returns false at once if it is not ready. Sets
  // compute_ns and idle_ns of the timings, no others. Overwrites `result`.
  virtual bool TakeResult(v1::StepResult* result, StepStats* stats) = 0;

  // For tests and benchmarks of drafts: from the next step on, script[i] is drafted for position i
  // of the slot. At positions behind the script anything may be drafted. Returns false if the
  // runner's drafts do not come from a script.
  virtual bool SetDraftScript(SlotId /*slot*/, std::span<const TokenId> /*script*/) {
    return false;
  }
};

}  // namespace lockstep::worker
