#include <utility>

#include "common/model_files/quantization/quantization_methods.h"
#include "common/status.h"

// quantization_config of "fp8" (DeepSeek, Qwen, AutoFP8), of NVIDIA's ModelOpt, and of "mxfp4"
// (gpt-oss).
namespace lockstep {
namespace {

using Json = nlohmann::json;

// With these methods no tool quantises the logits' matrix.
QuantizationConfig::Rule HeadRule() {
  QuantizationConfig::Rule rule;
  rule.patterns.push_back(KnownRegex(std::string(kHeadExpression)));
  return rule;
}

absl::StatusOr<ActivationScheme> ReadActivationScheme(JsonObjectReader& reader) {
  constexpr std::string_view kSchemes[] = {"dynamic", "static"};
  LOCKSTEP_ASSIGN_OR_RETURN(const auto scheme, ReadOneOf(reader, "activation_scheme", kSchemes));
  return scheme == "static" ? ActivationScheme::kStatic : ActivationScheme::kDynamic;
}

// ModelOpt writes the arguments of compressed-tensors here.
absl::StatusOr<std::optional<KvCacheScheme>> ReadKvCache(JsonObjectReader& reader) {
  const Json* scheme = reader.Find("kv_cache_scheme");
  constexpr std::string_view kCacheTypes[] = {"fp8"};
  LOCKSTEP_ASSIGN_OR_RETURN(const auto algorithm,
                            ReadOneOf(reader, "kv_cache_quant_algo", kCacheTypes));
  if (scheme == nullptr && !algorithm) return std::optional<KvCacheScheme>();
  if (scheme != nullptr) {
    const bool is_fp8 = scheme->is_object() && scheme->value("num_bits", Json()) == 8 &&
                        scheme->value("type", Json()) == "float" &&
                        scheme->value("dynamic", Json(false)) == false;
    if (!is_fp8 && *scheme != "static") {
      return InvalidArgument("{} is {}, expected static scales for 8-bit floats",
                             reader.Where("kv_cache_scheme"), DescribeJson(*scheme));
    }
  }
  return std::optional(KvCacheScheme{.bits = 8, .is_float = true, .dynamic = false});
}

struct ModelOptAlgorithm {
  std::string_view name;  // in lower case
  WeightScheme scheme;
};

constexpr ModelOptAlgorithm kModelOptAlgorithms[] = {
    {"fp8",
     {.format = WeightFormat::kFloatQuantized,
      .bits = 8,
      .extent = ScaleExtent::kTensor,
      .activations = ActivationScheme::kStatic}},
    {"fp8_per_channel_per_token",
     {.format = WeightFormat::kFloatQuantized,
      .bits = 8,
      .extent = ScaleExtent::kChannel,
      .activations = ActivationScheme::kDynamic}},
    {"nvfp4",
     {.format = WeightFormat::kNvfp4ModelOpt,
      .bits = 4,
      .extent = ScaleExtent::kGroup,
      .group_size = 16,
      .activations = ActivationScheme::kStatic}},
    {"w4a16_nvfp4",
     {.format = WeightFormat::kNvfp4ModelOpt,
      .bits = 4,
      .extent = ScaleExtent::kGroup,
      .group_size = 16}},
};

absl::StatusOr<WeightScheme> ReadAlgorithm(JsonObjectReader& reader) {
  constexpr std::string_view kNames[] = {kModelOptAlgorithms[0].name, kModelOptAlgorithms[1].name,
                                         kModelOptAlgorithms[2].name, kModelOptAlgorithms[3].name};
  LOCKSTEP_ASSIGN_OR_RETURN(const auto name, ReadOneOf(reader, "quant_algo", kNames));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint32_t> group_size,
                            ReadGroupSize(reader, "group_size"));
  for (const ModelOptAlgorithm& algorithm : kModelOptAlgorithms) {
    if (name != algorithm.name) continue;
    if (algorithm.scheme.group_size > 0 && group_size.value_or(16) != algorithm.scheme.group_size) {
      return InvalidArgument("{} is {}, expected {} for {}", reader.Where("group_size"),
                             *group_size, algorithm.scheme.group_size, *name);
    }
    return algorithm.scheme;
  }
  return InvalidArgument("{} is missing", reader.Where("quant_algo"));
}

}  // namespace

