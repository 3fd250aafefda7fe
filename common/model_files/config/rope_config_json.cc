#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/model_files/config/model_config_parts.h"
#include "common/status.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

struct Field {
  std::string_view key;
  double* value;
  bool required;
};

absl::Status ReadNumbers(JsonObjectReader& reader, std::initializer_list<Field> fields) {
  for (const Field& field : fields) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> value, reader.Number(field.key));
    if (value) *field.value = *value;
    if (!value && field.required) {
      return InvalidArgument("{} is missing, expected a number", reader.Where(field.key));
    }
  }
  return absl::OkStatus();
}

// transformers takes 0 for "not given" in these.
absl::StatusOr<std::optional<double>> ReadNonzero(JsonObjectReader& reader, std::string_view key) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> value, reader.Number(key));
  return value == 0.0 ? std::nullopt : value;
}

absl::Status ReadYarn(JsonObjectReader& reader, uint32_t max_context_tokens, RopeConfig* rope) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> factor, reader.Number("factor"));
  rope->factor =
      factor.value_or(static_cast<double>(max_context_tokens) / rope->original_max_positions);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> fast, ReadNonzero(reader, "beta_fast"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> slow, ReadNonzero(reader, "beta_slow"));
  rope->yarn_beta_fast = fast.value_or(rope->yarn_beta_fast);
  rope->yarn_beta_slow = slow.value_or(rope->yarn_beta_slow);
  LOCKSTEP_ASSIGN_OR_RETURN(rope->yarn_attention_factor, reader.Number("attention_factor"));
  // A name of vLLM's, which scales the formula's value. DeepSeek-R1-0528-Qwen3 has it. transformers
  // does not read it.
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> scale, reader.Number("attn_factor"));
  if (scale && !rope->yarn_attention_factor) {
    rope->yarn_attention_factor = *scale * (0.1 * std::log(std::max(rope->factor, 1.0)) + 1.0);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(rope->yarn_mscale, ReadNonzero(reader, "mscale"));
  LOCKSTEP_ASSIGN_OR_RETURN(rope->yarn_mscale_all_dim, ReadNonzero(reader, "mscale_all_dim"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<bool> truncate, reader.Bool("truncate"));
  rope->yarn_truncate = truncate.value_or(true);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadType(JsonObjectReader& reader) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<std::string> new_key, reader.String("rope_type"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<std::string> old_key, reader.String("type"));
  if (new_key && old_key && *new_key != *old_key) {
    return InvalidArgument("{} is {}, but type is {}", reader.Where("rope_type"),
                           DescribeJson(*new_key), DescribeJson(*old_key));
  }
  return new_key.value_or(old_key.value_or("default"));
}

// Parameters of specific kinds of scaling. With another kind, the file means something that we do
// not implement.
constexpr std::string_view kScalingKeys[] = {
    "alpha",          "attention_factor", "attn_factor",
    "beta_fast",      "beta_slow",        "factor",
    "full_attention", "high_freq_factor", "long_factor",
    "long_mscale",    "low_freq_factor",  "mrope_section",
    "mscale",         "mscale_all_dim",   "rope_ratio",
    "short_factor",   "short_mscale",     "sliding_attention",
    "truncate",       "scaling_alpha"};

// Refuses parameters of other kinds of scaling. Other keys are not parameters of transformers.
absl::Status CheckOtherScalingKeys(JsonObjectReader& reader, std::string_view type,
                                   std::vector<std::string>* ignored) {
  LOCKSTEP_RETURN_IF_ERROR(CheckNeutralKeys(reader, {{{"partial_rotary_factor", "[1]"}}}));
  if (type == "default") {
    LOCKSTEP_RETURN_IF_ERROR(CheckNeutralKeys(reader, {{{"factor", "[1]"}}}));
  }
  reader.Find("finetuned");  // says that the weights were trained with it; changes nothing
  for (const std::string& key : reader.UnreadKeys()) {
    const Json* value = reader.Find(key);
    if (value == nullptr) continue;
    if (std::ranges::find(kScalingKeys, std::string_view(key)) == std::end(kScalingKeys)) {
      ignored->push_back(key);
      continue;
    }
    return InvalidArgument("{} is {}: this key is not known for rope_type {}", reader.Where(key),
                           DescribeJson(*value), type);
  }
  return absl::OkStatus();
}

absl::Status ReadScaling(JsonObjectReader& reader, uint32_t max_context_tokens,
                         std::vector<std::string>* ignored, RopeConfig* rope) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string type, ReadType(reader));
  // Written for every kind. Default and linear scaling have no use for it.
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint32_t> original,
                            ReadUint32(reader, "original_max_position_embeddings"));
  if (original == 0u) {
    return InvalidArgument("{} is 0", reader.Where("original_max_position_embeddings"));
  }
  const bool has_original = type == "llama3" || type == "yarn";
  // Phi's files have the number next to the object. It was read already and takes precedence.
  if (!has_original) rope->original_max_positions = 0;
  if (has_original && rope->original_max_positions == 0) {
    rope->original_max_positions = original.value_or(max_context_tokens);
  }
  if (type == "default") {
    rope->scaling = RopeScalingKind::kNone;
  } else if (type == "linear") {
    rope->scaling = RopeScalingKind::kLinear;
    LOCKSTEP_RETURN_IF_ERROR(ReadNumbers(reader, {{"factor", &rope->factor, true}}));
  } else if (type == "llama3") {
    rope->scaling = RopeScalingKind::kLlama3;
    LOCKSTEP_RETURN_IF_ERROR(
        ReadNumbers(reader, {{"factor", &rope->factor, true},
                             {"low_freq_factor", &rope->low_freq_factor, true},
                             {"high_freq_factor", &rope->high_freq_factor, true}}));
  } else if (type == "yarn") {
    rope->scaling = RopeScalingKind::kYarn;
    LOCKSTEP_RETURN_IF_ERROR(ReadYarn(reader, max_context_tokens, rope));
  } else {
    return InvalidArgument("{} is {}, expected default, linear, llama3 or yarn",
                           reader.Where("rope_type"), DescribeJson(type));
  }
  return CheckOtherScalingKeys(reader, type, ignored);
}

