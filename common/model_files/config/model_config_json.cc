#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "common/model_files/config/model_config_parts.h"
#include "common/model_files/model_family.h"
#include "common/status.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

std::string ExpectedArchitectures() {
  const auto families = ModelFamilies();
  std::string text = "expected ";
  for (size_t i = 0; i < families.size(); ++i) {
    if (i > 0) text += i + 1 == families.size() ? " or " : ", ";
    text += families[i]->architecture;
  }
  return text;
}

absl::StatusOr<const ModelFamily*> ReadFamily(JsonObjectReader& reader) {
  const Json* value = reader.Find("architectures");
  if (value == nullptr) {
    return InvalidArgument("{} is missing, {}", reader.Where("architectures"),
                           ExpectedArchitectures());
  }
  const bool is_single = value->is_array() && value->size() == 1 && value->front().is_string();
  const std::string name = is_single ? value->front().get<std::string>() : "";
  for (const ModelFamily* const family : ModelFamilies()) {
    if (family->architecture != name) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<std::string> type, reader.String("model_type"));
    if (type && *type != family->name) {
      return InvalidArgument("{} is {}, expected \"{}\" for {}", reader.Where("model_type"),
                             DescribeJson(*type), family->name, family->architecture);
    }
    return family;
  }
  return InvalidArgument("{} is {}, {}", reader.Where("architectures"), DescribeJson(*value),
                         ExpectedArchitectures());
}

absl::Status ReadSizes(JsonObjectReader& reader, ModelConfig* config) {
  const ConfigKeys& keys = config->family->keys;
  const std::pair<std::string_view, uint32_t*> sizes[] = {
      {keys.hidden_size, &config->hidden_size},
      {keys.intermediate_size, &config->intermediate_size},
      {keys.num_layers, &config->num_layers},
      {keys.num_heads, &config->num_heads},
      {"vocab_size", &config->vocab_size},
      {keys.max_context_tokens, &config->max_context_tokens}};
  for (const auto& [key, size] : sizes) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint32_t> value, ReadUint32(reader, key));
    const uint32_t factor = config->family->default_intermediate_size;
    if (!value && key == keys.intermediate_size && factor > 0) {
      const uint64_t product = uint64_t{factor} * config->hidden_size;
      *size = static_cast<uint32_t>(std::min<uint64_t>(product, UINT32_MAX));
      continue;
    }
    if (!value || *value == 0) {
      return InvalidArgument("{} is {}, expected an integer > 0", reader.Where(key),
                             value ? "0" : "missing");
    }
    *size = *value;
  }
  return absl::OkStatus();
}

absl::Status ReadHeads(JsonObjectReader& reader, ModelConfig* config) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint32_t> num_kv_heads,
                            ReadUint32(reader, "num_key_value_heads"));
  config->num_kv_heads = num_kv_heads.value_or(config->num_heads);
  const bool says_null = reader.IsNull("head_dim");
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint32_t> head_dim, ReadUint32(reader, "head_dim"));
  if (head_dim) {
    config->head_dim = *head_dim;
    return absl::OkStatus();
  }
  if (config->family->default_head_dim > 0 && !says_null) {
    config->head_dim = config->family->default_head_dim;  // as in transformers
    return absl::OkStatus();
  }
  if (config->hidden_size % config->num_heads != 0) {
    return InvalidArgument("{} is absent, and {} {} is not a multiple of {} {}",
                           reader.Where("head_dim"), config->family->keys.hidden_size,
                           config->hidden_size, config->family->keys.num_heads, config->num_heads);
  }
  config->head_dim = config->hidden_size / config->num_heads;
  return absl::OkStatus();
}

