#pragma once

#include <absl/status/status.h>

#include <vector>

#include "router/core/messages/step.h"
#include "router/core/requests/scheduler_state.h"

namespace lockstep::router {

// Reads the outcome of the oldest step in flight. Adds the tokens to their sequences, lowers each
// sequence's planned bounds to the tokens that it kept, and publishes full blocks with certain KV
// to the prefix index. Blocks that no step in flight uses any more return to the pool. If an
// outcome contradicts its plan, nothing is applied, planning stops, and the result is INTERNAL.
class Retirement {
 public:
  Retirement(SchedulerState& state, Instant now);

  absl::Status Apply(StepOutcome outcome);

 private:
  void ObserveTime(const StepRecord& step, absl::Duration compute);
  void ObserveDrafts(Sequence& sequence, const RowRecord& row, const RowOutcome& outcome,
                     uint32_t num_kept);
  absl::Status CheckStep(const StepOutcome& outcome) const;
  void ApplyRow(const RowRecord& row, RowOutcome* outcome);
  void NoteProgress();
  void TakePromptLogprobs(const RowRecord& row, RowOutcome& outcome);
  void TakeTokens(Sequence& sequence, RowOutcome& outcome);
  void Publish(Sequence& sequence, Residency& residency);
  // The row stopped or failed.
  void End(Sequence& sequence, const RowOutcome& outcome);
  // The row waits.
  void EndIfWaitedTooLong(Sequence& sequence, Residency& residency);

  void ApplyRefusal(const StepRecord& step, const absl::Status& refusal);
  void CountRefusal(const StepRecord& step, const absl::Status& refusal);
  void ReleaseFenced();

  SchedulerState& state_;
  Population& population_;
  WorkerLease& lease_;
  const Instant now_;
  const bool worker_drafts_;
  uint32_t num_computed_ = 0;  // last tokens and drafts that the step computed
  RowOutcome silent_;          // stands for a row that the worker did not mention
};

}  // namespace lockstep::router
