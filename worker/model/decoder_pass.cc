#include "worker/model/decoder_pass.h"

#include "common/status.h"

namespace lockstep::worker {
namespace {

struct InputRows {
  const kernels::BFloat16* data;  // [count, weights.k]
  int64_t count;
};

// Rows of input and output lie one behind the other. output: [count, weights.matrix.n], a rank's
// columns of the product
kernels::GemmParams Product(const InputRows& input, const PartWeights& weights,
                            kernels::BFloat16* output) {
  return {.input = input.data,
          .input_stride = weights.matrix.k,
          .weights = weights.matrix,
          .bias = weights.bias,
          .output = output,
          .output_stride = weights.matrix.n,
          .num_rows = input.count};
}

}  // namespace

absl::Status DecoderPass::Run(const PassShape& shape, const TokenId* token_ids,
                              const uint32_t* logits_tokens, const LogitsColumns& logits) {
  const ModelSpec& spec = *context_.spec;
  const Workspace& workspace = *context_.workspace;
  if (logits_tokens == nullptr && shape.num_logits_rows == shape.num_tokens) {
    LOCKSTEP_ASSIGN_OR_RETURN(const bool done, ops_.RunLayers(shape.num_tokens, token_ids));
    if (done) return MultiplyLogits(shape.num_tokens, logits);
  }
  LOCKSTEP_RETURN_IF_ERROR(Embed(shape.num_tokens, token_ids));
  for (int64_t layer = 0; layer + 1 < spec.num_layers; ++layer) {
    LOCKSTEP_RETURN_IF_ERROR(ComputeAttention(layer, shape.num_tokens, /*attends=*/true));
    LOCKSTEP_RETURN_IF_ERROR(
        ComputeMlp(layer, {shape.num_tokens, workspace.residual, workspace.attention}));
  }
  // After attention, the last layer computes only the rows whose logits are wanted.
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

absl::Status DecoderPass::Embed(int64_t num_tokens, const TokenId* token_ids) {
  const ModelSpec& spec = *context_.spec;
  const Workspace& workspace = *context_.workspace;
  const auto& weights = context_.weights->model;
  LOCKSTEP_RETURN_IF_ERROR(ops_.GatherRows({.table = weights[ModelPart::kTokenEmbedding].rows,
                                            .indices = token_ids,
                                            .output = workspace.residual,
                                            .num_table_rows = spec.vocab_size,
                                            .num_rows = num_tokens,
                                            .size = spec.hidden_size}));
  if (spec.positions != PositionKind::kLearned) return absl::OkStatus();
  return ops_.GatherRows({.table = weights[ModelPart::kPositionEmbedding].rows,
                          .indices = workspace.positions,
                          .output = workspace.delta,
                          .num_table_rows = spec.max_context_tokens,
                          .num_rows = num_tokens,
                          .size = spec.hidden_size});
}

absl::Status DecoderPass::Normalize(const PartWeights& norm, kernels::BFloat16* residual,
                                    Delta delta, int64_t num_rows) {
  const ModelSpec& spec = *context_.spec;
  const Workspace& workspace = *context_.workspace;
  const kernels::BFloat16* const added = delta == Delta::kNone ? nullptr : workspace.delta;
  const bool gathers = delta == Delta::kColumns && context_.rank.degree > 1;
  if (spec.norm == NormKind::kRms) {
    const kernels::RmsNormParams params = {.input = residual,
                                           .delta = added,
                                           .residual_out = residual,
                                           .weight = norm.vector,
                                           .output = workspace.normed,
                                           .num_rows = num_rows,
                                           .size = spec.hidden_size,
                                           .eps = spec.norm_eps};
    if (!gathers) return ops_.RmsNorm(params);
    return ops_.GatherRmsNorm(NextExchange(workspace.delta, num_rows, spec.hidden_size), params);
  }
  if (gathers) {
    LOCKSTEP_RETURN_IF_ERROR(Gather(workspace.delta, num_rows, spec.hidden_size));
  }
  return ops_.LayerNorm({.input = residual,
                         .delta = added,
                         .residual_out = residual,
                         .weight = norm.vector,
                         .bias = norm.bias,
                         .output = workspace.normed,
                         .num_rows = num_rows,
                         .size = spec.hidden_size,
                         .eps = spec.norm_eps});
}

absl::Status DecoderPass::ComputeAttention(int64_t layer, int64_t num_tokens, bool attends) {
  const ModelSpec& spec = *context_.spec;
  const Workspace& workspace = *context_.workspace;
  const LayerWeights& weights = context_.weights->layers[static_cast<size_t>(layer)];
  const kernels::PagedKv kv = ops_.KvLayer(layer);
  const Delta of_embedding =
      spec.positions == PositionKind::kLearned ? Delta::kWhole : Delta::kNone;
  LOCKSTEP_RETURN_IF_ERROR(Normalize(weights[LayerPart::kAttentionNorm], workspace.residual,
                                     layer == 0 ? of_embedding : Delta::kColumns, num_tokens));
  LOCKSTEP_RETURN_IF_ERROR(
      ops_.Gemm(Product({workspace.normed, num_tokens}, weights[LayerPart::kQkv], workspace.qkv)));
  LOCKSTEP_RETURN_IF_ERROR(ops_.RotaryAppend({.qkv = workspace.qkv,
                                              .q_norm_weight = weights[LayerPart::kQNorm].vector,
                                              .k_norm_weight = weights[LayerPart::kKNorm].vector,
                                              .norm_eps = spec.norm_eps,
                                              .cos = context_.rope_cos,
                                              .sin = context_.rope_sin,
                                              .positions = workspace.positions,
                                              .kv_slots = workspace.kv_slots,
                                              .kv = kv,
                                              .num_heads = context_.share->num_heads,
                                              .num_tokens = num_tokens}));
  if (!attends) return absl::OkStatus();
  LOCKSTEP_RETURN_IF_ERROR(ops_.Attend({.query = workspace.qkv,
                                        .query_stride = context_.share->qkv_size(),
                                        .output = Columns(workspace.attention),
                                        .kv = kv}));
  return Gather(workspace.attention, num_tokens, spec.q_size());
}

absl::Status DecoderPass::ComputeMlp(int64_t layer, const Rows& rows) {
  const Workspace& workspace = *context_.workspace;
  const LayerWeights& weights = context_.weights->layers[static_cast<size_t>(layer)];
  LOCKSTEP_RETURN_IF_ERROR(
      ops_.Gemm(Product({rows.attention, rows.count}, weights[LayerPart::kAttentionOutput],
                        Columns(workspace.delta))));
  LOCKSTEP_RETURN_IF_ERROR(
      Normalize(weights[LayerPart::kMlpNorm], rows.residual, Delta::kColumns, rows.count));
  LOCKSTEP_RETURN_IF_ERROR(ComputeMlpInput(weights[LayerPart::kMlpInput], rows.count));
  LOCKSTEP_RETURN_IF_ERROR(
      Gather(workspace.activated, rows.count, context_.spec->intermediate_size));
  return ops_.Gemm(Product({workspace.activated, rows.count}, weights[LayerPart::kMlpOutput],
                           Columns(workspace.delta)));
}

kernels::BFloat16* DecoderPass::Columns(kernels::BFloat16* whole) const {
  return context_.rank.degree == 1 ? whole : context_.workspace->exchanged[exchange_];
}

AllGatherParams DecoderPass::NextExchange(kernels::BFloat16* whole, int64_t num_rows,
                                          int64_t num_columns) {
  const kernels::BFloat16* const columns = Columns(whole);
  exchange_ ^= 1;
  return {.columns = columns, .output = whole, .num_rows = num_rows, .num_columns = num_columns};
}

absl::Status DecoderPass::Gather(kernels::BFloat16* whole, int64_t num_rows, int64_t num_columns) {
  if (context_.rank.degree == 1) return absl::OkStatus();
  return ops_.AllGather(NextExchange(whole, num_rows, num_columns));
}

absl::Status DecoderPass::ComputeMlpInput(const PartWeights& weights, int64_t num_rows) {
  const Workspace& workspace = *context_.workspace;
  const InputRows input = {workspace.normed, num_rows};
  const ModelSpec& share = *context_.share;
  if (share.mlp == MlpKind::kSwiGlu) {
    return ops_.GatedGemm(Product(input, weights, workspace.gate_up),
                          {.gate_up = workspace.gate_up,
                           .output = Columns(workspace.activated),
                           .num_rows = num_rows,
                           .size = share.intermediate_size});
  }
  return ops_.GeluGemm(Product(input, weights, workspace.gate_up),
                       {.input = workspace.gate_up,
                        .output = Columns(workspace.activated),
                        .num_rows = num_rows,
                        .size = share.intermediate_size,
                        .form = share.mlp == MlpKind::kGeluTanh ? kernels::GeluForm::kTanh
                                                                : kernels::GeluForm::kErf});
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

absl::Status DecoderPass::ComputeLogits(const Rows& rows, const LogitsColumns& logits) {
  LOCKSTEP_RETURN_IF_ERROR(Normalize(context_.weights->model[ModelPart::kFinalNorm], rows.residual,
                                     Delta::kColumns, rows.count));
  return MultiplyLogits(rows.count, logits);
}

absl::Status DecoderPass::MultiplyLogits(int64_t num_rows, const LogitsColumns& logits) {
  return ops_.Gemm({.input = context_.workspace->normed,
                    .input_stride = context_.spec->hidden_size,
                    .weights = context_.weights->model[ModelPart::kLmHead].matrix,
                    .output_f32 = logits.data,
                    .output_stride = logits.stride,
                    .num_rows = num_rows});
}

}  // namespace lockstep::worker
