#include "worker/model/layers/embedding.h"

#include "common/status.h"

namespace lockstep::worker {

absl::Status Embed(Flow& flow, const TokenId* token_ids) {
  const ModelPlan& plan = flow.plan();
  const auto& weights = flow.weights().model;
  LOCKSTEP_RETURN_IF_ERROR(flow.ops().GatherRows({.table = weights[ModelPart::kTokenEmbedding].rows,
                                                  .indices = token_ids,
                                                  .output = flow.residual(),
                                                  .num_table_rows = plan.vocab_size,
                                                  .num_rows = flow.num_rows(),
                                                  .size = plan.hidden_size}));
  if (plan.positions != PositionKind::kLearned) return absl::OkStatus();
  flow.SetPending(Flow::Delta::kWhole);
  return flow.ops().GatherRows({.table = weights[ModelPart::kPositionEmbedding].rows,
                                .indices = flow.workspace().positions,
                                .output = flow.workspace().delta,
                                .num_table_rows = plan.max_context_tokens,
                                .num_rows = flow.num_rows(),
                                .size = plan.hidden_size});
}

}  // namespace lockstep::worker
