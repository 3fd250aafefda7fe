#include "worker/model/decoder_model.h"

#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "kernels/activation/swiglu.h"
#include "kernels/embedding/gather_rows.h"
#include "kernels/gemm/gemm.h"
#include "kernels/norm/rms_norm.h"
#include "kernels/rope/rotary_append.h"

namespace lockstep::worker {
namespace {

using kernels::BFloat16;
using kernels::kKvBlockTokens;

// Shapes were checked when the model was loaded.
void Expect(const absl::Status& status) { LOCKSTEP_CHECK(status.ok(), "{}", Message(status)); }

}  // namespace

DecoderModel::DecoderModel(DecoderParts parts)
    : parts_(std::move(parts)),
      stream_{.threads = parts_.threads.get(), .instruction_set = parts_.instruction_set} {}

void DecoderModel::Forward(const ForwardBatch& batch, std::span<float> logits) {
  const ModelSpec& spec = parts_.spec;
  const int64_t num_tokens = static_cast<int64_t>(batch.token_ids.size());
  const size_t num_logits_rows = batch.logits_tokens.size();
  LOCKSTEP_CHECK(num_tokens <= parts_.info.max_step_tokens, "a step of {} tokens", num_tokens);
  LOCKSTEP_CHECK(num_logits_rows <= parts_.info.max_logits_rows, "{} rows of logits",
                 num_logits_rows);
  LOCKSTEP_CHECK(logits.size() == num_logits_rows * parts_.info.vocab_size,
                 "room for {} logits, expected {} rows", logits.size(), num_logits_rows);
  if (num_tokens == 0) return;

  StageInputs(batch);
  Rows rows = {num_tokens, parts_.workspace.residual, parts_.workspace.attention};
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    ComputeQkv(layer, num_tokens);
    if (layer + 1 == spec.num_layers) {
      if (num_logits_rows == 0) return;
      Attend(layer, batch);
      rows = SelectLogitsRows(batch);
    } else {
      Attend(layer, batch);
    }
    ComputeMlp(layer, rows);
  }
  ComputeLogits(rows, logits);
}

void DecoderModel::StageInputs(const ForwardBatch& batch) {
  Workspace& workspace = parts_.workspace;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const ForwardRow& row = batch.rows[i];
    workspace.sequences[i] = {.first_token = row.first_token,
                              .num_tokens = row.num_tokens,
                              .first_position = row.first_position,
                              .block_table = row.block_table.data()};
    for (uint32_t j = 0; j < row.num_tokens; ++j) {
      const uint32_t position = row.first_position + j;
      const uint64_t block = row.block_table[position / kKvBlockTokens];
      workspace.positions[row.first_token + j] = position;
      workspace.kv_slots[row.first_token + j] = block * kKvBlockTokens + position % kKvBlockTokens;
    }
  }
  Expect(GatherRows(stream_, {.table = parts_.weights.token_embedding,
                              .indices = batch.token_ids.data(),
                              .output = workspace.residual,
                              .num_table_rows = parts_.spec.vocab_size,
                              .num_rows = static_cast<int64_t>(batch.token_ids.size()),
                              .size = parts_.spec.hidden_size}));
}

void DecoderModel::ComputeQkv(int64_t layer, int64_t num_tokens) {
  const ModelSpec& spec = parts_.spec;
  const Workspace& workspace = parts_.workspace;
  const LayerWeights& weights = parts_.weights.layers[static_cast<size_t>(layer)];
  Expect(RmsNorm(stream_, {.input = workspace.residual,
                           .delta = layer == 0 ? nullptr : workspace.delta,
                           .residual_out = workspace.residual,
                           .weight = weights.attention_norm,
                           .output = workspace.normed,
                           .num_rows = num_tokens,
                           .size = spec.hidden_size,
                           .eps = spec.norm_eps}));
  Expect(Gemm(stream_, {.input = workspace.normed,
                        .input_stride = spec.hidden_size,
                        .weights = weights.qkv,
                        .bias = weights.qkv_bias,
                        .output = workspace.qkv,
                        .output_stride = spec.qkv_size(),
                        .num_rows = num_tokens}));
  Expect(RotaryAppend(stream_, {.qkv = workspace.qkv,
                                .q_norm_weight = weights.q_norm,
                                .k_norm_weight = weights.k_norm,
                                .norm_eps = spec.norm_eps,
                                .cos = parts_.rope.cos.data(),
                                .sin = parts_.rope.sin.data(),
                                .positions = workspace.positions,
                                .kv_slots = workspace.kv_slots,
                                .kv = parts_.kv_pool.Layer(layer),
                                .num_heads = spec.num_heads,
                                .num_tokens = num_tokens}));
}

