#include <absl/strings/ascii.h>

#include <algorithm>
#include <map>
#include <utility>

#include "common/model_files/quantization/quantization_methods.h"
#include "common/status.h"

// quantization_config of compressed-tensors (github.com/vllm-project/compressed-tensors): groups of
// modules, each with arguments for weights and activations.
namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kCompressionFormats[] = {
    "pack-quantized",       "int-quantized",        "float-quantized", "naive-quantized",
    "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mixed-precision"};
constexpr std::string_view kStrategies[] = {"tensor", "channel", "group", "block", "tensor_group"};
constexpr std::string_view kActivationStrategies[] = {"tensor", "token", "group", "tensor_group"};
// How the scales were computed, and their type before they were stored.
constexpr std::string_view kOriginArguments[] = {"observer", "observer_kwargs", "scale_dtype",
                                                 "zp_dtype"};
constexpr std::string_view kOtherTopKeys[] = {"quant_method",   "global_compression_ratio",
                                              "version",        "dequantize",
                                              "run_compressed", "use_optimized_inference"};

// QuantizationArgs of one tensor kind.
struct Arguments {
  uint32_t bits = 8;
  bool is_float = false;
  bool symmetric = true;
  bool dynamic = false;
  std::string strategy;
  uint32_t group_size = 0;
  BlockSize block = {0, 0};
};

// dynamic: true, false or "local".
absl::StatusOr<bool> ReadIsDynamic(JsonObjectReader& reader) {
  const Json* value = reader.Find("dynamic");
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  if (*value == "local") return true;
  return InvalidArgument("{} is {}, expected true, false or \"local\"", reader.Where("dynamic"),
                         DescribeJson(*value));
}

std::string InferredStrategy(std::optional<uint32_t> group_size) {
  if (!group_size) return "tensor";
  return *group_size == 0 ? "channel" : "group";
}

absl::StatusOr<Arguments> ReadArguments(const Json& object, const std::string& file,
                                        const std::string& path,
                                        std::span<const std::string_view> strategies) {
  if (!object.is_object()) {
    return InvalidArgument("{}: {} is {}, expected an object", file, path, DescribeJson(object));
  }
  JsonObjectReader reader(object, file, path);
  Arguments arguments;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint64_t> bits, reader.Uint("num_bits"));
  if (bits.value_or(8) != 4 && bits.value_or(8) != 8) {
    return InvalidArgument("{} is {}, expected 4 or 8", reader.Where("num_bits"), *bits);
  }
  arguments.bits = static_cast<uint32_t>(bits.value_or(8));
  constexpr std::string_view kTypes[] = {"int", "float"};
  LOCKSTEP_ASSIGN_OR_RETURN(const auto type, ReadOneOf(reader, "type", kTypes));
  arguments.is_float = type == "float";
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<bool> symmetric, reader.Bool("symmetric"));
  arguments.symmetric = symmetric.value_or(true);
  LOCKSTEP_ASSIGN_OR_RETURN(arguments.dynamic, ReadIsDynamic(reader));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint32_t> group_size,
                            ReadGroupSize(reader, "group_size"));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto strategy, ReadOneOf(reader, "strategy", strategies));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<BlockSize> block,
                            ReadBlockSize(reader, "block_structure"));
  arguments.strategy = strategy.value_or(InferredStrategy(group_size));
  arguments.group_size = group_size.value_or(0);
  const bool is_group = arguments.strategy == "group" || arguments.strategy == "tensor_group";
  if (is_group != (arguments.group_size > 0)) {
    return InvalidArgument("{} is {}, but {} is \"{}\"", reader.Where("group_size"),
                           group_size ? std::to_string(arguments.group_size) : "missing",
                           "strategy", arguments.strategy);
  }
  if ((arguments.strategy == "block") != block.has_value()) {
    return InvalidArgument("{} is {}, but strategy is \"{}\"", reader.Where("block_structure"),
                           block ? "given" : "missing", arguments.strategy);
  }
  arguments.block = block.value_or(BlockSize{0, 0});
  // The order of quantising the columns. For the layout, weight_g_idx tells all about it.
  reader.Find("actorder");
  SkipHarmless(reader, kOriginArguments);
  LOCKSTEP_RETURN_IF_ERROR(RefuseUnreadKeys(reader));
  return arguments;
}

struct FormatRow {
  std::string_view name;  // in the file
  bool is_float;
  std::span<const uint32_t> bits;
  std::span<const std::string_view> strategies;
  uint32_t group_size;  // 0: any
  WeightFormat format;
};

