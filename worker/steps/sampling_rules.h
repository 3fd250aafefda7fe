#pragma once

#include <absl/status/status.h>

#include "lockstep/worker/v1/worker.pb.h"
#include "worker/steps/executor_limits.h"
#include "worker/steps/stamp_set.h"

namespace lockstep::worker {

// Checks a slot's sampling parameters: ranges, finite numbers, ids inside the vocabulary.
// INVALID_ARGUMENT names the field. `scratch` has room for the vocabulary.
absl::Status CheckSampling(const v1::SlotSampling& sampling, const StepBounds& bounds,
                           StampSet& scratch);

}  // namespace lockstep::worker
