#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "common/model_files/config/gguf_architecture_reader.h"
#include "common/model_files/config/model_config_parts.h"
#include "common/model_files/model_config.h"
#include "common/model_files/model_family.h"
#include "common/shown_text.h"
#include "common/status.h"

namespace lockstep {
namespace {

constexpr std::string_view kRopeFactors = "rope_freqs.weight";

absl::StatusOr<const ModelFamily*> ReadFamily(const GgufFile& file) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view architecture,
                            file.GetString("general.architecture"));
  const ModelFamily* const family = FindModelFamily(architecture);
  if (family != nullptr) {
    const WindowLayers windows = family->windows.layers;
    if (windows == WindowLayers::kAll || windows == WindowLayers::kPattern) {
      return Unimplemented("{}: general.architecture is {}, whose windows are not read from GGUF",
                           file.name(), Quote(architecture));
    }
    return family;
  }
  const auto families = ModelFamilies();
  std::string expected;
  for (size_t i = 0; i < families.size(); ++i) {
    if (i > 0) expected += i + 1 == families.size() ? " or " : ", ";
    expected += families[i]->name;
  }
  return InvalidArgument("{}: general.architecture is {}, expected {}", file.name(),
                         Quote(architecture), expected);
}

absl::Status CheckIsWholeModel(const GgufFile& file) {
  if (file.Find("general.type") != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view type, file.GetString("general.type"));
    if (type != "model") {
      return InvalidArgument("{}: general.type is {}, expected \"model\"", file.name(),
                             Quote(type));
    }
  }
  if (file.Find("split.count") == nullptr) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t num_files, file.GetUint("split.count"));
  if (num_files <= 1) return absl::OkStatus();
  const absl::StatusOr<uint64_t> index = file.GetUint("split.no");
  return InvalidArgument(
      "{}: split.count is {}: this file is part {} of {} of a split model, which is not supported; "
      "merge the parts first (llama-gguf-split --merge)",
      file.name(), num_files, index.ok() ? fmt::format("{}", *index + 1) : "?", num_files);
}

absl::StatusOr<uint32_t> ReadVocabSize(ArchitectureReader& reader) {
  constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint32_t> vocab_size, reader.Uint("vocab_size"));
  if (vocab_size && reader.file().Find(kTokens) == nullptr) return *vocab_size;
  LOCKSTEP_ASSIGN_OR_RETURN(const auto tokens, reader.file().GetStrings(kTokens));
  if (vocab_size && *vocab_size < tokens.size()) {
    return reader.Refuse("vocab_size", fmt::format("{}", *vocab_size),
                         fmt::format("at least the number of tokens, {}", tokens.size()));
  }
  return vocab_size.value_or(static_cast<uint32_t>(tokens.size()));
}

absl::Status ReadSizes(ArchitectureReader& reader, ModelConfig* config) {
  const std::pair<std::string_view, uint32_t*> sizes[] = {
      {"context_length", &config->max_context_tokens},
      {"embedding_length", &config->hidden_size},
      {"block_count", &config->num_layers},
      {"feed_forward_length", &config->intermediate_size},
      {"attention.head_count", &config->num_heads}};
  for (const auto& [name, size] : sizes) {
    LOCKSTEP_ASSIGN_OR_RETURN(*size, reader.RequireUint(name));
    if (*size == 0) return reader.Refuse(name, "0", "an integer > 0");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(config->vocab_size, ReadVocabSize(reader));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint32_t> num_kv_heads,
                            reader.Uint("attention.head_count_kv"));
  config->num_kv_heads = num_kv_heads.value_or(config->num_heads);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint32_t> key_length,
                            reader.Uint("attention.key_length"));
  if (!key_length && config->hidden_size % config->num_heads != 0) {
    return reader.Refuse("attention.key_length", "missing",
                         "a number, because the heads do not divide the embedding");
  }
  config->head_dim = key_length.value_or(config->hidden_size / config->num_heads);
  for (const std::string_view name : {"attention.value_length", "rope.dimension_count"}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint32_t> size, reader.Uint(name));
    if (size && *size != config->head_dim) {
      return reader.Refuse(name, fmt::format("{}", *size),
                           fmt::format("the head dimension, {}", config->head_dim));
    }
  }
  return absl::OkStatus();
}

