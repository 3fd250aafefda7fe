#include "worker/model/layers/norm.h"

#include "common/status.h"

namespace lockstep::worker {

absl::Status Normalize(Flow& flow, const PartWeights& norm) {
  const ModelPlan& plan = flow.plan();
  const Workspace& workspace = flow.workspace();
  const Flow::Delta delta = flow.TakePending();
  const kernels::BFloat16* const added = delta == Flow::Delta::kNone ? nullptr : workspace.delta;
  const bool gathers = delta == Flow::Delta::kColumns && flow.context().rank.degree > 1;
  if (plan.norm == NormKind::kRms) {
    const kernels::RmsNormParams params = {.input = flow.residual(),
                                           .delta = added,
                                           .residual_out = flow.residual(),
                                           .weight = norm.vector,
                                           .output = workspace.normed,
                                           .num_rows = flow.num_rows(),
                                           .size = plan.hidden_size,
                                           .eps = plan.norm_eps};
    if (!gathers) return flow.ops().RmsNorm(params);
    return flow.ops().GatherRmsNorm(flow.NextExchange(workspace.delta, plan.hidden_size), params);
  }
  if (gathers) LOCKSTEP_RETURN_IF_ERROR(flow.Gather(workspace.delta, plan.hidden_size));
  return flow.ops().LayerNorm({.input = flow.residual(),
                               .delta = added,
                               .residual_out = flow.residual(),
                               .weight = norm.vector,
                               .bias = norm.bias,
                               .output = workspace.normed,
                               .num_rows = flow.num_rows(),
                               .size = plan.hidden_size,
                               .eps = plan.norm_eps});
}

}  // namespace lockstep::worker
