#pragma once

#include <absl/status/status.h>

#include "worker/model/layers/flow.h"

namespace lockstep::worker {

// From workspace.normed: the first product, its activation, and the second product, which the
// next norm adds to the residual. Each is rounded to bf16, the products with their bias.
absl::Status RunMlp(Flow& flow, const Layer& layer);

}  // namespace lockstep::worker
