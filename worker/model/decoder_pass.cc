#include "worker/model/decoder_pass.h"

#include "common/status.h"
#include "worker/model/layers/attention.h"
#include "worker/model/layers/embedding.h"
#include "worker/model/layers/mlp.h"
#include "worker/model/layers/norm.h"

namespace lockstep::worker {

absl::Status RunDecoderPass(const PassContext& context, DecoderOps& ops, const PassBatch& batch,
                            const LogitsColumns& logits) {
  Flow flow(context, ops, batch.num_tokens);
  const int64_t num_layers = flow.plan().num_layers();
  LOCKSTEP_RETURN_IF_ERROR(Embed(flow, batch.token_ids));
  for (int64_t i = 0; i < num_layers; ++i) {
    const Layer layer = flow.LayerAt(i);
    LOCKSTEP_RETURN_IF_ERROR(Normalize(flow, layer.weights[LayerPart::kAttentionNorm]));
    LOCKSTEP_RETURN_IF_ERROR(AppendKeysAndValues(flow, layer));
    // After the last keys and values, only rows with wanted logits are computed.
    const bool is_last = i + 1 == num_layers;
    if (is_last && batch.num_logits_rows == 0) return absl::OkStatus();
    LOCKSTEP_RETURN_IF_ERROR(Attend(flow, layer));
    if (is_last && batch.logits_tokens != nullptr) {
      LOCKSTEP_RETURN_IF_ERROR(flow.Select(layer, batch.logits_tokens, batch.num_logits_rows));
    }
    LOCKSTEP_RETURN_IF_ERROR(ProjectAttention(flow, layer));
    LOCKSTEP_RETURN_IF_ERROR(Normalize(flow, layer.weights[LayerPart::kMlpNorm]));
    LOCKSTEP_RETURN_IF_ERROR(RunMlp(flow, layer));
  }
  LOCKSTEP_RETURN_IF_ERROR(Normalize(flow, flow.weights().model[ModelPart::kFinalNorm]));
  return MultiplyLogits(context, ops, flow.num_rows(), logits);
}

}  // namespace lockstep::worker
