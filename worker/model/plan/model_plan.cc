#include "worker/model/plan/model_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "common/status.h"

namespace lockstep::worker {
namespace {

constexpr int64_t kMaxHeadDim = 512;  // of the attention and rotary kernels

absl::Status CheckEven(const ModelConfig& config, const char* what, int64_t size) {
  if (size % 2 == 0) return absl::OkStatus();
  return Unimplemented("model '{}': {} is {}, but the kernels need an even number", config.name,
                       what, size);
}

Part Norm(const ModelConfig& config, std::string_view TensorNames::* name, int64_t size) {
  return {.kind = PartKind::kNorm,
          .num_outputs = size,
          .has_bias = config.norm == NormKind::kLayer,
          .pieces = {{.name = name, .num_outputs = size}}};
}

Part Embedding(std::string_view TensorNames::* name, int64_t num_rows, int64_t size) {
  return {.kind = PartKind::kEmbedding,
          .num_outputs = num_rows,
          .num_inputs = size,
          .pieces = {{.name = name, .num_outputs = num_rows}}};
}

Part Linear(std::vector<TensorPiece> pieces, int64_t num_inputs, bool has_bias) {
  Part part = {.num_inputs = num_inputs, .has_bias = has_bias, .pieces = std::move(pieces)};
  for (const TensorPiece& piece : part.pieces) part.num_outputs += piece.num_outputs;
  return part;
}

Part Qkv(const ModelConfig& config, const AttentionPlan& attention) {
  Part part = Linear({{&TensorNames::q, attention.q_size(), attention.head_dim},
                      {&TensorNames::k, attention.kv_size(), attention.head_dim},
                      {&TensorNames::v, attention.kv_size()}},
                     config.hidden_size, config.attention_qkv_bias);
  part.joined = &TensorNames::qkv;
  return part;
}

Part MlpInput(const ModelConfig& config, const MlpPlan& mlp) {
  std::vector<TensorPiece> pieces = {{&TensorNames::up, mlp.intermediate_size}};
  if (IsGated(mlp.kind)) {
    pieces.insert(pieces.begin(), {&TensorNames::gate, mlp.intermediate_size});
  }
  return Linear(std::move(pieces), config.hidden_size, config.mlp_bias);
}

EnumArray<LayerPart, Part> LayerParts(const ModelConfig& config, const AttentionPlan& attention,
                                      const MlpPlan& mlp) {
  const int64_t hidden = config.hidden_size;
  EnumArray<LayerPart, Part> parts;
  parts[LayerPart::kAttentionNorm] = Norm(config, &TensorNames::attention_norm, hidden);
  parts[LayerPart::kQkv] = Qkv(config, attention);
  if (config.qk_norm) {
    parts[LayerPart::kQNorm] = Norm(config, &TensorNames::q_norm, attention.head_dim);
    parts[LayerPart::kKNorm] = Norm(config, &TensorNames::k_norm, attention.head_dim);
  }
  parts[LayerPart::kAttentionOutput] = Linear({{&TensorNames::attention_output, hidden}},
                                              attention.q_size(), config.attention_output_bias);
  parts[LayerPart::kMlpNorm] = Norm(config, &TensorNames::mlp_norm, hidden);
  parts[LayerPart::kMlpInput] = MlpInput(config, mlp);
  parts[LayerPart::kMlpOutput] =
      Linear({{&TensorNames::down, hidden}}, mlp.intermediate_size, config.mlp_bias);
  return parts;
}

EnumArray<ModelPart, Part> ModelParts(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  EnumArray<ModelPart, Part> parts;
  parts[ModelPart::kTokenEmbedding] =
      Embedding(&TensorNames::token_embedding, config.vocab_size, hidden);
  if (config.positions == PositionKind::kLearned) {
    parts[ModelPart::kPositionEmbedding] =
        Embedding(&TensorNames::position_embedding, config.max_context_tokens, hidden);
  }
  parts[ModelPart::kFinalNorm] = Norm(config, &TensorNames::final_norm, hidden);
  parts[ModelPart::kLmHead] =
      Linear({{&TensorNames::lm_head, config.vocab_size}}, hidden, /*has_bias=*/false);
  return parts;
}

// The place of the first of `values` that is the same as `value`, which is added if there is none.
template <typename T, typename IsSame>
size_t FindOrAdd(std::vector<T>& values, T value, const IsSame& is_same) {
  const auto found = std::ranges::find_if(
      values, [&](const T& other) { return is_same(other, std::as_const(value)); });
  const auto place = static_cast<size_t>(found - values.begin());
  if (found == values.end()) values.push_back(std::move(value));
  return place;
}

// What the config says of a layer. A window that no context exceeds is none.
LayerKindConfig ConfigOfLayer(const ModelConfig& config, size_t layer) {
  if (config.layer_kinds.empty()) return {.window_tokens = 0, .rope = config.rope};
  LayerKindConfig kind =
      config.layer_kinds[config.kind_of_layer.empty() ? 0 : config.kind_of_layer[layer]];
  if (kind.window_tokens >= config.max_context_tokens) kind.window_tokens = 0;
  return kind;
}

// Adds the rotation of the kind to the plan.
LayerKind MakeKind(const ModelConfig& config, const LayerKindConfig& of_layer, ModelPlan& plan) {
  LayerKind kind = {
      .attention = {.num_heads = config.num_heads,
                    .num_kv_heads = config.num_kv_heads,
                    .head_dim = config.head_dim,
                    .scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim)),
                    .window_tokens = of_layer.window_tokens,
                    .rotation = FindOrAdd(plan.rotations,
                                          {.rope = of_layer.rope, .head_dim = config.head_dim},
                                          std::equal_to<>())},
      .mlp = {.kind = config.mlp, .intermediate_size = config.intermediate_size}};
  kind.parts = LayerParts(config, kind.attention, kind.mlp);
  return kind;
}