// Checks the keys that llama.cpp knows for other models of the same architecture name.
absl::Status CheckNeutralKeys(ArchitectureReader& reader, const ModelConfig& config) {
  for (const std::string_view name :
       {"expert_count", "expert_used_count", "pooling_type", "attention.clamp_kqv",
        "attention.max_alibi_bias", "attn_logit_softcapping", "final_logit_softcapping"}) {
    LOCKSTEP_RETURN_IF_ERROR(reader.CheckNeutral(name, 0));
  }
  for (const std::string_view name : {"logit_scale", "residual_scale", "embedding_scale"}) {
    LOCKSTEP_RETURN_IF_ERROR(reader.CheckNeutral(name, 1));
  }
  LOCKSTEP_RETURN_IF_ERROR(reader.CheckNeutralFlag("attention.causal", true));
  LOCKSTEP_RETURN_IF_ERROR(reader.CheckNeutralFlag("use_parallel_residual", false));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint32_t> window,
                            reader.Uint("attention.sliding_window"));
  if (window && *window != 0 && *window < config.max_context_tokens) {
    return reader.Refuse("attention.sliding_window", fmt::format("{}", *window),
                         "0 or at least the context length");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> ReadFrequencyDivisors(const GgufFile& file,
                                                         const GgufTensor& tensor) {
  if (tensor.type != GgmlType::kF32 || tensor.shape.size() != 1) {
    return InvalidArgument("{}: tensor {} has type {} and {} dimensions, expected F32 and 1",
                           file.name(), tensor.name, GgmlTypeName(tensor.type),
                           tensor.shape.size());
  }
  std::vector<float> divisors(tensor.data.size() / sizeof(float));
  std::memcpy(divisors.data(), tensor.data.data(), divisors.size() * sizeof(float));
  return divisors;
}

absl::Status ReadYarn(ArchitectureReader& reader, uint32_t max_context_tokens, RopeConfig* rope) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint32_t> original,
                            reader.Uint("rope.scaling.original_context_length"));
  rope->original_max_positions = original.value_or(max_context_tokens);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> beta_fast,
                            reader.Float("rope.scaling.yarn_beta_fast"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> beta_slow,
                            reader.Float("rope.scaling.yarn_beta_slow"));
  rope->yarn_beta_fast = beta_fast.value_or(rope->yarn_beta_fast);
  rope->yarn_beta_slow = beta_slow.value_or(rope->yarn_beta_slow);
  LOCKSTEP_RETURN_IF_ERROR(reader.CheckNeutral("rope.scaling.yarn_log_multiplier", 0));
  for (const std::string_view name : {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor",
                                      "rope.scaling.yarn_ext_factor"}) {
    LOCKSTEP_RETURN_IF_ERROR(reader.CheckNeutral(name, 1));
  }
  return absl::OkStatus();
}

absl::Status ReadScaling(ArchitectureReader& reader, uint32_t max_context_tokens,
                         RopeConfig* rope) {
  constexpr std::string_view kTypeKey = "rope.scaling.type";
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> factor,
                            reader.Float("rope.scaling.factor"));
  reader.Ignore("rope.scaling.finetuned");  // about the training
  reader.Ignore(kTypeKey);
  rope->factor = factor.value_or(1.0);
  std::string_view type = rope->factor == 1.0 ? "none" : "linear";  // as in llama.cpp
  if (reader.file().Find(reader.Key(kTypeKey)) != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(type, reader.file().GetString(reader.Key(kTypeKey)));
  }
  if (type == "none") {
    rope->scaling = RopeScalingKind::kNone;
  } else if (type == "linear") {
    rope->scaling = RopeScalingKind::kLinear;
  } else if (type == "yarn") {
    rope->scaling = RopeScalingKind::kYarn;
    LOCKSTEP_RETURN_IF_ERROR(ReadYarn(reader, max_context_tokens, rope));
  } else {
    return reader.Refuse(kTypeKey, Quote(type), "none, linear or yarn");
  }
  // The context length before scaling; the formula of `linear` does not use it.
  reader.Ignore("rope.scaling.original_context_length");
  return reader.CheckNeutral("rope.scale_linear", 1);
}

