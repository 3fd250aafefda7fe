#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>

namespace lockstep::router {

// Default target of a server. Steps with prompts may take four times as long. Decodes take turns
// with them, so a running sequence has about ten tokens a second while prompts keep coming.
inline constexpr absl::Duration kServingStepTime = absl::Milliseconds(50);

struct SchedulerConfig {
  // Of requests that have never run. Others that wait again take no room.
  uint32_t max_waiting_requests = 1024;
  uint64_t max_waiting_tokens = 4u << 20;    // of their prompts
  uint32_t max_steps_in_flight = 2;          // also bounded by the worker
  uint32_t max_running_sequences = 4096;     // also bounded by the worker's slots and step tokens
  uint32_t max_prefill_tokens_per_step = 0;  // 0: only the step budget bounds it
  // A step tells the worker every known token of each sequence that it starts, even if cached,
  // and the token ids in the lists of its request. Once a step has so many ids, the next sequence
  // starts in another step. So the message stays below kMaxStepMessageMib with the other defaults,
  // and every worker takes it.
  uint64_t max_started_ids_per_step = 4u << 20;
  // For steps with decodes. Prefill chunks fill a step to about half of this time, and
  // to at most four times this time as prompts pile up (StepBudget).
  absl::Duration target_step_time = absl::InfiniteDuration();
  // Prompts get what decodes leave of this time for each step, on average over a few steps.
  // Infinite: only the target bounds them.
  absl::Duration max_time_per_token = absl::InfiniteDuration();
  // A request is refused at once if its first token would probably take longer.
  absl::Duration max_time_to_first_token = absl::InfiniteDuration();
  uint32_t max_preemptions_per_sequence = 16;  // at the next one the sequence fails
  uint32_t max_decode_iterations = 1;  // of a step with decodes only, while no sequence waits
  // Tokens that a worker may draft for each row that decodes; also bounded by the worker. A step
  // with drafts has one iteration.
  uint32_t max_draft_tokens = 0;
  // Drafts as many tokens as pay (DraftPolicy). False: always as many as may be, for comparisons.
  bool adaptive_drafts = true;

  absl::Status Validate() const;  // reports every violation
};

}  // namespace lockstep::router
