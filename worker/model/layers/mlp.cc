#include "worker/model/layers/mlp.h"

#include "common/status.h"

namespace lockstep::worker {
namespace {

// This rank's columns of workspace.activated.
absl::Status Activate(Flow& flow, const Layer& layer) {
  const Workspace& workspace = flow.workspace();
  const MlpPlan& mlp = layer.share.mlp;
  const kernels::GemmParams product =
      flow.Product(workspace.normed, layer.weights[LayerPart::kMlpInput], workspace.gate_up);
  kernels::BFloat16* const output = flow.Columns(workspace.activated);
  if (mlp.kind == MlpKind::kSwiGlu) {
    return flow.ops().GatedGemm(product, {.gate_up = workspace.gate_up,
                                          .output = output,
                                          .num_rows = flow.num_rows(),
                                          .size = mlp.intermediate_size});
  }
  return flow.ops().GeluGemm(product,
                             {.input = workspace.gate_up,
                              .output = output,
                              .num_rows = flow.num_rows(),
                              .size = mlp.intermediate_size,
                              .form = mlp.kind == MlpKind::kGeluTanh ? kernels::GeluForm::kTanh
                                                                     : kernels::GeluForm::kErf});
}

}  // namespace

absl::Status RunMlp(Flow& flow, const Layer& layer) {
  const Workspace& workspace = flow.workspace();
  LOCKSTEP_RETURN_IF_ERROR(Activate(flow, layer));
  LOCKSTEP_RETURN_IF_ERROR(flow.Gather(workspace.activated, layer.kind.mlp.intermediate_size));
  flow.SetPending(Flow::Delta::kColumns);
  return flow.ops().Gemm(flow.Product(workspace.activated, layer.weights[LayerPart::kMlpOutput],
                                      flow.Columns(workspace.delta)));
}

}  // namespace lockstep::worker
