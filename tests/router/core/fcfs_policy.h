#pragma once

#include <memory>

#include "common/instant.h"
#include "router/core/policy/policy.h"

namespace lockstep::router::testing {

// First come, first served, whatever the priorities: the simplest order there is, for tests of
// everything that is not about the order.
class FcfsPolicy final : public SchedulingPolicy {
 public:
  bool Before(const PolicyView& a, const PolicyView& b, Instant /*now*/) const override {
    if (a.arrival != b.arrival) return a.arrival < b.arrival;
    return a.order < b.order;
  }
};

inline std::unique_ptr<SchedulingPolicy> MakeFcfsPolicy() { return std::make_unique<FcfsPolicy>(); }

}  // namespace lockstep::router::testing
