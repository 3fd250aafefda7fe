#include "worker/model/layout/model_spec.h"

#include <cmath>

#include "common/status.h"

namespace lockstep::worker {
namespace {

constexpr int64_t kMaxHeadDim = 512;  // of the attention and rotary kernels

absl::Status CheckEven(const ModelConfig& config, const char* what, int64_t size) {
  if (size % 2 == 0) return absl::OkStatus();
  return Unimplemented("model '{}': {} is {}, but the kernels need an even number", config.name,
                       what, size);
}

}  // namespace

absl::StatusOr<ModelSpec> MakeModelSpec(const ModelConfig& config) {
  LOCKSTEP_RETURN_IF_ERROR(config.Validate());
  if (!config.layer_kinds.empty()) {
    return Unimplemented(
        "model '{}': layers with windows or rotations of their own are not supported", config.name);
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckEven(config, "hidden size", config.hidden_size));
  LOCKSTEP_RETURN_IF_ERROR(CheckEven(config, "intermediate size", config.intermediate_size));
  LOCKSTEP_RETURN_IF_ERROR(CheckEven(config, "head size", config.head_dim));
  if (config.head_dim > kMaxHeadDim) {
    return Unimplemented("model '{}': head size is {}, the kernels take at most {}", config.name,
                         config.head_dim, kMaxHeadDim);
  }
  ModelSpec spec;
  spec.hidden_size = config.hidden_size;
  spec.intermediate_size = config.intermediate_size;
  spec.num_layers = config.num_layers;
  spec.num_heads = config.num_heads;
  spec.num_kv_heads = config.num_kv_heads;
  spec.head_dim = config.head_dim;
  spec.vocab_size = config.vocab_size;
  spec.max_context_tokens = config.max_context_tokens;
  spec.norm = config.norm;
  spec.norm_eps = static_cast<float>(config.norm_eps);
  spec.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  spec.qkv_bias = config.attention_qkv_bias;
  spec.attention_output_bias = config.attention_output_bias;
  spec.mlp_bias = config.mlp_bias;
  spec.qk_norm = config.qk_norm;
  spec.tied_embeddings = config.tie_word_embeddings;
  spec.mlp = config.mlp;
  spec.positions = config.positions;
  spec.rope = config.rope;
  return spec;
}

}  // namespace lockstep::worker
