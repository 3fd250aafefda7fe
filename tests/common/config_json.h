#pragma once

#include <absl/status/statusor.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "common/model_files/model_config.h"

// Small config.json files that tests change, one per family.
namespace lockstep {

inline nlohmann::json BaseJson(std::string_view architecture, std::string_view type) {
  return {{"architectures", nlohmann::json::array({architecture})},
          {"model_type", type},
          {"hidden_size", 64},
          {"intermediate_size", 172},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"vocab_size", 1000},
          {"max_position_embeddings", 2048},
          {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", true},
          {"hidden_act", "silu"}};
}
inline nlohmann::json LlamaJson() { return BaseJson("LlamaForCausalLM", "llama"); }
inline nlohmann::json Qwen2Json() { return BaseJson("Qwen2ForCausalLM", "qwen2"); }
inline nlohmann::json Qwen3Json() { return BaseJson("Qwen3ForCausalLM", "qwen3"); }

// `base` with the members of `change`; a member that is "absent" is removed.
inline nlohmann::json With(nlohmann::json base, const nlohmann::json& change) {
  for (const auto& [key, value] : change.items()) {
    base[key] = value;
    if (value == "absent") base.erase(key);
  }
  return base;
}

inline absl::StatusOr<ModelConfig> ReadJsonConfig(
    const nlohmann::json& config, const nlohmann::json& generation = nlohmann::json()) {
  return ModelConfigFromJson(config.dump(), generation.is_null() ? "" : generation.dump(),
                             "models/tiny");
}

}  // namespace lockstep
