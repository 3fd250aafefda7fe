#include <absl/strings/ascii.h>

#include <algorithm>
#include <utility>

#include "common/model_files/quantization/quantization_methods.h"
#include "common/status.h"

// quantization_config of GPTQ (AutoGPTQ, GPTQModel, Optimum, AutoRound) and AWQ (AutoAWQ,
// GPTQModel). Both quantise the linear modules of the layers and leave the rest of the model
// unchanged.
namespace lockstep {
namespace {

using Json = nlohmann::json;

// How the codes were computed, and settings of other programs.
constexpr std::string_view kToolKeys[] = {
    "act_group_aware",
    "amp",
    "autoround_version",
    "backend",
    "batch_size",
    "block_name_to_quantize",
    "cache_block_outputs",
    "damp_auto_increment",
    "damp_percent",
    "dataset",
    "disable_exllama",
    "do_fuse",
    "enable_minmax_tuning",
    "enable_quanted_input",
    "exllama_config",
    "foem",
    "fuse_max_seq_len",
    "gptaq",
    "gradient_accumulate_steps",
    "hyb_act",
    "iters",
    "low_gpu_mem_usage",
    "lr",
    "max_input_length",
    "meta",
    "minmax_lr",
    "model_file_base_name",
    "model_name_or_path",
    "model_seqlen",
    "module_name_preceding_first_block",
    "modules_to_fuse",
    "mse",
    "nsamples",
    "offload_to_disk",
    "offload_to_disk_path",
    "pad_token_id",
    "parallel_packing",
    "provider",
    "quant_method",
    "quantizer",
    "scale_dtype",
    "seqlen",
    "static_groups",
    "tokenizer",
    "train_bs",
    "true_sequential",
    "uri",
    "use_cuda_fp16",
    "use_exllama",
    "v2",
};

// A module of a layer has the layer's number in its name.
constexpr std::string_view kInLayer = ".*\\.\\d+\\.";

absl::StatusOr<uint32_t> ReadBits(JsonObjectReader& reader, std::span<const uint32_t> allowed) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint64_t> bits, reader.Uint("bits"));
  if (bits && std::find(allowed.begin(), allowed.end(), *bits) != allowed.end()) {
    return static_cast<uint32_t>(*bits);
  }
  return InvalidArgument("{} is {}, expected {}{}", reader.Where("bits"),
                         bits ? std::to_string(*bits) : "missing", allowed.front(),
                         allowed.size() > 1 ? fmt::format(" or {}", allowed.back()) : "");
}

absl::Status ReadColumnGroups(JsonObjectReader& reader, WeightScheme* scheme) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint32_t> group_size,
                            ReadGroupSize(reader, "group_size"));
  if (!group_size) return InvalidArgument("{} is missing", reader.Where("group_size"));
  scheme->group_size = *group_size;
  scheme->extent = *group_size == 0 ? ScaleExtent::kChannel : ScaleExtent::kGroup;
  return absl::OkStatus();
}

// Escapes a name for use in a regular expression.
absl::StatusOr<std::string> QuotedName(const std::string& name, const std::string& where) {
  const bool is_plain = std::all_of(name.begin(), name.end(), [](unsigned char character) {
    return absl::ascii_isalnum(character) || character == '_' || character == '.';
  });
  if (!is_plain) {
    return InvalidArgument("{}: {} is not the name of a module", where, DescribeJson(name));
  }
  return "\\Q" + name + "\\E";
}

// An alternative for modules_in_block_to_quantize: [["self_attn.q_proj", "self_attn.k_proj"], ...].
absl::StatusOr<std::string> ReadModulesInBlock(JsonObjectReader& reader) {
  constexpr std::string_view kKey = "modules_in_block_to_quantize";
  const Json* lists = reader.Find(kKey);
  if (lists == nullptr) return std::string();
  std::string alternatives;
  const Json all = lists->is_array() ? *lists : Json::array({*lists});
  for (const Json& list : all) {
    for (const Json& name : list.is_array() ? list : Json::array({list})) {
      if (!name.is_string()) {
        return InvalidArgument("{} is {}, expected lists of names", reader.Where(kKey),
                               DescribeJson(*lists));
      }
      LOCKSTEP_ASSIGN_OR_RETURN(const std::string quoted,
                                QuotedName(name.get<std::string>(), reader.Where(kKey)));
      alternatives += (alternatives.empty() ? "" : "|") + quoted;
    }
  }
  return alternatives.empty() ? "" : "(?:" + alternatives + ")$";
}