constexpr uint32_t kFourOrEight[] = {4, 8};
constexpr uint32_t kOnlyEight[] = {8};
constexpr uint32_t kOnlyFour[] = {4};
constexpr std::string_view kNotBlock[] = {"tensor", "channel", "group"};
constexpr std::string_view kAnyExtent[] = {"tensor", "channel", "group", "block"};
constexpr std::string_view kTensorGroup[] = {"tensor_group"};
constexpr std::string_view kOnlyGroup[] = {"group"};
constexpr FormatRow kFormatRows[] = {
    {"pack-quantized", false, kFourOrEight, kNotBlock, 0, WeightFormat::kPackQuantized},
    {"int-quantized", false, kOnlyEight, kNotBlock, 0, WeightFormat::kIntQuantized},
    {"naive-quantized", false, kOnlyEight, kNotBlock, 0, WeightFormat::kIntQuantized},
    {"float-quantized", true, kOnlyEight, kAnyExtent, 0, WeightFormat::kFloatQuantized},
    {"naive-quantized", true, kOnlyEight, kAnyExtent, 0, WeightFormat::kFloatQuantized},
    {"nvfp4-pack-quantized", true, kOnlyFour, kTensorGroup, 16, WeightFormat::kNvfp4},
    {"mxfp4-pack-quantized", true, kOnlyFour, kOnlyGroup, 32, WeightFormat::kMxfp4Packed},
};

template <typename T>
bool Holds(std::span<const T> values, const T& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

ScaleExtent ExtentOf(const std::string& strategy) {
  if (strategy == "tensor") return ScaleExtent::kTensor;
  if (strategy == "channel") return ScaleExtent::kChannel;
  if (strategy == "block") return ScaleExtent::kBlock;
  return ScaleExtent::kGroup;
}

absl::StatusOr<WeightScheme> MakeScheme(const Arguments& weights, const std::string& format,
                                        const std::string& where) {
  for (const FormatRow& row : kFormatRows) {
    const bool fits = row.name == format && row.is_float == weights.is_float &&
                      Holds(row.bits, weights.bits) &&
                      Holds(row.strategies, std::string_view(weights.strategy)) &&
                      (row.group_size == 0 || row.group_size == weights.group_size) &&
                      (weights.symmetric || !weights.is_float) && !weights.dynamic;
    if (!fits) continue;
    return WeightScheme{.format = row.format,
                        .bits = weights.bits,
                        .symmetric = weights.symmetric,
                        .extent = ExtentOf(weights.strategy),
                        .group_size = weights.group_size,
                        .block_rows = weights.block.rows,
                        .block_columns = weights.block.columns};
  }
  return InvalidArgument("{}: {} bits, type {}, {}, strategy {}{}{} is not supported in format {}",
                         where, weights.bits, weights.is_float ? "float" : "int",
                         weights.symmetric ? "symmetric" : "asymmetric", weights.strategy,
                         weights.group_size > 0 ? fmt::format(" {}", weights.group_size) : "",
                         weights.dynamic ? ", dynamic" : "", format);
}

// One entry of config_groups.
struct TargetGroup {
  std::vector<std::string> targets;
  std::optional<WeightScheme> scheme;  // none: its weights are not quantised
};

absl::StatusOr<TargetGroup> ReadGroup(const Json& object, const std::string& file,
                                      const std::string& path, const std::string& common_format) {
  if (!object.is_object()) {
    return InvalidArgument("{}: {} is {}, expected an object", file, path, DescribeJson(object));
  }
  JsonObjectReader reader(object, file, path);
  TargetGroup group;
  LOCKSTEP_ASSIGN_OR_RETURN(group.targets, ReadNames(reader, "targets"));
  if (group.targets.empty()) {
    return InvalidArgument("{} is missing or empty, expected a list of names",
                           reader.Where("targets"));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto own_format,
                            ReadOneOf(reader, "format", kCompressionFormats));
  LOCKSTEP_RETURN_IF_ERROR(ExpectEmpty(reader, "output_activations"));
  ActivationScheme activations = ActivationScheme::kUnquantized;
  if (const Json* inputs = reader.Find("input_activations")) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        const Arguments arguments,
        ReadArguments(*inputs, file, path + ".input_activations", kActivationStrategies));
    activations = arguments.dynamic ? ActivationScheme::kDynamic : ActivationScheme::kStatic;
  }
  if (const Json* value = reader.Find("weights")) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Arguments weights,
                              ReadArguments(*value, file, path + ".weights", kStrategies));
    const std::string format = own_format.value_or(common_format);
    LOCKSTEP_ASSIGN_OR_RETURN(group.scheme, MakeScheme(weights, format, reader.Where("weights")));
    group.scheme->activations = activations;
  }
  LOCKSTEP_RETURN_IF_ERROR(RefuseUnreadKeys(reader));
  return group;
}

bool IsClassName(const std::string& target) {
  return absl::ascii_isupper(static_cast<unsigned char>(target.front())) &&
         target.find('.') == std::string::npos;
}

// Names come before regular expressions, these in alphabetical order, and classes are last.
int Rank(const std::string& target) {
  if (target.starts_with("re:")) return 1;
  return IsClassName(target) ? 2 : 0;
}

