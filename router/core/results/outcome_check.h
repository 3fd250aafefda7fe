#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <span>
#include <vector>

#include "router/core/messages/step.h"
#include "router/core/requests/worker_lease.h"

namespace lockstep::router {

// The prompt log-probabilities that a row brings, if it runs: of positions first .. first + count
// - 1.
struct PromptLogprobRange {
  uint32_t first = 0;
  uint32_t count = 0;
};
PromptLogprobRange PromptLogprobsOf(const RowRecord& row);

// Finds each planned row's outcome (null: the worker said nothing of it) and checks that it is one
// that the plan allows: INTERNAL names the first contradiction. Changes nothing but `matched`.
absl::Status CheckOutcome(WorkerLease& lease, const StepRecord& step, StepOutcome& outcome,
                          std::vector<RowOutcome*>& matched);

}  // namespace lockstep::router
