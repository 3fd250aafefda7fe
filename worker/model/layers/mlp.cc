#include "worker/model/layers/mlp.h"

#include "common/status.h"

namespace lockstep::worker {
namespace {

// This rank's columns of workspace.activated.
absl::Status Activate(Flow& flow, const PartWeights& weights) {
  const Workspace& workspace = flow.workspace();
  const ModelSpec& share = flow.share();
  const kernels::GemmParams product = flow.Product(workspace.normed, weights, workspace.gate_up);
  kernels::BFloat16* const output = flow.Columns(workspace.activated);
  if (share.mlp == MlpKind::kSwiGlu) {
    return flow.ops().GatedGemm(product, {.gate_up = workspace.gate_up,
                                          .output = output,
                                          .num_rows = flow.num_rows(),
                                          .size = share.intermediate_size});
  }
  return flow.ops().GeluGemm(product,
                             {.input = workspace.gate_up,
                              .output = output,
                              .num_rows = flow.num_rows(),
                              .size = share.intermediate_size,
                              .form = share.mlp == MlpKind::kGeluTanh ? kernels::GeluForm::kTanh
                                                                      : kernels::GeluForm::kErf});
}

}  // namespace

absl::Status RunMlp(Flow& flow, int64_t layer) {
  const LayerWeights& weights = flow.weights().layers[static_cast<size_t>(layer)];
  const Workspace& workspace = flow.workspace();
  LOCKSTEP_RETURN_IF_ERROR(Activate(flow, weights[LayerPart::kMlpInput]));
  LOCKSTEP_RETURN_IF_ERROR(flow.Gather(workspace.activated, flow.spec().intermediate_size));
  flow.SetPending(Flow::Delta::kColumns);
  return flow.ops().Gemm(flow.Product(workspace.activated, weights[LayerPart::kMlpOutput],
                                      flow.Columns(workspace.delta)));
}

}  // namespace lockstep::worker
