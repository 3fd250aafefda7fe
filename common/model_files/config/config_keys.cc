#include <algorithm>
#include <array>
#include <cmath>

#include "common/model_files/config/config_key_lists.h"
#include "common/model_files/config/model_config_parts.h"
#include "common/runtime/logging.h"
#include "common/status.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

// These keys do not affect the logits, and every second model has some of them. They are about
// training, bookkeeping or other tools, or are old copies of generation_config.json. Any other key
// that nothing reads costs a warning.
constexpr std::string_view kHarmlessKeys[] = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_flash_attn_2_enabled",
    "_name_or_path",
    "attention_dropout",
    "attn_implementation",
    "bad_words_ids",
    "begin_suppress_tokens",
    "chunk_size_feed_forward",
    "compression_config",  // as quantization_config
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "embd_pdrop",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "initializer_range",
    "is_decoder",
    "is_llama_config",
    "label2id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "max_sequence_length",
    "min_length",
    "neftune_noise_alpha",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "quantization_config",  // how weights are stored: LoadQuantizationConfig checks it
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "seq_length",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
};

// In addition to kOffKeys: keys with other neutral values.
constexpr NeutralKey kNeutralKeys[] = {
    {"altup_num_inputs", "[0, 1]"},
    {"attention_in_multiplier", "[1]"},
    {"attention_out_multiplier", "[1]"},
    {"attention_value_scale", "[1]"},
    {"causal", "[true]"},
    {"do_layer_norm_before", "[true]"},
    {"embedding_multiplier", "[1]"},
    {"embedding_scale", "[1]"},
    {"hc_count", "[0, 1]"},
    {"hc_mult", "[0, 1]"},
    {"is_causal", "[true]"},
    {"key_multiplier", "[1]"},
    {"lm_head_multiplier", "[1]"},
    {"logit_scale", "[1]"},
    {"logits_mup_width_multiplier", "[1]"},
    {"logits_scaling", "[1]"},
    {"loop_num_passes", "[0, 1]"},
    {"mup_embeddings_scale", "[1]"},
    {"mup_output_alpha", "[1]"},
    {"mup_width_scale", "[1]"},
    {"n_recurrent_loops", "[0, 1]"},
    {"no_bias", "[true]"},
    {"num_experts_per_tok", "[0, 1]"},
    {"num_local_experts", "[0, 1]"},
    {"partial_rotary_factor", "[1]"},
    {"pre_norm", "[true]"},
    {"residual_multiplier", "[1]"},
    {"rotary_pct", "[1]"},
    {"scale_attn_weights", "[true]"},
    {"scale_emb", "[1]"},
    {"sliding_window_pattern", "[0, 1]"},
};

bool IsAbout(const Json& value, double wanted) {
  return value.is_number() && std::abs(value.get<double>() - wanted) <= 1e-6 * std::abs(wanted);
}
bool IsOff(const Json& value) {
  return value == false || value == 0 || (value.is_structured() && value.empty());
}
bool AreAll(const Json& value, const auto& holds) {
  return value.is_array() && std::all_of(value.begin(), value.end(), holds);
}

// Keys with a neutral value that depends on the rest of the file.
struct DerivedKey {
  std::string_view key;
  std::string_view expected;
  bool (*holds)(const Json& value, const ModelConfig& config);
};

bool IsHeadDim(const Json& value, const ModelConfig& config) {
  return IsOff(value) || value == config.head_dim;
}
bool IsHiddenSize(const Json& value, const ModelConfig& config) {
  return IsOff(value) || value == config.hidden_size;
}
bool IsQkNorm(const Json& value, const ModelConfig& config) {
  return IsOff(value) || (value == true && config.qk_norm);
}
bool IsBiasEverywhere(const Json& value, const ModelConfig& config) {
  return IsOff(value) || (value == true && config.attention_output_bias && config.mlp_bias);
}
bool IsQkvBias(const Json& value, const ModelConfig& config) {
  return IsOff(value) || (value == true && config.attention_qkv_bias);
}

constexpr DerivedKey kDerivedKeys[] = {
    {"add_qkv_bias", "what the family has", &IsQkvBias},
    {"attention_multiplier", "1 / sqrt(head_dim)",
     [](const Json& value, const ModelConfig& config) {
       return IsAbout(value, 1.0 / std::sqrt(config.head_dim));
     }},
    {"auto_map", "no code for a model of its own",
     [](const Json& value, const ModelConfig&) {
       // A model's own tokenizer and configuration classes do not affect the logits.
       return value.is_object() && std::ranges::none_of(value.items(), [](const auto& entry) {
                return entry.key().starts_with("AutoModel") && !entry.value().is_null();
              });
     }},
    {"bias", "what the family has", &IsBiasEverywhere},
    {"dim_model_base", "hidden_size", &IsHiddenSize},
    {"embedding_size", "hidden_size", &IsHiddenSize},
    {"layers_block_type", "\"attention\" for each layer",
     [](const Json& value, const ModelConfig&) {
       return AreAll(value, [](const Json& type) { return type == "attention"; });
     }},
    {"mlp_layer_types", "\"dense\" for each layer",
     [](const Json& value, const ModelConfig&) {
       return AreAll(value, [](const Json& type) { return type == "dense"; });
     }},
    {"mlp_multipliers", "1 for each",
     [](const Json& value, const ModelConfig&) {
       return AreAll(value, [](const Json& factor) { return factor == 1; });
     }},
    {"no_rope_layers", "1 for each layer, which has a rotation",
     [](const Json& value, const ModelConfig&) {
       return AreAll(value, [](const Json& rotates) { return rotates == 1 || rotates == true; });
     }},
    {"position_embedding_type", "the positions of the family",
     [](const Json& value, const ModelConfig& config) {
       return config.positions == PositionKind::kRotary ? value == "rope" || value == "rotary"
                                                        : value == "absolute" || value == "learned";
     }},
    {"qk_head_dim", "head_dim", &IsHeadDim},
    {"qk_layernorm", "what the family has", &IsQkNorm},
    {"qk_norm", "what the family has", &IsQkNorm},
    {"qkv_bias", "what the family has", &IsQkvBias},
    {"query_pre_attn_scalar", "head_dim", &IsHeadDim},
    {"rotary_dim", "head_dim", &IsHeadDim},
    {"rotary_emb_base", "rope_theta",
     [](const Json& value, const ModelConfig& config) {
       return IsAbout(value, config.rope.theta);
     }},
    {"scale_depth", "the square root of the number of layers",
     [](const Json& value, const ModelConfig& config) {
       return IsAbout(value, std::sqrt(config.num_layers));
     }},
    {"use_bias", "what the family has", &IsBiasEverywhere},
    {"use_qk_norm", "what the family has", &IsQkNorm},
    {"use_qkv_bias", "what the family has", &IsQkvBias},
    {"v_head_dim", "head_dim", &IsHeadDim},
    {"word_embed_proj_dim", "hidden_size", &IsHiddenSize},
};