// Kinds come in the order of their first layers.
void AddLayers(const ModelConfig& config, ModelPlan& plan) {
  std::vector<LayerKindConfig> kinds;  // by kind of the plan
  for (size_t layer = 0; layer < config.num_layers; ++layer) {
    const size_t kind = FindOrAdd(kinds, ConfigOfLayer(config, layer), std::equal_to<>());
    if (kind == plan.kinds.size()) plan.kinds.push_back(MakeKind(config, kinds[kind], plan));
    plan.layers.push_back({.kind = kind});
  }
}

// The first group keeps all tokens. Layers with a window are in it only if all layers have windows.
void AddKvGroups(const ModelConfig& config, kernels::KvType type, ModelPlan& plan) {
  KvGroupPlan group = {
      .num_kv_heads = config.num_kv_heads, .head_dim = config.head_dim, .type = type};
  plan.kv_groups = {group};
  const bool any_reads_all = std::ranges::any_of(
      plan.kinds, [](const LayerKind& kind) { return kind.attention.window_tokens == 0; });
  for (LayerKind& kind : plan.kinds) {
    group.window_tokens = any_reads_all ? kind.attention.window_tokens : 0;
    kind.attention.kv_group =
        FindOrAdd(plan.kv_groups, group, [](const KvGroupPlan& a, const KvGroupPlan& b) {
          return a.window_tokens == b.window_tokens;
        });
  }
  for (size_t layer = 0; layer < plan.layers.size(); ++layer) {
    const size_t kv_group = plan.kinds[plan.layers[layer].kind].attention.kv_group;
    std::vector<int64_t>& layers = plan.kv_groups[kv_group].layers;
    plan.layers[layer].index_in_group = static_cast<int64_t>(layers.size());
    layers.push_back(static_cast<int64_t>(layer));
  }
}

}  // namespace

int64_t ModelPlan::ShortestWindow() const {
  int64_t shortest = 0;
  for (const LayerKind& kind : kinds) {
    const int64_t window = kind.attention.window_tokens;
    if (window > 0 && (shortest == 0 || window < shortest)) shortest = window;
  }
  return shortest;
}

absl::StatusOr<ModelPlan> MakeModelPlan(const ModelConfig& config, kernels::KvType kv_type) {
  LOCKSTEP_RETURN_IF_ERROR(config.Validate());
  LOCKSTEP_RETURN_IF_ERROR(CheckEven(config, "hidden size", config.hidden_size));
  LOCKSTEP_RETURN_IF_ERROR(CheckEven(config, "intermediate size", config.intermediate_size));
  LOCKSTEP_RETURN_IF_ERROR(CheckEven(config, "head size", config.head_dim));
  if (config.head_dim > kMaxHeadDim) {
    return Unimplemented("model '{}': head size is {}, the kernels take at most {}", config.name,
                         config.head_dim, kMaxHeadDim);
  }
  ModelPlan plan = {.hidden_size = config.hidden_size,
                    .vocab_size = config.vocab_size,
                    .max_context_tokens = config.max_context_tokens,
                    .norm = config.norm,
                    .norm_eps = static_cast<float>(config.norm_eps),
                    .positions = config.positions,
                    .tied_embeddings = config.tie_word_embeddings,
                    .parts = ModelParts(config)};
  AddLayers(config, plan);
  AddKvGroups(config, kv_type, plan);
  return plan;
}

}  // namespace lockstep::worker
