#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "worker/model/forward_model.h"

namespace lockstep::worker {

// Runs a fixed prompt through the model and returns a hash of the logits after its last token.
// Overwrites the first KV blocks.
uint64_t ProbeHash(ForwardModel& model);

// The same prompt in one step, in two, and with its last tokens one by one must end in the same
// bits, else INTERNAL.
absl::Status CheckProbeSchedules(ForwardModel& model);

}  // namespace lockstep::worker
