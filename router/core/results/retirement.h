#pragma once

#include <absl/status/status.h>

#include <vector>

#include "router/core/messages/step.h"
#include "router/core/requests/scheduler_state.h"

namespace lockstep::router {

// Reads the outcome of the oldest step in flight: tokens go to their sequences, full blocks whose
// KV is now certain to the prefix index, and what no step in flight mentions any more back to the
// pool. An outcome that contradicts its plan changes nothing and stops all planning: INTERNAL.
class Retirement {
 public:
  explicit Retirement(SchedulerState& state);

  absl::Status Apply(StepOutcome outcome);

 private:
  void ObserveTime(const StepRecord& step, absl::Duration compute);
  absl::Status CheckStep(const StepOutcome& outcome) const;
  void ApplyRow(const RowRecord& row, RowOutcome* outcome);
  void TakePromptLogprobs(const RowRecord& row, RowOutcome& outcome);
  void TakeTokens(Sequence& sequence, RowOutcome& outcome);
  void Publish(Sequence& sequence, Residency& residency);
  void EndIfTold(Sequence& sequence, const RowOutcome& outcome);

  void ApplyRefusal(const StepRecord& step, const absl::Status& refusal);
  void CountRefusal(const StepRecord& step, const absl::Status& refusal);
  void ReleaseFenced();

  SchedulerState& state_;
  Population& population_;
  WorkerLease& lease_;
  RowOutcome silent_;  // what a row says of which the worker says nothing
};

}  // namespace lockstep::router