absl::StatusOr<RopeConfig> ReadRope(ArchitectureReader& reader, const ModelConfig& config) {
  RopeConfig rope;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> theta, reader.Float("rope.freq_base"));
  rope.theta = theta.value_or(rope.theta);
  LOCKSTEP_RETURN_IF_ERROR(ReadScaling(reader, config.max_context_tokens, &rope));
  const GgufFile& file = reader.file();
  for (const std::string_view name : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
    if (file.FindTensor(name) != nullptr) {
      return InvalidArgument("{}: tensor {}: longrope scaling is not supported", file.name(), name);
    }
  }
  const GgufTensor* factors = file.FindTensor(kRopeFactors);
  if (factors == nullptr) return rope;
  if (rope.scaling != RopeScalingKind::kNone) {
    return InvalidArgument("{}: tensor {} and rope scaling are both present", file.name(),
                           kRopeFactors);
  }
  rope.scaling = RopeScalingKind::kLlama3;
  LOCKSTEP_ASSIGN_OR_RETURN(rope.frequency_divisors, ReadFrequencyDivisors(file, *factors));
  return rope;
}

// GGUF names one end id; chat models have several. So this also finds control tokens by their text,
// as llama.cpp does.
absl::StatusOr<std::vector<TokenId>> ReadEndIds(const GgufFile& file) {
  constexpr std::string_view kEndTexts[] = {"<|endoftext|>", "<|im_end|>", "<|eot_id|>",
                                            "<|eom_id|>", "<|end_of_text|>"};
  constexpr int64_t kControlToken = 3;
  std::vector<TokenId> ids;
  for (const std::string_view key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                     "tokenizer.ggml.eom_token_id"}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<TokenId> id, ReadUint32(file, key));
    if (id) ids.push_back(*id);
  }
  const auto tokens = file.GetStrings("tokenizer.ggml.tokens");
  const auto types = file.GetInts("tokenizer.ggml.token_type");
  if (tokens.ok() && types.ok()) {
    for (size_t i = 0; i < std::min(tokens->size(), types->size()); ++i) {
      const bool is_end = std::find(std::begin(kEndTexts), std::end(kEndTexts), (*tokens)[i]) !=
                          std::end(kEndTexts);
      if (is_end && (*types)[i] == kControlToken) ids.push_back(static_cast<TokenId>(i));
    }
  }
  return ids;
}

// Reads a number of any type. None if the key is absent. Any other value costs a warning.
std::optional<double> NumberOf(const GgufFile& file, std::string_view key, ModelConfig* config) {
  if (file.Find(key) == nullptr) return std::nullopt;
  const absl::StatusOr<double> value = file.GetFloat(key);
  if (value.ok()) return *value;
  config->warnings.push_back(fmt::format("{}: this default is ignored", Message(value.status())));
  return std::nullopt;
}

