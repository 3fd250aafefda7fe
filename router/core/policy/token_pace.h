#pragma once

#include <absl/time/time.h>

#include <algorithm>
#include <cstdint>

namespace lockstep::router {

// Keeps the time per token of running sequences below a bound, on average over some steps. A step
// that takes less than the bound saves time, and a later one may take so much longer. What is saved
// or owed is limited to two tokens' time. So a request of many tokens keeps to the bound, even
// beside many prompts.
class TokenPace {
 public:
  explicit TokenPace(absl::Duration max_time_per_token) : per_token_(kAim * max_time_per_token) {}

  // Infinite: there is no bound. Otherwise a little less than the bound, because half of the steps
  // take a little longer than planned.
  absl::Duration per_token() const { return per_token_; }

  // A step of this many decode iterations was computed.
  void Observe(uint32_t num_iterations, absl::Duration compute) {
    if (!is_bounded()) return;
    const absl::Duration most = kMostSavedTokens * per_token_;
    saved_ = std::clamp(saved_ + num_iterations * per_token_ - compute, -most, most);
  }

  // How long the next step may take, after steps in flight of `num_iterations` that will take
  // `in_flight`. May be less than zero.
  absl::Duration NextStep(uint32_t num_iterations, absl::Duration in_flight) const {
    if (!is_bounded()) return absl::InfiniteDuration();
    return per_token_ + saved_ + num_iterations * per_token_ - in_flight;
  }

 private:
  static constexpr double kAim = 0.95;
  static constexpr int kMostSavedTokens = 2;

  bool is_bounded() const { return per_token_ != absl::InfiniteDuration(); }

  absl::Duration per_token_;
  absl::Duration saved_;  // less than zero: owed
};

}  // namespace lockstep::router
