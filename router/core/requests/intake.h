#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <memory>

#include "common/instant.h"
#include "router/core/messages/request.h"
#include "router/core/requests/scheduler_state.h"

namespace lockstep::router {

// INVALID_ARGUMENT when this worker could never run the request, even alone. UNIMPLEMENTED or
// UNAVAILABLE when it does not enforce the constraint.
absl::Status CheckFits(const Request& request, const WorkerLimits& limits);

// Implements Scheduler::Submit.
absl::Status TakeIn(SchedulerState& state, std::shared_ptr<const Request> request, Instant now);

// Call when a request meets a worker for the first time. Sets what its samples wait for, so that
// they can share computed tokens. Ends the request if the worker could never run it.
void FitToWorker(SchedulerState& state, LiveRequest& live);

}  // namespace lockstep::router
