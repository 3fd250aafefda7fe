#pragma once

#include <absl/time/time.h>

#include <algorithm>
#include <cstdint>

#include "common/instant.h"

namespace lockstep::router {

// How many requests may change their replica, over the whole fleet: a burst, and a refill rate. A
// request that finds the budget empty waits; it does not fail. So if workers die one after the
// other, the rest recompute at a bounded rate only. Pure.
class RetryBudget {
 public:
  static constexpr uint32_t kMinBurst = 1024;
  static constexpr uint32_t kBurstPerReplica = 64;
  // An empty budget refills to the whole burst within this time.
  static constexpr absl::Duration kRefill = absl::Seconds(8);
  // How long to wait before the next try.
  static constexpr absl::Duration kAskAgainAfter = absl::Milliseconds(50);

  bool Take(Instant now, uint32_t num_replicas) {
    const double burst = std::max(kMinBurst, kBurstPerReplica * num_replicas);
    if (now > filled_at_) {
      left_ = std::min(burst, left_ + burst * absl::FDivDuration(now - filled_at_, kRefill));
      filled_at_ = now;
    }
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

 private:
  double left_ = 0;
  Instant filled_at_ = Instant::InfinitePast();  // so the first call finds a whole burst
};

}  // namespace lockstep::router