absl::Status ReadBiases(JsonObjectReader& reader, ModelConfig* config) {
  const ModelFamily& family = *config->family;
  if (family.always_all_biases) {
    config->attention_qkv_bias = config->attention_output_bias = config->mlp_bias = true;
    return absl::OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<bool> attention_bias,
                            reader.Bool("attention_bias"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<bool> mlp_bias, reader.Bool("mlp_bias"));
  if (family.always_qkv_bias) {
    config->attention_qkv_bias = true;
    if (attention_bias == false) {  // transformers does not read this key
      config->warnings.push_back(fmt::format("{} is false, but {} always has biases on q, k and v",
                                             reader.Where("attention_bias"), family.name));
    }
  } else {
    config->attention_qkv_bias = config->attention_output_bias = attention_bias.value_or(false);
  }
  config->mlp_bias = mlp_bias.value_or(false);
  if (config->mlp_bias && !family.may_have_mlp_bias) {
    return InvalidArgument("{} is true, expected false for {}", reader.Where("mlp_bias"),
                           family.name);
  }
  return absl::OkStatus();
}

absl::Status ReadActivation(JsonObjectReader& reader, ModelConfig* config) {
  constexpr std::pair<std::string_view, MlpKind> kActivations[] = {
      {"silu", MlpKind::kSwiGlu},       {"swish", MlpKind::kSwiGlu},
      {"gelu_new", MlpKind::kGeluTanh}, {"gelu_pytorch_tanh", MlpKind::kGeluTanh},
      {"gelu", MlpKind::kGeluErf},
  };
  const std::string_view key = config->family->keys.activation;
  const MlpKind usual = config->family->mlp;
  config->mlp = usual;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<std::string> activation, reader.String(key));
  if (!activation) return absl::OkStatus();
  std::string expected;
  for (const auto& [name, kind] : kActivations) {
    if (IsGated(kind) != IsGated(usual)) continue;
    if (name == *activation) {
      config->mlp = kind;
      return absl::OkStatus();
    }
    expected += fmt::format("{}\"{}\"", expected.empty() ? "" : " or ", name);
  }
  return InvalidArgument("{} is {}, expected {}", reader.Where(key), DescribeJson(*activation),
                         expected);
}

// Qwen2.5-1M was trained for attention over chunks, which is full attention up to the size of a
// chunk.
absl::Status LimitToOneChunk(JsonObjectReader& reader, const std::string& file_name,
                             ModelConfig* config) {
  constexpr std::string_view kKey = "dual_chunk_attention_config";
  const Json* value = reader.Find(kKey);
  if (value == nullptr || value->empty()) return absl::OkStatus();
  if (!value->is_object()) {
    return InvalidArgument("{} is {}, expected an object", reader.Where(kKey),
                           DescribeJson(*value));
  }
  JsonObjectReader members(*value, file_name, std::string(kKey));
  for (const std::string_view key : {"original_max_position_embeddings", "chunk_size"}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint32_t> size, ReadUint32(members, key));
    if (!size || *size == 0 || *size >= config->max_context_tokens) continue;
    config->max_context_tokens = *size;
    config->warnings.push_back(fmt::format(
        "{}: attention over chunks is not implemented, so the context ends at {} tokens",
        members.Where(key), *size));
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelConfig> ReadConfig(const Json& root, const std::string& file_name) {
  JsonObjectReader reader(root, file_name);
  ModelConfig config;
  LOCKSTEP_ASSIGN_OR_RETURN(config.family, ReadFamily(reader));
  const ModelFamily& family = *config.family;
  config.norm = family.norm;
  config.positions = family.positions;
  config.qk_norm = family.qk_norm;
  LOCKSTEP_RETURN_IF_ERROR(ReadSizes(reader, &config));
  LOCKSTEP_RETURN_IF_ERROR(ReadHeads(reader, &config));
  LOCKSTEP_RETURN_IF_ERROR(ReadBiases(reader, &config));
  LOCKSTEP_RETURN_IF_ERROR(ReadActivation(reader, &config));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> eps, reader.Number(family.keys.norm_eps));
  config.norm_eps = eps.value_or(family.default_norm_eps);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<bool> tied, reader.Bool("tie_word_embeddings"));
  config.tie_word_embeddings = tied.value_or(family.tied_by_default);
  if (config.positions == PositionKind::kRotary) {
    LOCKSTEP_RETURN_IF_ERROR(ReadRope(reader, file_name, &config));
    config.max_context_tokens = ScaledContext(config.rope, config.max_context_tokens);
    LOCKSTEP_RETURN_IF_ERROR(LimitToOneChunk(reader, file_name, &config));
  }
  LOCKSTEP_RETURN_IF_ERROR(ReadWindows(reader, &config));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<TokenId> ends, ReadTokenIds(reader, "eos_token_id"));
  AddEndIds(ends, reader.Where("eos_token_id"), &config);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<TokenId> bos, ReadTokenIds(reader, "bos_token_id"));
  // Prompts do not begin with an id outside of the vocabulary: the tokenizer makes prompts.
  if (!bos.empty() && bos.front() < config.vocab_size) config.bos_token_id = bos.front();
  LOCKSTEP_RETURN_IF_ERROR(CheckOtherKeys(reader, file_name, &config));
  return config;
}

}  // namespace

