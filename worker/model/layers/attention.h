#pragma once

#include <absl/status/status.h>

#include "worker/model/layers/flow.h"

namespace lockstep::worker {

// From workspace.normed: the projection to queries, keys and values, a norm of each head if the
// model has one, and the rotation. Appends keys and values to the layer's KV cache. Each result is
// rounded to bf16: the projection with its bias, then q and k after norm and rotation.
absl::Status AppendKeysAndValues(Flow& flow, const Layer& layer);

// Attention of the queries that AppendKeysAndValues made, to flow.attention(), rounded to bf16. All
// ranks then have all heads.
absl::Status Attend(Flow& flow, const Layer& layer);

// The output projection of flow.attention(), with its bias rounded to bf16, becomes what the next
// norm adds to the residual.
absl::Status ProjectAttention(Flow& flow, const Layer& layer);

}  // namespace lockstep::worker
