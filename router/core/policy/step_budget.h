#pragma once

#include <absl/time/time.h>

#include <cstdint>

#include "router/core/policy/token_pace.h"

namespace lockstep::router {

// How much prefill a step may carry beside decodes. Learns two figures from measured steps: the
// time of one decode iteration, and the time that one prefill token adds to it. Without a target
// and a bound on the time per token it limits nothing.
//
// Running sequences wait for the step, and waiting prompts wait behind it for their first token. So
// a step may take half of the target while few prompt tokens wait. As more wait, three tenths of
// the time that they need are added, up to four times the target in all. Half of the target spreads
// small prompts over several steps. Long steps drain a long queue sooner, because each step has a
// cost of its own.
//
// A chunk is long if it takes many times as long as decodes alone. Up to four long chunks run
// without a step of decodes alone between them. After the fourth, and after each further one, a
// step has decodes only; every fourth time, two steps. So while prompts keep coming, most tokens of
// a sequence come as fast as without them, and a short burst of prompts is over sooner. Steps
// without prompts make up for long chunks.
//
// Products compute rows in tiles. Where more prompt tokens wait than the time allows, a step of 512
// rows or more ends with a whole tile, if that costs at most a quarter of its prompt tokens.
//
// A bound on the time per token (TokenPace) limits steps as well, with or without a target. While
// more prompts come than can be computed within it, they wait, and the sequences that run keep to
// the bound.
class StepBudget {
 public:
  explicit StepBudget(absl::Duration target_step_time,
                      absl::Duration max_time_per_token = absl::InfiniteDuration())
      : target_(target_step_time), pace_(max_time_per_token) {}

  // A step that was computed. A compute time of zero or less means "not measured".
  struct Step {
    uint32_t num_prefill_tokens = 0;
    uint32_t num_decode_tokens = 0;  // as planned, not as kept
    uint32_t decode_iterations = 1;
    absl::Duration compute;
  };
  void Observe(const Step& step);

  // A request that uses the prefix cache starts for the first time with this many tokens. The cache
  // has `num_cached` of them.
  void ObserveCached(uint32_t num_tokens, uint32_t num_cached);
  // How many tokens of the waiting prompts will probably be computed, judged by the requests that
  // started.
  uint64_t UncachedTokens(uint64_t num_waiting_tokens) const;

  // Steps with decodes, planned and not observed yet.
  struct InFlight {
    uint32_t num_iterations = 0;
    uint64_t num_prefill_tokens = 0;
  };
  // Prefill tokens for a step that also has `num_decodes` decodes: at least min(bound, 16), at
  // most `bound`. `num_waiting`: prompt tokens to be computed in this step or later.
  uint32_t PrefillTokensBesideDecodes(uint32_t bound, uint32_t num_decodes, uint64_t num_waiting,
                                      const InFlight& in_flight) const;
  // Call for each sequence that starts.
  void Started() { num_steps_since_start_ = 0; }
  // True if the next step must have decodes only.
  bool OwesDecodes() const;
  // Call for each step that goes to a worker.
  void Planned(uint32_t num_prefill_tokens, uint32_t num_decode_tokens);
  // Iterations for a step of decodes only: at least one, at most `bound` (> 0).
  uint32_t DecodeIterations(uint32_t bound) const;

  // About how long it takes until this many prompt tokens are computed, `max_chunk` at most in a
  // step, together with the rest of their last step. `beside_decodes`: sequences decode meanwhile.
  // Zero: not measured yet.
  absl::Duration TimeToPrefill(double num_tokens, uint32_t max_chunk, bool beside_decodes) const;
  // False: decodes alone take all that the time per token allows this step, so nothing may start
  // beside them. One step in sixteen is an exception and may start a sequence. Otherwise a
  // sequence that never ends would keep all others out.
  bool MayStartBesideDecodes(const InFlight& in_flight) const;
  // True if decodes alone take longer than the time per token. Then little starts until some end.
  bool DecodesMissThePace() const { return decode_time_ > pace_.per_token(); }

  absl::Duration decode_time() const { return decode_time_; }
  absl::Duration time_per_prefill_token() const { return time_per_prefill_token_; }

 private:
  // The most that a step may take by the target.
  absl::Duration TimeOfStep(uint64_t num_waiting) const;
  // The most that the next step may take by the time per token.
  absl::Duration TimeByPace(const InFlight& in_flight) const;
  // A chunk that takes this long owes steps of decodes.
  bool IsLong(absl::Duration chunk) const;

  absl::Duration target_;
  TokenPace pace_;
  absl::Duration decode_time_;             // zero: not measured yet
  absl::Duration time_per_prefill_token_;  // zero: not measured yet
  uint32_t owed_decode_steps_ = 0;         // in eighths of a step
  uint32_t num_steps_since_start_ = 0;
  // Tokens of a request when it starts, and those of them that are not cached. Exponential means.
  double mean_known_ = 0.0, mean_uncached_ = 0.0;
};

}  // namespace lockstep::router
