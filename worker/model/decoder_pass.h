#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "common/ids.h"
#include "worker/model/layers/flow.h"
#include "worker/model/layers/logits.h"
#include "worker/model/layers/ops.h"

namespace lockstep::worker {

// One batch. The positions and KV slots of its tokens are in the workspace. All pointers are to the
// backend's memory.
struct PassBatch {
  int64_t num_tokens = 0;
  const TokenId* token_ids = nullptr;       // [num_tokens]
  const uint32_t* logits_tokens = nullptr;  // [num_logits_rows], of tokens; null: every token
  int64_t num_logits_rows = 0;
};

// The one decoder forward pass, for every ModelPlan and every backend. The parts of a
// layer say where they round (worker/model/layers/).
//
// In a tensor-parallel group each rank runs the pass on the whole batch. It computes its heads, and
// its columns of every product. After attention, and after the three products that follow, the
// ranks exchange their columns, so each has the whole rows that the next product and norm need.
absl::Status RunDecoderPass(const PassContext& context, DecoderOps& ops, const PassBatch& batch,
                            const LogitsColumns& logits);

}  // namespace lockstep::worker
