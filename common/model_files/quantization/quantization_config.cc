#include "common/model_files/quantization/quantization_config.h"

#include <array>
#include <utility>

#include "common/model_files/quantization/quantization_methods.h"
#include "common/runtime/mapped_file.h"
#include "common/status.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

struct Method {
  std::string_view name;
  absl::StatusOr<ParsedMethod> (*parse)(const QuantizationObject&);
};

constexpr Method kMethods[] = {
    {"awq", ParseAwq},           {"compressed-tensors", ParseCompressedTensors},
    {"fp8", ParseFp8},           {"gptq", ParseGptq},
    {"modelopt", ParseModelOpt}, {"mxfp4", ParseMxfp4},
};

// Files from before transformers knew compressed-tensors use the older name.
constexpr std::string_view kKeys[] = {"quantization_config", "compression_config"};

constexpr size_t kMaxQuantizationFileBytes = size_t{16} << 20;

absl::StatusOr<QuantizationConfig> ParseMethod(const QuantizationObject& config) {
  JsonObjectReader reader(config.object, config.file, config.path);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<std::string> name, reader.String("quant_method"));
  std::vector<std::string_view> known;
  for (const Method& method : kMethods) {
    if (name == method.name) {
      LOCKSTEP_ASSIGN_OR_RETURN(ParsedMethod parsed, method.parse(config));
      return QuantizationConfig(*name, std::move(parsed.rules), parsed.kv_cache);
    }
    known.push_back(method.name);
  }
  return InvalidArgument("{} is {}, expected {}", reader.Where("quant_method"),
                         name ? DescribeJson(*name) : "missing", QuotedList(known));
}

}  // namespace

std::string_view WeightFormatName(WeightFormat format) {
  switch (format) {
    case WeightFormat::kPackQuantized:
      return "pack-quantized";
    case WeightFormat::kIntQuantized:
      return "int-quantized";
    case WeightFormat::kFloatQuantized:
      return "float-quantized";
    case WeightFormat::kFp8Block:
      return "fp8-block";
    case WeightFormat::kAwq:
      return "awq";
    case WeightFormat::kGptq:
      return "gptq";
    case WeightFormat::kNvfp4:
      return "nvfp4-pack-quantized";
    case WeightFormat::kNvfp4ModelOpt:
      return "nvfp4-modelopt";
    case WeightFormat::kMxfp4:
      return "mxfp4";
    case WeightFormat::kMxfp4Packed:
      return "mxfp4-pack-quantized";
  }
  return "unknown";
}

absl::StatusOr<std::optional<WeightScheme>> QuantizationConfig::SchemeOf(
    std::string_view module) const {
  for (const Rule& rule : rules_) {
    for (const ModulePattern& pattern : rule.patterns) {
      LOCKSTEP_ASSIGN_OR_RETURN(const bool matches, pattern.Matches(module));
      if (matches) return rule.scheme;
    }
  }
  return std::optional<WeightScheme>();
}

absl::StatusOr<std::optional<QuantizationConfig>> QuantizationConfigFromJson(
    std::string_view config_json, const std::string& name) {
  for (const std::string_view key : kKeys) {
    JsonMemberText member{.key = key};
    LOCKSTEP_ASSIGN_OR_RETURN(const Json root, ParseJson(config_json, name, {}, nullptr, &member));
    if (!root.is_object()) {
      return InvalidArgument("{}: the file is {}, expected an object", name, DescribeJson(root));
    }
    const auto found = root.find(key);
    if (found == root.end() || found->is_null()) continue;
    if (!found->is_object()) {
      return InvalidArgument("{}: {} is {}, expected an object", name, key, DescribeJson(*found));
    }
    if (found->empty()) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(
        QuantizationConfig config,
        ParseMethod(
            {.object = *found, .text = member.text, .file = name, .path = std::string(key)}));
    return std::optional(std::move(config));
  }
  return std::optional<QuantizationConfig>();
}

absl::StatusOr<QuantizationConfig> QuantizationConfigFromOlderFile(std::string_view text,
                                                                   const std::string& name) {
  constexpr std::string_view kModelOptMember = "quantization";
  JsonMemberText member{.key = kModelOptMember};
  LOCKSTEP_ASSIGN_OR_RETURN(const Json root, ParseJson(text, name, {}, nullptr, &member));
  if (!root.is_object()) {
    return InvalidArgument("{}: the file is {}, expected an object", name, DescribeJson(root));
  }
  if (name.ends_with(kGptqConfigFile)) {
    LOCKSTEP_ASSIGN_OR_RETURN(ParsedMethod parsed,
                              ParseGptq({.object = root, .text = text, .file = name, .path = ""}));
    return QuantizationConfig("gptq", std::move(parsed.rules), parsed.kv_cache);
  }
  if (!name.ends_with(kModelOptConfigFile)) {
    return InvalidArgument("{} is not {} or {}", name, kModelOptConfigFile, kGptqConfigFile);
  }
  JsonObjectReader reader(root, name);
  const Json* const quantization = reader.Find(kModelOptMember);
  if (quantization == nullptr || !quantization->is_object()) {
    return InvalidArgument("{} is {}, expected an object", reader.Where(kModelOptMember),
                           quantization == nullptr ? "missing" : DescribeJson(*quantization));
  }
  reader.Find("producer");
  LOCKSTEP_RETURN_IF_ERROR(RefuseUnreadKeys(reader));
  LOCKSTEP_ASSIGN_OR_RETURN(
      ParsedMethod parsed,
      ParseModelOpt(
          {.object = *quantization, .text = member.text, .file = name, .path = "quantization"}));
  return QuantizationConfig("modelopt", std::move(parsed.rules), parsed.kv_cache);
}

absl::StatusOr<std::optional<QuantizationConfig>> LoadQuantizationConfig(
    const std::string& folder) {
  const std::string config_name = folder + "/config.json";
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string config_json,
                            ReadTextFile(config_name, kMaxQuantizationFileBytes));
  LOCKSTEP_ASSIGN_OR_RETURN(std::optional<QuantizationConfig> config,
                            QuantizationConfigFromJson(config_json, config_name));
  if (config.has_value()) return config;
  for (const std::string_view file : {kModelOptConfigFile, kGptqConfigFile}) {
    const std::string name = fmt::format("{}/{}", folder, file);
    const absl::StatusOr<std::string> text = ReadTextFile(name, kMaxQuantizationFileBytes);
    if (absl::IsNotFound(text.status())) continue;
    if (!text.ok()) return text.status();
    LOCKSTEP_ASSIGN_OR_RETURN(config, QuantizationConfigFromOlderFile(*text, name));
    return config;
  }
  return config;
}

}  // namespace lockstep
