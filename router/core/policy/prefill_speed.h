#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <utility>

namespace lockstep::router {

// How fast prompts are computed while more of them wait than one step takes: the speed of the
// queue. Learns only from full steps and from the steps of decodes between them. In other steps a
// token takes longer than it needs to.
class PrefillSpeed {
 public:
  // A step that took as many prompt tokens as it could. `num_tokens` is 0 if all prompts had to
  // wait.
  void ObserveFull(uint32_t num_tokens, absl::Duration compute) {
    if (compute <= absl::ZeroDuration()) return;
    since_tokens_ += compute;
    if (num_tokens == 0) return;
    const absl::Duration sample = std::exchange(since_tokens_, absl::ZeroDuration()) / num_tokens;
    per_token_ =
        per_token_ == absl::ZeroDuration() ? sample : per_token_ + (sample - per_token_) / 8;
  }

  // Zero: not measured yet.
  absl::Duration per_token() const { return per_token_; }

 private:
  absl::Duration since_tokens_;  // compute time since the last step with prompt tokens
  absl::Duration per_token_;     // exponential mean over about the last eight samples
};

}  // namespace lockstep::router