absl::StatusOr<std::optional<uint32_t>> ReadUint32(JsonObjectReader& reader, std::string_view key) {
  constexpr uint64_t kMax = std::numeric_limits<uint32_t>::max();
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint64_t> value, reader.Uint(key));
  if (!value) return std::optional<uint32_t>();
  if (*value > kMax) {
    return InvalidArgument("{} is {}, expected at most {}", reader.Where(key), *value, kMax);
  }
  return std::optional(static_cast<uint32_t>(*value));
}

absl::StatusOr<std::vector<TokenId>> ReadTokenIds(JsonObjectReader& reader, std::string_view key) {
  const Json* value = reader.Find(key);
  std::vector<TokenId> ids;
  if (value == nullptr) return ids;
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& id : list) {
    if (id == -1) continue;  // some files write this for "none"
    if (!id.is_number_unsigned() || id.get<uint64_t>() > std::numeric_limits<TokenId>::max()) {
      return InvalidArgument("{} is {}, expected a token id or a list of them", reader.Where(key),
                             DescribeJson(*value));
    }
    ids.push_back(id.get<TokenId>());
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

void AddEndIds(std::span<const TokenId> ids, std::string_view source, ModelConfig* config) {
  std::vector<TokenId>& ends = config->eos_token_ids;
  for (const TokenId id : ids) {
    if (id >= config->vocab_size) {
      config->warnings.push_back(
          fmt::format("{}: end token id {} is not below the vocabulary size {}, so no answer ends "
                      "with it",
                      source, id, config->vocab_size));
      continue;
    }
    const auto place = std::lower_bound(ends.begin(), ends.end(), id);
    if (place == ends.end() || *place != id) ends.insert(place, id);
  }
}

absl::StatusOr<ModelConfig> ModelConfigFromJson(std::string_view config_json,
                                                std::string_view generation_config_json,
                                                const std::string& name) {
  const std::string config_name = fmt::format("{}/config.json", name);
  LOCKSTEP_ASSIGN_OR_RETURN(const Json root, ParseModelJson(config_json, config_name));
  if (!root.is_object()) {
    return InvalidArgument("{}: the file is {}, expected an object", config_name,
                           DescribeJson(root));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(ModelConfig config, ReadConfig(root, config_name));
  if (!generation_config_json.empty()) {
    LOCKSTEP_RETURN_IF_ERROR(ApplyGenerationConfig(
        generation_config_json, fmt::format("{}/generation_config.json", name), &config));
  }
  config.name = name.substr(name.find_last_of('/') + 1);
  LOCKSTEP_RETURN_IF_ERROR(Annotate(config.Validate(), name));
  return config;
}

}  // namespace lockstep
