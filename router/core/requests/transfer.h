#pragma once

#include <absl/time/time.h>

#include <vector>

#include "router/core/messages/suspended_request.h"
#include "router/core/requests/scheduler_state.h"

namespace lockstep::router {

// How requests move between schedulers. The methods of Scheduler state the contracts.
std::vector<StrandedRequest> FindStranded(const SchedulerState& state);
SuspendedRequest Release(SchedulerState& state, RequestKey key);
void Adopt(SchedulerState& state, SuspendedRequest suspended);

}  // namespace lockstep::router