// Modules outside of layers have no codes. lm_head has some if the file says so.
absl::StatusOr<QuantizationConfig::Rule> ReadOutsideOfLayers(JsonObjectReader& reader) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<bool> has_head, reader.Bool("lm_head"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string in_block, ReadModulesInBlock(reader));
  std::string quantized = std::string(kInLayer) + in_block;
  if (has_head.value_or(false)) quantized += "|" + std::string(kHeadExpression);
  QuantizationConfig::Rule rule;
  rule.patterns.push_back(KnownRegex("(?!" + quantized + ")"));
  return rule;
}

// Reads checkpoint_format, which newer files call format: v1 stores zero points - 1.
absl::StatusOr<bool> StoresZerosMinusOne(JsonObjectReader& reader) {
  constexpr std::string_view kFormats[] = {"gptq", "gptq_v2"};
  LOCKSTEP_ASSIGN_OR_RETURN(const auto named, ReadOneOf(reader, "checkpoint_format", kFormats));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto format, ReadOneOf(reader, "format", kFormats));
  if (named && format && named != format) {
    return InvalidArgument("{} is \"{}\", but format is \"{}\"", reader.Where("checkpoint_format"),
                           *named, *format);
  }
  return named.value_or(format.value_or("gptq")) == "gptq";
}

constexpr uint32_t kGptqBits[] = {4, 8};

// Absent members stay as they are in `scheme`.
absl::Status ReadSymmetryAndOrder(JsonObjectReader& reader, WeightScheme* scheme) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<bool> symmetric, reader.Bool("sym"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<bool> act_order, reader.Bool("desc_act"));
  scheme->symmetric = symmetric.value_or(scheme->symmetric);
  scheme->act_order = act_order.value_or(scheme->act_order);
  return absl::OkStatus();
}

// The modules without codes.
absl::StatusOr<QuantizationRules> ReadExceptions(JsonObjectReader& reader) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto outside, ReadOutsideOfLayers(reader));
  LOCKSTEP_ASSIGN_OR_RETURN(auto not_converted, ReadNotConverted(reader, "modules_to_not_convert"));
  return QuantizationRules{std::move(outside), std::move(not_converted)};
}

// Reads the members of an entry of `dynamic`. Absent ones stay as they are in `scheme`.
absl::Status ReadOverride(const Json& object, const std::string& file, const std::string& path,
                          WeightScheme* scheme) {
  if (!object.is_object()) {
    return InvalidArgument("{}: {} is {}, expected an object", file, path, DescribeJson(object));
  }
  JsonObjectReader reader(object, file, path);
  if (reader.Find("bits") != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(scheme->bits, ReadBits(reader, kGptqBits));
  }
  if (reader.Find("group_size") != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(ReadColumnGroups(reader, scheme));
  }
  LOCKSTEP_RETURN_IF_ERROR(ReadSymmetryAndOrder(reader, scheme));
  SkipHarmless(reader, kToolKeys);
  return RefuseUnreadKeys(reader);
}

// GPTQModel's `dynamic`: regular expressions in the order of the file; the first match decides.
// "-:" in front leaves the module unquantised.
absl::Status ReadDynamic(JsonObjectReader& reader, const QuantizationObject& config,
                         const WeightScheme& scheme, QuantizationRules* rules) {
  const Json* dynamic = reader.Find("dynamic");
  if (dynamic == nullptr || *dynamic == false) return absl::OkStatus();
  if (!dynamic->is_object()) {
    return InvalidArgument("{} is {}, expected an object", reader.Where("dynamic"),
                           DescribeJson(*dynamic));
  }
  // ParseJson sorts keys. The text was checked when the whole file was parsed.
  const auto ordered = nlohmann::ordered_json::parse(config.text);
  for (const auto& [key, unused] : ordered.at("dynamic").items()) {
    const bool has_prefix = key.starts_with("-:") || key.starts_with("+:");
    absl::StatusOr<ModulePattern> pattern = ModulePattern::Regex(has_prefix ? key.substr(2) : key);
    if (!pattern.ok()) {
      return InvalidArgument("{}: {} is not a regular expression: {}", reader.Where("dynamic"),
                             DescribeJson(key), Message(pattern.status()));
    }
    QuantizationConfig::Rule rule{.patterns = {*std::move(pattern)}, .scheme = std::nullopt};
    if (!key.starts_with("-:")) {
      rule.scheme = scheme;
      const std::string path =
          fmt::format("{}{}dynamic.{}", config.path, config.path.empty() ? "" : ".", key);
      LOCKSTEP_RETURN_IF_ERROR(ReadOverride(dynamic->at(key), config.file, path, &*rule.scheme));
    }
    rules->push_back(std::move(rule));
  }
  return absl::OkStatus();
}

