#include "worker/model/layers/attention.h"

#include "common/status.h"

namespace lockstep::worker {
namespace {

const LayerWeights& WeightsOf(const Flow& flow, int64_t layer) {
  return flow.weights().layers[static_cast<size_t>(layer)];
}

}  // namespace

absl::Status AppendKeysAndValues(Flow& flow, int64_t layer) {
  const LayerWeights& weights = WeightsOf(flow, layer);
  const Workspace& workspace = flow.workspace();
  LOCKSTEP_RETURN_IF_ERROR(
      flow.ops().Gemm(flow.Product(workspace.normed, weights[LayerPart::kQkv], workspace.qkv)));
  return flow.ops().RotaryAppend({.qkv = workspace.qkv,
                                  .q_norm_weight = weights[LayerPart::kQNorm].vector,
                                  .k_norm_weight = weights[LayerPart::kKNorm].vector,
                                  .norm_eps = flow.spec().norm_eps,
                                  .cos = flow.context().rope_cos,
                                  .sin = flow.context().rope_sin,
                                  .positions = workspace.positions,
                                  .kv_slots = workspace.kv_slots,
                                  .kv = flow.ops().KvLayer(layer),
                                  .num_heads = flow.share().num_heads,
                                  .num_tokens = flow.num_rows()});
}

absl::Status Attend(Flow& flow, int64_t layer) {
  LOCKSTEP_RETURN_IF_ERROR(flow.ops().Attend({.query = flow.workspace().qkv,
                                              .query_stride = flow.share().qkv_size(),
                                              .output = flow.Columns(flow.attention()),
                                              .kv = flow.ops().KvLayer(layer)}));
  return flow.Gather(flow.attention(), flow.spec().q_size());
}

absl::Status ProjectAttention(Flow& flow, int64_t layer) {
  flow.SetPending(Flow::Delta::kColumns);
  return flow.ops().Gemm(flow.Product(flow.attention(),
                                      WeightsOf(flow, layer)[LayerPart::kAttentionOutput],
                                      flow.Columns(flow.workspace().delta)));
}

}  // namespace lockstep::worker
