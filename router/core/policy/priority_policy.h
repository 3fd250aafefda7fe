#pragma once

#include <absl/time/time.h>

#include <memory>

#include "router/core/policy/policy.h"

namespace lockstep::router {

// Lower priority values go first. A request that has waited `ageing` longer makes up for one level:
// requests are ordered by arrival + priority * ageing. That order never changes while they wait, so
// two sequences cannot preempt each other in turns. `ageing` must be positive and finite.
std::unique_ptr<SchedulingPolicy> MakePriorityPolicy(absl::Duration ageing);

}  // namespace lockstep::router