absl::StatusOr<ParsedMethod> ParseFp8(const QuantizationObject& config) {
  JsonObjectReader reader(config.object, config.file, config.path);
  constexpr std::string_view kFormats[] = {"e4m3", "float8_e4m3fn"};
  constexpr std::string_view kScaleFormats[] = {"float", "ue8m0"};  // both are stored as fp32
  constexpr std::string_view kExpertTypes[] = {"fp8"};
  LOCKSTEP_RETURN_IF_ERROR(ReadOneOf(reader, "fmt", kFormats).status());
  LOCKSTEP_RETURN_IF_ERROR(ReadOneOf(reader, "scale_fmt", kScaleFormats).status());
  LOCKSTEP_RETURN_IF_ERROR(ReadOneOf(reader, "expert_dtype", kExpertTypes).status());
  LOCKSTEP_RETURN_IF_ERROR(ExpectBool(reader, "is_checkpoint_fp8_serialized", true));
  LOCKSTEP_RETURN_IF_ERROR(ExpectEmpty(reader, "modules_to_convert"));
  WeightScheme scheme{
      .format = WeightFormat::kFloatQuantized, .bits = 8, .extent = ScaleExtent::kTensor};
  LOCKSTEP_ASSIGN_OR_RETURN(scheme.activations, ReadActivationScheme(reader));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto block, ReadBlockSize(reader, "weight_block_size"));
  if (block) {
    scheme.format = WeightFormat::kFp8Block;
    scheme.extent = ScaleExtent::kBlock;
    scheme.block_rows = block->rows;
    scheme.block_columns = block->columns;
  }
  ParsedMethod parsed;
  parsed.rules.push_back(HeadRule());
  for (const std::string_view key : {"modules_to_not_convert", "ignored_layers"}) {
    LOCKSTEP_ASSIGN_OR_RETURN(auto rule, ReadNotConverted(reader, key));
    parsed.rules.push_back(std::move(rule));
  }
  AddSchemeForTheRest(scheme, &parsed.rules);
  LOCKSTEP_ASSIGN_OR_RETURN(parsed.kv_cache, ReadKvCache(reader));
  constexpr std::string_view kHarmless[] = {"quant_method", "dequantize"};
  SkipHarmless(reader, kHarmless);
  LOCKSTEP_RETURN_IF_ERROR(RefuseUnreadKeys(reader));
  return parsed;
}

absl::StatusOr<ParsedMethod> ParseModelOpt(const QuantizationObject& config) {
  JsonObjectReader reader(config.object, config.file, config.path);
  LOCKSTEP_ASSIGN_OR_RETURN(const WeightScheme scheme, ReadAlgorithm(reader));
  LOCKSTEP_RETURN_IF_ERROR(ExpectBool(reader, "has_zero_point", false));
  LOCKSTEP_RETURN_IF_ERROR(ExpectBool(reader, "pre_quant_scale", false));
  ParsedMethod parsed;
  parsed.rules.push_back(HeadRule());
  for (const std::string_view key : {"ignore", "exclude_modules"}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ReadNames(reader, key));
    QuantizationConfig::Rule rule;
    for (const std::string& name : names) rule.patterns.push_back(ModulePattern::Wildcard(name));
    parsed.rules.push_back(std::move(rule));
  }
  AddSchemeForTheRest(scheme, &parsed.rules);
  LOCKSTEP_ASSIGN_OR_RETURN(parsed.kv_cache, ReadKvCache(reader));
  // config_groups repeats what quant_algo says.
  constexpr std::string_view kHarmless[] = {"quant_method", "producer", "config_groups"};
  SkipHarmless(reader, kHarmless);
  LOCKSTEP_RETURN_IF_ERROR(RefuseUnreadKeys(reader));
  return parsed;
}

absl::StatusOr<ParsedMethod> ParseMxfp4(const QuantizationObject& config) {
  JsonObjectReader reader(config.object, config.file, config.path);
  ParsedMethod parsed;
  parsed.rules.push_back(HeadRule());
  LOCKSTEP_ASSIGN_OR_RETURN(auto rule, ReadNotConverted(reader, "modules_to_not_convert"));
  parsed.rules.push_back(std::move(rule));
  AddSchemeForTheRest(
      {.format = WeightFormat::kMxfp4, .bits = 4, .extent = ScaleExtent::kGroup, .group_size = 32},
      &parsed.rules);
  constexpr std::string_view kHarmless[] = {"quant_method", "dequantize"};
  SkipHarmless(reader, kHarmless);
  LOCKSTEP_RETURN_IF_ERROR(RefuseUnreadKeys(reader));
  return parsed;
}

}  // namespace lockstep
