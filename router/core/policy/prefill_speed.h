#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <utility>

namespace lockstep::router {

// How fast prompts are computed while there are more of them than a step takes: what a queue moves
// at. Learns from such steps alone, with the steps of decodes that stand between them; others take
// longer for each token than they need to.
class PrefillSpeed {
 public:
  // A step whose prompt tokens were all that it could take; none: prompts had to wait.
  void ObserveFull(uint32_t num_tokens, absl::Duration compute) {
    if (compute <= absl::ZeroDuration()) return;
    since_tokens_ += compute;
    if (num_tokens == 0) return;
    const absl::Duration sample = std::exchange(since_tokens_, absl::ZeroDuration()) / num_tokens;
    per_token_ =
        per_token_ == absl::ZeroDuration() ? sample : per_token_ + (sample - per_token_) / 8;
  }

  // Zero: never measured.
  absl::Duration per_token() const { return per_token_; }

 private:
  absl::Duration since_tokens_;  // since a step with prompt tokens
  absl::Duration per_token_;     // exponential mean over about the last eight steps
};

}  // namespace lockstep::router
