#include <utility>

#include "common/model_files/model_config_parts.h"
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
  LOCKSTEP_RETURN_IF_ERROR(ReadNumbers(reader, {{"beta_fast", &rope->yarn_beta_fast, false},
                                                {"beta_slow", &rope->yarn_beta_slow, false}}));
  LOCKSTEP_ASSIGN_OR_RETURN(rope->yarn_attention_factor, reader.Number("attention_factor"));
  LOCKSTEP_ASSIGN_OR_RETURN(rope->yarn_mscale, ReadNonzero(reader, "mscale"));
  LOCKSTEP_ASSIGN_OR_RETURN(rope->yarn_mscale_all_dim, ReadNonzero(reader, "mscale_all_dim"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<bool> truncate, reader.Bool("truncate"));
  rope->yarn_truncate = truncate.value_or(true);
  reader.Find("finetuned");  // says that the weights were trained with it; changes nothing
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

absl::Status ReadScaling(JsonObjectReader& reader, uint32_t max_context_tokens, RopeConfig* rope) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string type, ReadType(reader));
  if (type == "llama3" || type == "yarn") {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint32_t> original,
                              ReadUint32(reader, "original_max_position_embeddings"));
    rope->original_max_positions = original.value_or(max_context_tokens);
    if (rope->original_max_positions == 0) {
      return InvalidArgument("{} is 0", reader.Where("original_max_position_embeddings"));
    }
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
  LOCKSTEP_RETURN_IF_ERROR(CheckNeutralKeys(reader, {{{"partial_rotary_factor", "1"}}}));
  for (const std::string& key : reader.UnreadKeys()) {
    const Json* value = reader.Find(key);
    if (value == nullptr) continue;
    return InvalidArgument("{} is {}: this key is not known for rope_type {}", reader.Where(key),
                           DescribeJson(*value), type);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RopeConfig> ReadRopeConfig(JsonObjectReader& reader, const std::string& file_name,
                                          uint32_t max_context_tokens) {
  RopeConfig rope;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> theta, reader.Number("rope_theta"));
  const Json* scaling = reader.Find("rope_scaling");        // transformers 4
  const Json* parameters = reader.Find("rope_parameters");  // transformers 5: the base as well
  if (scaling != nullptr && parameters != nullptr && *scaling != *parameters) {
    return InvalidArgument("{} and rope_parameters are both given and differ",
                           reader.Where("rope_scaling"));
  }
  const std::string_view key = parameters != nullptr ? "rope_parameters" : "rope_scaling";
  const Json* object = parameters != nullptr ? parameters : scaling;
  if (theta) rope.theta = *theta;
  if (object == nullptr) return rope;
  if (!object->is_object()) {
    return InvalidArgument("{} is {}, expected an object", reader.Where(key),
                           DescribeJson(*object));
  }
  JsonObjectReader members(*object, file_name, std::string(key));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> inner_theta, members.Number("rope_theta"));
  if (theta && inner_theta && *theta != *inner_theta) {
    return InvalidArgument("{} is {}, but the top level has {}", members.Where("rope_theta"),
                           *inner_theta, *theta);
  }
  if (inner_theta) rope.theta = *inner_theta;
  LOCKSTEP_RETURN_IF_ERROR(ReadScaling(members, max_context_tokens, &rope));
  return rope;
}

}  // namespace lockstep
