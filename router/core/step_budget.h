#pragma once

#include <absl/time/time.h>

#include <cstdint>

namespace lockstep::router {

// How much prefill a step may carry without making those who decode wait longer than a target.
// Learns two figures from measured steps: the time of one decode iteration, and what a prefill
// token adds to it. Without a target it never holds anything back.
//
// A step with a long chunk is followed by one of decodes alone, every eighth time by two. So most
// tokens of a sequence come as fast as if nobody else had a prompt. It costs little: a chunk takes
// many times as long as a step of decodes.
class StepBudget {
 public:
  explicit StepBudget(absl::Duration target_step_time) : target_(target_step_time) {}

  // A step that was computed. A compute time of zero or less means "not measured".
  struct Step {
    uint32_t num_prefill_tokens = 0;
    uint32_t num_decode_tokens = 0;
    uint32_t decode_iterations = 1;
    absl::Duration compute;
  };
  void Observe(const Step& step);

  // Prefill tokens for a step in which others decode: at least min(bound, 16), at most `bound`.
  uint32_t PrefillTokensBesideDecodes(uint32_t bound) const;
  // The next step is one of decodes alone.
  bool OwesDecodes() const;
  // A step that goes to a worker, with what it carries.
  void Planned(uint32_t num_prefill_tokens, uint32_t num_decode_tokens);
  // Iterations for a step of decodes only: at least one, at most `bound` (> 0).
  uint32_t DecodeIterations(uint32_t bound) const;

  absl::Duration decode_time() const { return decode_time_; }
  absl::Duration time_per_prefill_token() const { return time_per_prefill_token_; }

 private:
  const absl::Duration target_;
  absl::Duration decode_time_;             // zero: not measured yet
  absl::Duration time_per_prefill_token_;  // likewise
  uint32_t owed_decode_steps_ = 0;         // in eighths
};

}  // namespace lockstep::router