// These values do not affect the computation, so their errors are only warnings.
void ReadGenerationDefaults(const GgufFile& file, ModelConfig* config) {
  constexpr std::pair<std::string_view, std::string_view> kKeys[] = {
      {"general.sampling.temp", "temperature"},
      {"general.sampling.top_p", "top_p"},
      {"general.sampling.min_p", "min_p"},
      {"general.sampling.penalty_repeat", "repetition_penalty"},
      {"general.sampling.top_k", "top_k"}};
  for (const auto& [key, name] : kKeys) {
    const std::optional<double> value = NumberOf(file, key, config);
    for (const SamplingNumber& number : kSamplingNumbers) {
      if (!value || number.name != name) continue;
      TakeDefault(number, *value, fmt::format("{}: metadata key {}", file.name(), key), config);
    }
  }
  for (const std::string_view key :
       {"general.sampling.xtc_probability", "general.sampling.mirostat"}) {
    if (NumberOf(file, key, config).value_or(0) == 0) continue;
    config->warnings.push_back(fmt::format(
        "{}: metadata key {} is not implemented: this default is ignored", file.name(), key));
  }
}

// Reads properties that only the tensors show.
void ReadTensorFlags(const GgufFile& file, ModelConfig* config) {
  const ModelFamily& family = *config->family;
  const TensorNames& names = family.gguf;
  const auto has = [&file](const std::string& name) { return file.FindTensor(name) != nullptr; };
  const auto has_bias = [&](std::string_view stem) {
    return family.always_all_biases || has(fmt::format("{}0.{}.bias", names.layer_prefix, stem));
  };
  config->tie_word_embeddings = !has(std::string(names.lm_head) + ".weight");
  config->attention_qkv_bias = family.always_qkv_bias || has_bias(names.q);
  config->attention_output_bias = has_bias(names.attention_output);
  config->mlp_bias = has_bias(names.gate);
  config->qk_norm = family.qk_norm;
}

std::string ReadName(const GgufFile& file) {
  const auto name = file.GetString("general.name");
  const bool printable =
      name.ok() && !name->empty() && name->size() <= 200 &&
      std::all_of(name->begin(), name->end(), [](char c) { return c >= 0x20 && c < 0x7f; });
  return std::string(
      printable ? *name : std::string_view(file.name()).substr(file.name().find_last_of('/') + 1));
}

}  // namespace

absl::StatusOr<ModelConfig> ModelConfigFromGguf(const GgufFile& file) {
  ModelConfig config;
  // First: the later parts of a split model lack the other keys.
  LOCKSTEP_RETURN_IF_ERROR(CheckIsWholeModel(file));
  LOCKSTEP_ASSIGN_OR_RETURN(config.family, ReadFamily(file));
  const ModelFamily& family = *config.family;
  config.norm = family.norm;
  config.mlp = family.mlp;
  config.positions = family.positions;
  ArchitectureReader reader(file, family.name);
  LOCKSTEP_RETURN_IF_ERROR(ReadSizes(reader, &config));
  const std::string_view eps_key = config.norm == NormKind::kRms
                                       ? "attention.layer_norm_rms_epsilon"
                                       : "attention.layer_norm_epsilon";
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> eps, reader.Float(eps_key));
  if (!eps) return reader.Refuse(eps_key, "missing", "a number > 0");
  config.norm_eps = *eps;
  if (config.positions == PositionKind::kRotary) {
    LOCKSTEP_ASSIGN_OR_RETURN(config.rope, ReadRope(reader, config));
    config.max_context_tokens = ScaledContext(config.rope, config.max_context_tokens);
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckNeutralKeys(reader, config));
  LOCKSTEP_RETURN_IF_ERROR(reader.CheckOtherKeys(&config));
  ReadTensorFlags(file, &config);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<TokenId> ends, ReadEndIds(file));
  AddEndIds(ends, fmt::format("{}: tokenizer.ggml", file.name()), &config);
  LOCKSTEP_ASSIGN_OR_RETURN(config.bos_token_id, ReadUint32(file, "tokenizer.ggml.bos_token_id"));
  if (config.bos_token_id.value_or(0) >= config.vocab_size) config.bos_token_id.reset();
  ReadGenerationDefaults(file, &config);
  config.name = ReadName(file);
  LOCKSTEP_RETURN_IF_ERROR(Annotate(config.Validate(), file.name()));
  return config;
}

}  // namespace lockstep
