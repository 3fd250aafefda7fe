#pragma once

#include <absl/status/statusor.h>

#include <cstdint>

#include "common/model_files/model_config.h"

namespace lockstep::worker {

// What a model computes, as data. A decoder starts with the token's embedding, and adds the
// position's embedding if positions are learned. Each layer computes a norm, QKV projection,
// optional RMSNorm over heads, rotary embedding, grouped causal attention, output projection,
// residual add, a norm, an MLP, and a residual add. A final norm and the logits follow. A new kind
// of part becomes a value here, a part of the layout (model_layout.h) and a file of
// worker/model/layers/.
struct ModelSpec {
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t vocab_size = 0;
  int64_t max_context_tokens = 0;
  NormKind norm = NormKind::kRms;
  float norm_eps = 0.0f;
  float attention_scale = 0.0f;  // 1 / sqrt(head_dim)
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;
  bool tied_embeddings = false;
  MlpKind mlp = MlpKind::kSwiGlu;
  PositionKind positions = PositionKind::kRotary;
  RopeConfig rope;  // of rotary positions

  int64_t q_size() const { return num_heads * head_dim; }
  int64_t kv_size() const { return num_kv_heads * head_dim; }
  int64_t qkv_size() const { return q_size() + 2 * kv_size(); }
  int64_t mlp_input_size() const {
    return mlp == MlpKind::kSwiGlu ? 2 * intermediate_size : intermediate_size;
  }
};

// UNIMPLEMENTED naming the value for sizes that the kernels do not take.
absl::StatusOr<ModelSpec> MakeModelSpec(const ModelConfig& config);

}  // namespace lockstep::worker
