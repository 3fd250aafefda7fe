#pragma once

#include <absl/status/status.h>

#include "worker/model/layers/flow.h"

namespace lockstep::worker {

// Adds what the part before it left (Flow::SetPending) to the residual, once the ranks have
// exchanged its columns, and rounds the sum to bf16. Writes the norm of the result, rounded to
// bf16, to workspace.normed.
absl::Status Normalize(Flow& flow, const PartWeights& norm);

}  // namespace lockstep::worker
