#pragma once

#include <absl/time/time.h>

#include <algorithm>

namespace lockstep::router {

// The circuit breaker of one replica: how long nobody tries to attach its worker again. The pause
// doubles with every attempt that fails and every lease that ends young, so a worker that comes up
// only to die again is tried, and given requests, more and more rarely. Pure.
class ReattachBackoff {
 public:
  // `stable_lease`: the age from which a lease has shown that the worker is well.
  ReattachBackoff(absl::Duration min_pause, absl::Duration max_pause, absl::Duration stable_lease)
      : min_pause_(min_pause),
        max_pause_(max_pause),
        stable_lease_(stable_lease),
        next_(min_pause) {}

  absl::Duration AfterFailedAttempt() {
    const absl::Duration pause = next_;
    next_ = std::min(next_ * 2, max_pause_);
    return pause;
  }
  absl::Duration AfterLease(absl::Duration age) {
    if (age >= stable_lease_) next_ = min_pause_;
    return AfterFailedAttempt();
  }

 private:
  const absl::Duration min_pause_;
  const absl::Duration max_pause_;
  const absl::Duration stable_lease_;
  absl::Duration next_;
};

}  // namespace lockstep::router
