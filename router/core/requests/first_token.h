#pragma once

#include <absl/status/status.h>

#include "common/instant.h"
#include "router/core/messages/request.h"
#include "router/core/policy/policy.h"
#include "router/core/requests/scheduler_state.h"

namespace lockstep::router {

// What the policy sees of a request that comes now, behind all others.
PolicyView ViewOf(const Request& request);

// How many tokens of a waiting sequence are probably not cached, so that a worker computes them.
double NumUncached(const StepBudget& budget, const Sequence& waiting);

// RESOURCE_EXHAUSTED if the first token would probably come later than max_time_to_first_token
// allows, because of requests that wait or run. Assumes that no later request goes first. OK while
// no prompt was measured on this lease.
absl::Status CheckFirstToken(const SchedulerState& state, const Request& request, Instant now);

}  // namespace lockstep::router
