#include "router/core/messages/scheduler_config.h"

#include "common/violations.h"
#include "router/core/policy/draft_record.h"

namespace lockstep::router {

absl::Status SchedulerConfig::Validate() const {
  Violations violations("scheduler");
  violations.Require(max_waiting_requests > 0, "max_waiting_requests: expected at least 1");
  violations.Require(max_waiting_tokens > 0, "max_waiting_tokens: expected at least 1");
  violations.Require(max_steps_in_flight >= 1 && max_steps_in_flight <= 64,
                     "max_steps_in_flight: expected 1 to 64");
  violations.Require(max_running_sequences > 0, "max_running_sequences: expected at least 1");
  violations.Require(max_started_ids_per_step > 0, "max_started_ids_per_step: expected at least 1");
  violations.Require(target_step_time > absl::ZeroDuration(),
                     "target_step_time: expected more than zero");
  violations.Require(max_time_per_token > absl::ZeroDuration(),
                     "max_time_per_token: expected more than zero");
  violations.Require(max_time_to_first_token > absl::ZeroDuration(),
                     "max_time_to_first_token: expected more than zero");
  violations.Require(max_decode_iterations >= 1 && max_decode_iterations <= 64,
                     "max_decode_iterations: expected 1 to 64");
  violations.Require(max_draft_tokens <= kMaxDrafts, "max_draft_tokens: expected at most 16");
  return violations.ToStatus();
}

}  // namespace lockstep::router
