#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <span>
#include <vector>

#include "router/core/messages/step.h"
#include "router/core/requests/worker_lease.h"

namespace lockstep::router {

// The prompt log-probabilities that a row returns if it runs: positions first to first + count - 1.
// Call only for a row of the oldest step in flight.
struct PromptLogprobRange {
  uint32_t first = 0;
  uint32_t count = 0;
};
PromptLogprobRange PromptLogprobsOf(const RowRecord& row);

// Finds the outcome of each planned row (null: the worker reported nothing about it) and checks
// that the plan allows it. INTERNAL names the first contradiction. Changes only `matched`.
absl::Status CheckOutcome(WorkerLease& lease, const StepRecord& step, StepOutcome& outcome,
                          std::vector<RowOutcome*>& matched);

}  // namespace lockstep::router