// Reads one of the two objects. `rope` holds the values next to the object.
absl::Status ReadObject(const Json& object, const std::string& file_name, std::string_view key,
                        ModelConfig* config, RopeConfig* rope) {
  JsonObjectReader members(object, file_name, std::string(key));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> theta, members.Number("rope_theta"));
  rope->theta = theta.value_or(rope->theta);
  std::vector<std::string> ignored;
  LOCKSTEP_RETURN_IF_ERROR(ReadScaling(members, config->max_context_tokens, &ignored, rope));
  if (!ignored.empty()) {
    config->warnings.push_back(
        fmt::format("{}: {}: keys that no known model computes with are ignored: {}", file_name,
                    key, ListNames(ignored)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadRope(JsonObjectReader& reader, const std::string& file_name, ModelConfig* config) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> theta, reader.Number("rope_theta"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint32_t> original,
                            ReadUint32(reader, "original_max_position_embeddings"));
  RopeConfig outer;
  outer.theta = theta.value_or(outer.theta);
  outer.original_max_positions = original.value_or(0);
  std::optional<RopeConfig> inner;
  bool inner_has_theta = false;
  // The names of transformers 4 and 5. The latter has the base too.
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    const Json* object = reader.Find(key);
    if (object == nullptr || (object->is_object() && object->empty())) continue;
    if (!object->is_object()) {
      return InvalidArgument("{} is {}, expected an object", reader.Where(key),
                             DescribeJson(*object));
    }
    RopeConfig rope = outer;
    LOCKSTEP_RETURN_IF_ERROR(ReadObject(*object, file_name, key, config, &rope));
    if (theta && rope.theta != *theta) {
      return InvalidArgument("{}: {}.rope_theta is {}, but the top level has {}", file_name, key,
                             rope.theta, *theta);
    }
    const bool has_theta = object->contains("rope_theta");
    if (inner && !inner_has_theta) inner->theta = rope.theta;
    if (inner && !has_theta) rope.theta = inner->theta;
    if (inner && *inner != rope) {
      return InvalidArgument("{} and rope_parameters are both given and differ",
                             reader.Where("rope_scaling"));
    }
    inner = rope;
    inner_has_theta = has_theta;
  }
  outer.original_max_positions = 0;  // has no meaning without scaling
  config->rope = inner.value_or(outer);
  return absl::OkStatus();
}

uint32_t ScaledContext(const RopeConfig& rope, uint32_t max_context_tokens) {
  const auto times = [&rope](uint32_t tokens) {
    const double scaled = rope.factor * tokens;
    constexpr double kMax = std::numeric_limits<uint32_t>::max();
    // A factor that is not above 0 is refused later, by name.
    return std::isfinite(scaled) && scaled > 0 ? static_cast<uint32_t>(std::min(scaled, kMax)) : 0;
  };
  switch (rope.scaling) {
    case RopeScalingKind::kLinear:
      return std::max(max_context_tokens, times(max_context_tokens));
    case RopeScalingKind::kYarn:
      return std::max(max_context_tokens, times(rope.original_max_positions));
    case RopeScalingKind::kNone:
    case RopeScalingKind::kLlama3:
      break;
  }
  return max_context_tokens;
}

}  // namespace lockstep