absl::Status CheckCommonKeys(JsonObjectReader& reader) {
  constexpr std::string_view kPackTypes[] = {"int32"};
  constexpr std::string_view kDataTypes[] = {"int"};
  LOCKSTEP_RETURN_IF_ERROR(ReadOneOf(reader, "pack_dtype", kPackTypes).status());
  LOCKSTEP_RETURN_IF_ERROR(ReadOneOf(reader, "data_type", kDataTypes).status());
  LOCKSTEP_RETURN_IF_ERROR(ExpectBool(reader, "is_marlin_format", false));
  LOCKSTEP_RETURN_IF_ERROR(ExpectBool(reader, "planar", false));
  LOCKSTEP_RETURN_IF_ERROR(ExpectEmpty(reader, "adapter"));
  LOCKSTEP_RETURN_IF_ERROR(ExpectEmpty(reader, "rotation"));
  SkipHarmless(reader, kToolKeys);
  return RefuseUnreadKeys(reader);
}

}  // namespace

absl::StatusOr<ParsedMethod> ParseGptq(const QuantizationObject& config) {
  JsonObjectReader reader(config.object, config.file, config.path);
  WeightScheme scheme{.format = WeightFormat::kGptq};
  LOCKSTEP_ASSIGN_OR_RETURN(scheme.bits, ReadBits(reader, kGptqBits));
  LOCKSTEP_RETURN_IF_ERROR(ReadColumnGroups(reader, &scheme));
  LOCKSTEP_RETURN_IF_ERROR(ReadSymmetryAndOrder(reader, &scheme));
  LOCKSTEP_ASSIGN_OR_RETURN(scheme.zeros_minus_one, StoresZerosMinusOne(reader));
  constexpr std::string_view kMethodNames[] = {"gptq"};
  LOCKSTEP_RETURN_IF_ERROR(ReadOneOf(reader, "method", kMethodNames).status());
  ParsedMethod parsed;
  LOCKSTEP_ASSIGN_OR_RETURN(parsed.rules, ReadExceptions(reader));
  LOCKSTEP_RETURN_IF_ERROR(ReadDynamic(reader, config, scheme, &parsed.rules));
  AddSchemeForTheRest(scheme, &parsed.rules);
  LOCKSTEP_RETURN_IF_ERROR(CheckCommonKeys(reader));
  return parsed;
}

absl::StatusOr<ParsedMethod> ParseAwq(const QuantizationObject& config) {
  JsonObjectReader reader(config.object, config.file, config.path);
  constexpr uint32_t kBits[] = {4};
  constexpr std::string_view kGemm[] = {"gemm"};
  constexpr std::string_view kMethodNames[] = {"awq"};
  WeightScheme scheme{.format = WeightFormat::kAwq, .symmetric = false};
  LOCKSTEP_ASSIGN_OR_RETURN(scheme.bits, ReadBits(reader, kBits));
  LOCKSTEP_RETURN_IF_ERROR(ReadColumnGroups(reader, &scheme));
  for (const std::string_view key : {"version", "format", "checkpoint_format"}) {
    LOCKSTEP_RETURN_IF_ERROR(ReadOneOf(reader, key, kGemm).status());
  }
  LOCKSTEP_RETURN_IF_ERROR(ReadOneOf(reader, "method", kMethodNames).status());
  LOCKSTEP_RETURN_IF_ERROR(ExpectBool(reader, "zero_point", true));
  LOCKSTEP_RETURN_IF_ERROR(ExpectBool(reader, "desc_act", false));
  LOCKSTEP_RETURN_IF_ERROR(reader.Bool("sym").status());  // qzeros holds zero points in any case
  LOCKSTEP_RETURN_IF_ERROR(ExpectEmpty(reader, "dynamic"));
  ParsedMethod parsed;
  LOCKSTEP_ASSIGN_OR_RETURN(parsed.rules, ReadExceptions(reader));
  AddSchemeForTheRest(scheme, &parsed.rules);
  LOCKSTEP_RETURN_IF_ERROR(CheckCommonKeys(reader));
  return parsed;
}

}  // namespace lockstep
