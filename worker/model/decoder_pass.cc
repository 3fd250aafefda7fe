#include "worker/model/decoder_pass.h"

#include "common/status.h"

namespace lockstep::worker {
namespace {

struct InputRows {
  const kernels::BFloat16* data;  // [count, weights.k]
  int64_t count;
};

// Rows of input and output lie one behind the other. output: [count, weights.n]
kernels::GemmParams Product(const InputRows& input, const kernels::PackedMatrix& weights,
                            const float* bias, kernels::BFloat16* output) {
  return {.input = input.data,
          .input_stride = weights.k,
          .weights = weights,
          .bias = bias,
          .output = output,
          .output_stride = weights.n,
          .num_rows = input.count};
}

}  // namespace

absl::Status DecoderPass::Run(const PassShape& shape, const TokenId* token_ids,
                              const uint32_t* logits_tokens, float* logits) {
  const ModelSpec& spec = *context_.spec;
  const Workspace& workspace = *context_.workspace;
  LOCKSTEP_RETURN_IF_ERROR(ops_.GatherRows({.table = context_.weights->token_embedding,
                                            .indices = token_ids,
                                            .output = workspace.residual,
                                            .num_table_rows = spec.vocab_size,
                                            .num_rows = shape.num_tokens,
                                            .size = spec.hidden_size}));
  if (logits_tokens == nullptr && shape.num_logits_rows == shape.num_tokens) {
    LOCKSTEP_ASSIGN_OR_RETURN(const bool done, ops_.RunLayers(shape.num_tokens));
    if (done) {
      return ComputeLogits({shape.num_tokens, workspace.last_residual, /*attention=*/nullptr},
                           logits);
    }
  }
  for (int64_t layer = 0; layer + 1 < spec.num_layers; ++layer) {
    LOCKSTEP_RETURN_IF_ERROR(ComputeAttention(layer, shape.num_tokens, /*attends=*/true));
    LOCKSTEP_RETURN_IF_ERROR(
        ComputeMlp(layer, {shape.num_tokens, workspace.residual, workspace.attention}));
  }
  // The rows whose logits are wanted are all that the last layer computes after attention.
  const int64_t last_layer = spec.num_layers - 1;
  const bool has_logits = shape.num_logits_rows > 0;
  LOCKSTEP_RETURN_IF_ERROR(ComputeAttention(last_layer, shape.num_tokens, has_logits));
  if (!has_logits) return absl::OkStatus();
  Rows rows = {shape.num_tokens, workspace.residual, workspace.attention};
  if (logits_tokens != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(SelectRows(shape, logits_tokens));
    rows = {shape.num_logits_rows, workspace.last_residual, workspace.last_attention};
  }
  LOCKSTEP_RETURN_IF_ERROR(ComputeMlp(last_layer, rows));
  return ComputeLogits(rows, logits);
}

absl::Status DecoderPass::ComputeAttention(int64_t layer, int64_t num_tokens, bool attends) {
  const ModelSpec& spec = *context_.spec;
  const Workspace& workspace = *context_.workspace;
  const LayerWeights& weights = context_.weights->layers[static_cast<size_t>(layer)];
  const kernels::PagedKv kv = ops_.KvLayer(layer);
  LOCKSTEP_RETURN_IF_ERROR(ops_.RmsNorm({.input = workspace.residual,
                                         .delta = layer == 0 ? nullptr : workspace.delta,
                                         .residual_out = workspace.residual,
                                         .weight = weights.attention_norm,
                                         .output = workspace.normed,
                                         .num_rows = num_tokens,
                                         .size = spec.hidden_size,
                                         .eps = spec.norm_eps}));
  LOCKSTEP_RETURN_IF_ERROR(ops_.Gemm(
      Product({workspace.normed, num_tokens}, weights.qkv, weights.qkv_bias, workspace.qkv)));
  LOCKSTEP_RETURN_IF_ERROR(ops_.RotaryAppend({.qkv = workspace.qkv,
                                              .q_norm_weight = weights.q_norm,
                                              .k_norm_weight = weights.k_norm,
                                              .norm_eps = spec.norm_eps,
                                              .cos = context_.rope_cos,
                                              .sin = context_.rope_sin,
                                              .positions = workspace.positions,
                                              .kv_slots = workspace.kv_slots,
                                              .kv = kv,
                                              .num_heads = spec.num_heads,
                                              .num_tokens = num_tokens}));
  if (!attends) return absl::OkStatus();
  return ops_.Attend({.query = workspace.qkv,
                      .query_stride = spec.qkv_size(),
                      .output = workspace.attention,
                      .kv = kv});
}

absl::Status DecoderPass::ComputeMlp(int64_t layer, const Rows& rows) {
  const ModelSpec& spec = *context_.spec;
  const Workspace& workspace = *context_.workspace;
  const LayerWeights& weights = context_.weights->layers[static_cast<size_t>(layer)];
  LOCKSTEP_RETURN_IF_ERROR(ops_.Gemm(Product({rows.attention, rows.count}, weights.attention_output,
                                             weights.attention_output_bias, workspace.delta)));
  LOCKSTEP_RETURN_IF_ERROR(ops_.RmsNorm({.input = rows.residual,
                                         .delta = workspace.delta,
                                         .residual_out = rows.residual,
                                         .weight = weights.mlp_norm,
                                         .output = workspace.normed,
                                         .num_rows = rows.count,
                                         .size = spec.hidden_size,
                                         .eps = spec.norm_eps}));
  LOCKSTEP_RETURN_IF_ERROR(ops_.GatedGemm(Product({workspace.normed, rows.count}, weights.gate_up,
                                                  weights.gate_up_bias, workspace.gate_up),
                                          {.gate_up = workspace.gate_up,
                                           .output = workspace.activated,
                                           .num_rows = rows.count,
                                           .size = spec.intermediate_size}));
  return ops_.Gemm(
      Product({workspace.activated, rows.count}, weights.down, weights.down_bias, workspace.delta));
}

absl::Status DecoderPass::SelectRows(const PassShape& shape, const uint32_t* logits_tokens) {
  const Workspace& workspace = *context_.workspace;
  LOCKSTEP_RETURN_IF_ERROR(ops_.GatherRows({.table = workspace.residual,
                                            .indices = logits_tokens,
                                            .output = workspace.last_residual,
                                            .num_table_rows = shape.num_tokens,
                                            .num_rows = shape.num_logits_rows,
                                            .size = context_.spec->hidden_size}));
  return ops_.GatherRows({.table = workspace.attention,
                          .indices = logits_tokens,
                          .output = workspace.last_attention,
                          .num_table_rows = shape.num_tokens,
                          .num_rows = shape.num_logits_rows,
                          .size = context_.spec->q_size()});
}

absl::Status DecoderPass::ComputeLogits(const Rows& rows, float* logits) {
  const ModelSpec& spec = *context_.spec;
  const Workspace& workspace = *context_.workspace;
  LOCKSTEP_RETURN_IF_ERROR(ops_.RmsNorm({.input = rows.residual,
                                         .delta = workspace.delta,
                                         .residual_out = rows.residual,
                                         .weight = context_.weights->final_norm,
                                         .output = workspace.normed,
                                         .num_rows = rows.count,
                                         .size = spec.hidden_size,
                                         .eps = spec.norm_eps}));
  return ops_.Gemm({.input = workspace.normed,
                    .input_stride = spec.hidden_size,
                    .weights = context_.weights->lm_head,
                    .output_f32 = logits,
                    .output_stride = spec.vocab_size,
                    .num_rows = rows.count});
}

}  // namespace lockstep::worker
