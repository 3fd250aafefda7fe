#pragma once

#include <cstdint>

#include "lockstep/worker/v1/worker.pb.h"
#include "worker/model/forward_model.h"
#include "worker/steps/executor_limits.h"

namespace lockstep::worker {

// Of the step protocol; the version before it is understood as well.
inline constexpr uint32_t kProtocolVersion = 1;

// The answer to Describe, but for last_epoch.
v1::DescribeResponse MakeDescription(const ForwardModelInfo& info, const StepBounds& bounds,
                                     uint32_t max_steps_in_flight, uint64_t incarnation);

}  // namespace lockstep::worker