absl::StatusOr<ModulePattern> PatternOf(const std::string& target, const std::string& where) {
  if (target == "Linear") return ModulePattern::Everything();
  absl::StatusOr<ModulePattern> pattern = ModulePattern::CompressedTensors(target);
  if (pattern.ok()) return pattern;
  return InvalidArgument("{}: {} is not a regular expression: {}", where, DescribeJson(target),
                         Message(pattern.status()));
}

absl::StatusOr<QuantizationRules> ReadTargetGroups(JsonObjectReader& reader,
                                                   const QuantizationObject& config,
                                                   const std::string& format) {
  const Json* groups = reader.Find("config_groups");
  if (groups == nullptr || !groups->is_object() || groups->empty()) {
    return InvalidArgument("{} is {}, expected an object of groups", reader.Where("config_groups"),
                           groups == nullptr ? "missing" : DescribeJson(*groups));
  }
  std::map<std::pair<int, std::string>, std::optional<WeightScheme>> schemes;
  const std::string where = reader.Where("config_groups");
  for (const auto& [name, object] : groups->items()) {
    const std::string path = fmt::format("{}.config_groups.{}", config.path, name);
    LOCKSTEP_ASSIGN_OR_RETURN(const TargetGroup group,
                              ReadGroup(object, config.file, path, format));
    for (const std::string& target : group.targets) {
      if (IsClassName(target) && target != "Linear") {
        return InvalidArgument("{}.{}.targets has {}, expected \"Linear\" or names of modules",
                               where, name, DescribeJson(target));
      }
      if (!schemes.try_emplace({Rank(target), target}, group.scheme).second) {
        return InvalidArgument("{}: target {} is in two groups", where, DescribeJson(target));
      }
    }
  }
  QuantizationRules rules;
  for (const auto& [target, scheme] : schemes) {
    LOCKSTEP_ASSIGN_OR_RETURN(ModulePattern pattern, PatternOf(target.second, where));
    rules.push_back({.patterns = {std::move(pattern)}, .scheme = scheme});
  }
  return rules;
}

absl::Status CheckNoSparsity(JsonObjectReader& reader) {
  const Json* sparsity = reader.Find("sparsity_config");
  if (sparsity == nullptr) return absl::OkStatus();
  const bool is_dense =
      sparsity->is_object() && (sparsity->empty() || sparsity->value("format", Json()) == "dense");
  if (is_dense) return absl::OkStatus();
  return InvalidArgument("{} is {}, which is not supported; expected nothing or format \"dense\"",
                         reader.Where("sparsity_config"), DescribeJson(*sparsity));
}

}  // namespace

absl::StatusOr<ParsedMethod> ParseCompressedTensors(const QuantizationObject& config) {
  JsonObjectReader reader(config.object, config.file, config.path);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto format, ReadOneOf(reader, "format", kCompressionFormats));
  if (!format) return InvalidArgument("{} is missing", reader.Where("format"));
  constexpr std::string_view kStatuses[] = {"compressed", "frozen"};
  LOCKSTEP_RETURN_IF_ERROR(ReadOneOf(reader, "quantization_status", kStatuses).status());
  ParsedMethod parsed;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::string> ignored, ReadNames(reader, "ignore"));
  QuantizationConfig::Rule ignore;
  for (const std::string& name : ignored) {
    LOCKSTEP_ASSIGN_OR_RETURN(ModulePattern pattern, PatternOf(name, reader.Where("ignore")));
    ignore.patterns.push_back(std::move(pattern));
  }
  parsed.rules.push_back(std::move(ignore));
  LOCKSTEP_ASSIGN_OR_RETURN(QuantizationRules groups, ReadTargetGroups(reader, config, *format));
  std::move(groups.begin(), groups.end(), std::back_inserter(parsed.rules));
  if (const Json* scheme = reader.Find("kv_cache_scheme")) {
    constexpr std::string_view kKvStrategies[] = {"tensor", "token", "group", "attn_head"};
    LOCKSTEP_ASSIGN_OR_RETURN(
        const Arguments arguments,
        ReadArguments(*scheme, config.file, config.path + ".kv_cache_scheme", kKvStrategies));
    parsed.kv_cache = KvCacheScheme{
        .bits = arguments.bits, .is_float = arguments.is_float, .dynamic = arguments.dynamic};
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckNoSparsity(reader));
  LOCKSTEP_RETURN_IF_ERROR(ExpectEmpty(reader, "transform_config"));
  LOCKSTEP_RETURN_IF_ERROR(ExpectEmpty(reader, "moe_sparsity_config"));
  SkipHarmless(reader, kOtherTopKeys);
  LOCKSTEP_RETURN_IF_ERROR(RefuseUnreadKeys(reader));
  return parsed;
}

}  // namespace lockstep
