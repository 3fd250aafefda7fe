#pragma once

#include <absl/status/status.h>

#include "router/core/requests/scheduler_state.h"

namespace lockstep::router {

// Implements Scheduler::CheckIntegrity.
absl::Status CheckSchedulerIntegrity(const SchedulerState& state);

}  // namespace lockstep::router
