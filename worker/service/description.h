#pragma once

#include <cstdint>

#include "lockstep/worker/v1/worker.pb.h"
#include "worker/model/forward_model.h"
#include "worker/steps/executor_limits.h"

namespace lockstep::worker {

// Version of the step protocol. The worker also accepts the version before it.
inline constexpr uint32_t kProtocolVersion = 2;

// The answer to Describe, without last_epoch.
v1::DescribeResponse MakeDescription(const ForwardModelInfo& info, const StepBounds& bounds,
                                     uint32_t max_steps_in_flight, uint64_t incarnation);

}  // namespace lockstep::worker
