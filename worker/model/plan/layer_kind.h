#pragma once

#include <cstddef>
#include <cstdint>

#include "common/model_files/model_config.h"
#include "worker/model/plan/enum_array.h"
#include "worker/model/plan/part.h"

namespace lockstep::worker {

struct AttentionPlan {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  float scale = 0.0f;         // 1 / sqrt(head_dim)
  int64_t window_tokens = 0;  // a token reads itself and the window_tokens - 1 before it; 0: all
  size_t rotation = 0;        // of ModelPlan::rotations
  size_t kv_group = 0;        // of ModelPlan::kv_groups

  int64_t q_size() const { return num_heads * head_dim; }
  int64_t kv_size() const { return num_kv_heads * head_dim; }
  int64_t qkv_size() const { return q_size() + 2 * kv_size(); }
};

struct MlpPlan {
  MlpKind kind = MlpKind::kSwiGlu;
  int64_t intermediate_size = 0;

  int64_t input_size() const { return IsGated(kind) ? 2 * intermediate_size : intermediate_size; }
};

// What layers of one kind compute: a norm, QKV projection, optional RMSNorm over heads, rotary
// embedding, grouped causal attention, output projection, residual add, a norm, an MLP, and a
// residual add.
struct LayerKind {
  AttentionPlan attention;
  MlpPlan mlp;
  EnumArray<LayerPart, Part> parts = {};
};

}  // namespace lockstep::worker
