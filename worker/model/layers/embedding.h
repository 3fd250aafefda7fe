#pragma once

#include <absl/status/status.h>

#include "common/ids.h"
#include "worker/model/layers/flow.h"

namespace lockstep::worker {

// The residual becomes the embeddings of the tokens, [flow.num_rows()]. Learned positions
// are what the next norm adds: the residual's first addition, with its rounding.
absl::Status Embed(Flow& flow, const TokenId* token_ids);

}  // namespace lockstep::worker
