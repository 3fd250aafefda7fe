#pragma once

#include <absl/time/time.h>

#include <algorithm>
#include <cstdint>

#include "common/instant.h"

namespace lockstep::router {

// What a lease showed about its worker. The age of a lease alone shows nothing, because the worker
// may have hung all the time. Pure.
class LeaseRecord {
 public:
  void OnUp(Instant now) { up_at_ = now; }
  void OnStepSent() { ++num_unanswered_; }
  void OnResult(Instant now) {
    if (num_unanswered_ > 0) --num_unanswered_;
    refused_last_ = false;
    first_result_at_ = std::min(first_result_at_, now);
    last_result_at_ = now;
  }
  void OnRefusal() {
    if (num_unanswered_ > 0) --num_unanswered_;
    refused_last_ = true;
  }
  // Call when the lease ends. True if the last answer was no refusal, and either results came over
  // at least `stable`, or all steps were answered and the lease is at least `stable` old.
  bool WasWell(Instant now, absl::Duration stable) const {
    if (refused_last_) return false;
    if (num_unanswered_ == 0) return now - up_at_ >= stable;
    return last_result_at_ - first_result_at_ >= stable;
  }

 private:
  Instant up_at_ = Instant::InfiniteFuture();
  uint64_t num_unanswered_ = 0;
  bool refused_last_ = false;
  Instant first_result_at_ = Instant::InfiniteFuture();
  Instant last_result_at_ = Instant::InfinitePast();
};

// The pause before a worker is attached again; meanwhile its circuit is open. The pause doubles
// with every failed attempt and with every lease that showed the worker to be of no use. So a
// worker that comes up only to die or hang again is tried, and given requests, more and more
// rarely. A worker that cannot be reached costs only the attempts, so it is tried more often. Pure.
class ReattachBackoff {
 public:
  struct Limits {
    absl::Duration min_pause;
    absl::Duration max_pause;        // after failed attempts
    absl::Duration max_lease_pause;  // after leases
  };
  explicit ReattachBackoff(const Limits& limits) : limits_(limits), next_(limits.min_pause) {}

  absl::Duration AfterFailedAttempt() {
    const absl::Duration pause = std::min(next_, limits_.max_pause);
    next_ = std::max(next_, std::min(next_ * 2, limits_.max_pause));
    return pause;
  }
  // `was_well`: see LeaseRecord::WasWell.
  absl::Duration AfterLease(bool was_well) {
    if (was_well) next_ = limits_.min_pause;
    const absl::Duration pause = std::min(next_, limits_.max_lease_pause);
    next_ = std::min(next_ * 2, limits_.max_lease_pause);
    return pause;
  }

 private:
  const Limits limits_;
  absl::Duration next_;
};

}  // namespace lockstep::router