absl::Status RefuseKey(const JsonObjectReader& reader, std::string_view key, const Json& value,
                       std::string_view expected) {
  return InvalidArgument(
      "{} is {}, which would alter the result and is not supported; expected {} or nothing",
      reader.Where(key), DescribeJson(value), expected);
}

absl::Status CheckNeutralKey(JsonObjectReader& reader, const NeutralKey& entry) {
  const Json* value = reader.Find(entry.key);
  if (value == nullptr) return absl::OkStatus();
  const Json neutral = Json::parse(entry.neutral_json);
  if (std::find(neutral.begin(), neutral.end(), *value) != neutral.end()) return absl::OkStatus();
  // Of the neutral values, show the one of the same type.
  const auto alike = std::find_if(neutral.begin(), neutral.end(), [value](const Json& other) {
    return other.type() == value->type() || (other.is_number() && value->is_number());
  });
  return RefuseKey(reader, entry.key, *value,
                   (alike == neutral.end() ? neutral.front() : *alike).dump());
}

// A key of windows that only some families read.
bool IsWindowKey(const ModelFamily& family, std::string_view key) {
  const WindowRule& rule = family.windows;
  return key == rule.rope_theta_key ||
         (key == kWindowPatternKey && rule.layers == WindowLayers::kPattern);
}

bool IsListed(std::span<const std::string_view> keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

}  // namespace

absl::Status CheckNeutralKeys(JsonObjectReader& reader, std::span<const NeutralKey> table) {
  for (const NeutralKey& entry : table) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNeutralKey(reader, entry));
  }
  return absl::OkStatus();
}

absl::Status CheckOtherKeys(JsonObjectReader& reader, const std::string& file_name,
                            ModelConfig* config) {
  const ConfigKeys& keys = config->family->keys;
  LOCKSTEP_RETURN_IF_ERROR(CheckNeutralKeys(reader, keys.neutral));
  for (const NeutralKey& entry : kNeutralKeys) {
    if (IsWindowKey(*config->family, entry.key)) continue;
    LOCKSTEP_RETURN_IF_ERROR(CheckNeutralKey(reader, entry));
  }
  for (const std::string_view key : kOffKeys) {
    if (IsWindowKey(*config->family, key)) continue;
    LOCKSTEP_RETURN_IF_ERROR(CheckNeutralKey(reader, {key, kOff}));
  }
  for (const DerivedKey& entry : kDerivedKeys) {
    const Json* value = reader.Find(entry.key);
    if (value == nullptr || entry.holds(*value, *config)) continue;
    return RefuseKey(reader, entry.key, *value, entry.expected);
  }
  // A family with other positions does not read these.
  for (const std::string_view key : {"rope_theta", "rope_scaling", "rope_parameters"}) {
    const Json* value = config->positions == PositionKind::kRotary ? nullptr : reader.Find(key);
    if (value != nullptr) return RefuseKey(reader, key, *value, "no rotation");
  }
  std::vector<std::string> ignored;
  for (const std::string& key : reader.UnreadKeys()) {
    const bool says_something = reader.Find(key) != nullptr;
    if (says_something && !IsListed(kHarmlessKeys, key) && !IsListed(keys.harmless, key)) {
      ignored.push_back(key);
    }
  }
  if (!ignored.empty()) {
    config->warnings.push_back(
        fmt::format("{}: keys that no known model computes with are ignored: {}", file_name,
                    ListNames(ignored)));
  }
  return absl::OkStatus();
}

std::string ListNames(std::span<const std::string> names) {
  constexpr size_t kMaxNames = 20;
  constexpr size_t kMaxNameBytes = 64;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) {
    const std::string name = EscapeControlCharacters(names[i].substr(0, kMaxNameBytes));
    text += fmt::format("{}{}{}", i == 0 ? "" : ", ", name,
                        names[i].size() > kMaxNameBytes ? "..." : "");
  }
  if (names.size() > kMaxNames) text += fmt::format(" and {} more", names.size() - kMaxNames);
  return text;
}

}  // namespace lockstep