void DecoderModel::Attend(int64_t layer, const ForwardBatch& batch) {
  const ModelSpec& spec = parts_.spec;
  Expect(PagedAttention(stream_, {.query = parts_.workspace.qkv,
                                  .query_stride = spec.qkv_size(),
                                  .output = parts_.workspace.attention,
                                  .output_stride = spec.q_size(),
                                  .kv = parts_.kv_pool.Layer(layer),
                                  .sequences = {parts_.workspace.sequences, batch.rows.size()},
                                  .num_heads = spec.num_heads,
                                  .scale = spec.attention_scale}));
}

void DecoderModel::ComputeMlp(int64_t layer, const Rows& rows) {
  const ModelSpec& spec = parts_.spec;
  const Workspace& workspace = parts_.workspace;
  const LayerWeights& weights = parts_.weights.layers[static_cast<size_t>(layer)];
  Expect(Gemm(stream_, {.input = rows.attention,
                        .input_stride = spec.q_size(),
                        .weights = weights.attention_output,
                        .bias = weights.attention_output_bias,
                        .output = workspace.delta,
                        .output_stride = spec.hidden_size,
                        .num_rows = rows.count}));
  Expect(RmsNorm(stream_, {.input = rows.residual,
                           .delta = workspace.delta,
                           .residual_out = rows.residual,
                           .weight = weights.mlp_norm,
                           .output = workspace.normed,
                           .num_rows = rows.count,
                           .size = spec.hidden_size,
                           .eps = spec.norm_eps}));
  Expect(Gemm(stream_, {.input = workspace.normed,
                        .input_stride = spec.hidden_size,
                        .weights = weights.gate_up,
                        .bias = weights.gate_up_bias,
                        .output = workspace.gate_up,
                        .output_stride = 2 * spec.intermediate_size,
                        .num_rows = rows.count}));
  Expect(SwiGlu(stream_, {.gate_up = workspace.gate_up,
                          .output = workspace.activated,
                          .num_rows = rows.count,
                          .size = spec.intermediate_size}));
  Expect(Gemm(stream_, {.input = workspace.activated,
                        .input_stride = spec.intermediate_size,
                        .weights = weights.down,
                        .bias = weights.down_bias,
                        .output = workspace.delta,
                        .output_stride = spec.hidden_size,
                        .num_rows = rows.count}));
}

DecoderModel::Rows DecoderModel::SelectLogitsRows(const ForwardBatch& batch) {
  const Workspace& workspace = parts_.workspace;
  const int64_t num_tokens = static_cast<int64_t>(batch.token_ids.size());
  const int64_t num_rows = static_cast<int64_t>(batch.logits_tokens.size());
  Expect(GatherRows(stream_, {.table = workspace.residual,
                              .indices = batch.logits_tokens.data(),
                              .output = workspace.last_residual,
                              .num_table_rows = num_tokens,
                              .num_rows = num_rows,
                              .size = parts_.spec.hidden_size}));
  Expect(GatherRows(stream_, {.table = workspace.attention,
                              .indices = batch.logits_tokens.data(),
                              .output = workspace.last_attention,
                              .num_table_rows = num_tokens,
                              .num_rows = num_rows,
                              .size = parts_.spec.q_size()}));
  return {num_rows, workspace.last_residual, workspace.last_attention};
}

void DecoderModel::ComputeLogits(const Rows& rows, std::span<float> logits) {
  const ModelSpec& spec = parts_.spec;
  const Workspace& workspace = parts_.workspace;
  Expect(RmsNorm(stream_, {.input = rows.residual,
                           .delta = workspace.delta,
                           .residual_out = rows.residual,
                           .weight = parts_.weights.final_norm,
                           .output = workspace.normed,
                           .num_rows = rows.count,
                           .size = spec.hidden_size,
                           .eps = spec.norm_eps}));
  Expect(Gemm(stream_, {.input = workspace.normed,
                        .input_stride = spec.hidden_size,
                        .weights = parts_.weights.lm_head,
                        .output_f32 = logits.data(),
                        .output_stride = spec.vocab_size,
                        .num_rows = rows.count}));
}

}  // namespace lockstep::worker
