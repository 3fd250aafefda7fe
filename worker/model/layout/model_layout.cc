#include "worker/model/layout/model_layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::worker {
namespace {

Part Norm(const ModelSpec& spec, std::string_view TensorNames::*name, int64_t size) {
  return {.kind = PartKind::kNorm,
          .num_outputs = size,
          .has_bias = spec.norm == NormKind::kLayer,
          .pieces = {{.name = name, .num_outputs = size}}};
}

Part Embedding(std::string_view TensorNames::*name, int64_t num_rows, int64_t size) {
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

std::vector<TensorPiece> QkvPieces(const ModelSpec& spec, const TensorNames& names) {
  if (!names.qkv.empty()) {
    return {{.name = &TensorNames::qkv,
             .num_outputs = spec.qkv_size(),
             .matrix_outputs = {spec.q_size(), spec.kv_size(), spec.kv_size()}}};
  }
  return {{&TensorNames::q, spec.q_size(), /*rotary=*/true},
          {&TensorNames::k, spec.kv_size(), /*rotary=*/true},
          {&TensorNames::v, spec.kv_size()}};
}

std::vector<TensorPiece> MlpInputPieces(const ModelSpec& spec) {
  if (spec.mlp != MlpKind::kSwiGlu) return {{&TensorNames::up, spec.intermediate_size}};
  return {{&TensorNames::gate, spec.intermediate_size}, {&TensorNames::up, spec.intermediate_size}};
}

}  // namespace

ModelLayout MakeModelLayout(const ModelSpec& spec, const TensorNames& names) {
  const int64_t hidden = spec.hidden_size;
  ModelLayout layout = {.num_layers = spec.num_layers, .names = names};
  layout.model[ModelPart::kTokenEmbedding] =
      Embedding(&TensorNames::token_embedding, spec.vocab_size, hidden);
  if (spec.positions == PositionKind::kLearned) {
    layout.model[ModelPart::kPositionEmbedding] =
        Embedding(&TensorNames::position_embedding, spec.max_context_tokens, hidden);
  }
  layout.model[ModelPart::kFinalNorm] = Norm(spec, &TensorNames::final_norm, hidden);
  layout.model[ModelPart::kLmHead] =
      Linear({{&TensorNames::lm_head, spec.vocab_size}}, hidden, /*has_bias=*/false);

  layout.layer[LayerPart::kAttentionNorm] = Norm(spec, &TensorNames::attention_norm, hidden);
  layout.layer[LayerPart::kQkv] = Linear(QkvPieces(spec, names), hidden, spec.qkv_bias);
  if (spec.qk_norm) {
    layout.layer[LayerPart::kQNorm] = Norm(spec, &TensorNames::q_norm, spec.head_dim);
    layout.layer[LayerPart::kKNorm] = Norm(spec, &TensorNames::k_norm, spec.head_dim);
  }
  layout.layer[LayerPart::kAttentionOutput] =
      Linear({{&TensorNames::attention_output, hidden}}, spec.q_size(), spec.attention_output_bias);
  layout.layer[LayerPart::kMlpNorm] = Norm(spec, &TensorNames::mlp_norm, hidden);
  layout.layer[LayerPart::kMlpInput] = Linear(MlpInputPieces(spec), hidden, spec.mlp_bias);
  layout.layer[LayerPart::kMlpOutput] =
      Linear({{&TensorNames::down, hidden}}, spec.intermediate_size, spec.mlp_bias);
  for (const LayerPart part : EnumValues<LayerPart>()) {
    layout.layer[part].transposed =
        names.transposed_matrices && layout.layer[part].kind == PartKind::kLinear;
  }
  return layout;
}

std::string ModelTensorName(std::string_view stem, std::string_view ending) {
  return fmt::format("{}.{}", stem, ending);
}

std::string LayerTensorName(const TensorNames& names, int64_t layer, std::string_view stem,
                            std::string_view ending) {
  return fmt::format("{}{}.{}.{}", names.layer_prefix, layer, stem, ending);
}

bool IsIgnorableTensor(const TensorNames& names, std::string_view name) {
  // Saved rotary buffers, and GGUF's divisors of rotary frequencies, which are read with the
  // config.
  if (name.ends_with(".rotary_emb.inv_freq") || name == "rope_freqs.weight") return true;
  return std::any_of(names.ignored_endings.begin(), names.ignored_endings.end(),
                     [name](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace lockstep::worker
