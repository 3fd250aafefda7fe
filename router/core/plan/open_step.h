#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>

#include "common/instant.h"
#include "router/core/messages/step.h"
#include "router/core/requests/scheduler_state.h"
#include "router/core/requests/sequence.h"

namespace lockstep::router {

// A step while it is planned: what the parts of the planner share. The rows of the plan and of its
// record always agree. Call only with a lease.
struct OpenStep {
  OpenStep(SchedulerState& scheduler_state, Instant step_time);

  // Plans a chunk of up to so many tokens, and returns how many. Fewer if blocks are short in a
  // group with a window; 0, and no row, if there is none.
  uint32_t AddChunk(Sequence& sequence, uint32_t max_tokens);
  void AddRow(Sequence& sequence, uint32_t num_tokens, uint32_t num_drafts = 0);
  // From now on the step is in flight.
  StepPlan Commit();
  StepBudget::InFlight DecodesInFlight() const;

  SchedulerState& state;
  Population& population;
  WorkerLease& lease;
  const Instant now;
  const size_t max_running;
  const uint32_t block_size_tokens;

  StepPlan plan;
  StepRecord record;
  uint32_t iterations = 1;  // of each decode
  bool starved = false;     // blocks ran short, so this step starts nothing new
  bool changed = false;     // a sequence was preempted or failed: a new try may find work
};

// INVALID_ARGUMENT, because another try would end in the same way.
absl::Status TooLargeForWorker(const WorkerLease& lease, const Sequence& sequence,
                               uint32_t num_blocks);

}  // namespace lockstep::router
