#include "worker/model/layers/attention.h"

#include "common/status.h"

namespace lockstep::worker {

absl::Status AppendKeysAndValues(Flow& flow, const Layer& layer) {
  const Workspace& workspace = flow.workspace();
  LOCKSTEP_RETURN_IF_ERROR(flow.ops().Gemm(
      flow.Product(workspace.normed, layer.weights[LayerPart::kQkv], workspace.qkv)));
  return flow.ops().RotaryAppend({.qkv = workspace.qkv,
                                  .q_norm_weight = layer.weights[LayerPart::kQNorm].vector,
                                  .k_norm_weight = layer.weights[LayerPart::kKNorm].vector,
                                  .norm_eps = flow.plan().norm_eps,
                                  .cos = layer.rotation.cos,
                                  .sin = layer.rotation.sin,
                                  .positions = workspace.positions,
                                  .kv_slots = layer.kv_inputs.kv_slots,
                                  .kv = layer.kv,
                                  .num_heads = layer.share.attention.num_heads,
                                  .num_tokens = flow.num_rows()});
}

absl::Status Attend(Flow& flow, const Layer& layer) {
  LOCKSTEP_RETURN_IF_ERROR(flow.ops().Attend({.query = flow.workspace().qkv,
                                              .query_stride = layer.share.attention.qkv_size(),
                                              .output = flow.Columns(flow.attention()),
                                              .kv = layer.kv,
                                              .attention = &layer.share.attention}));
  return flow.Gather(flow.attention(), layer.kind.attention.q_size());
}

absl::Status ProjectAttention(Flow& flow, const Layer& layer) {
  flow.SetPending(Flow::Delta::kColumns);
  return flow.ops().Gemm(flow.Product(flow.attention(), layer.weights[LayerPart::kAttentionOutput],
                                      flow.Columns(flow.workspace().delta)));
}

}  // namespace lockstep::worker
