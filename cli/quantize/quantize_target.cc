#include "cli/quantize/quantize_target.h"

#include <nlohmann/json.hpp>

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr QuantizeTarget kTargets[] = {
    {"fp8",
     {.format = WeightFormat::kFloatQuantized,
      .bits = 8,
      .extent = ScaleExtent::kChannel,
      .activations = ActivationScheme::kDynamic}},
    {"fp8-block",
     {.format = WeightFormat::kFp8Block,
      .bits = 8,
      .extent = ScaleExtent::kBlock,
      .block_rows = 128,
      .block_columns = 128,
      .activations = ActivationScheme::kDynamic}},
    {"w4a16", {.format = WeightFormat::kPackQuantized, .bits = 4}},
    {"w4a16-asym", {.format = WeightFormat::kPackQuantized, .bits = 4, .symmetric = false}},
    {"w8a16", {.format = WeightFormat::kPackQuantized, .bits = 8, .extent = ScaleExtent::kChannel}},
};

Json BlockConfig(const WeightScheme& scheme, const std::vector<std::string>& ignored) {
  return {{"quant_method", "fp8"},
          {"fmt", "e4m3"},
          {"activation_scheme", "dynamic"},
          {"weight_block_size", {scheme.block_rows, scheme.block_columns}},
          {"modules_to_not_convert", ignored}};
}

Json CompressedConfig(const WeightScheme& scheme, const std::vector<std::string>& ignored) {
  const bool is_float = scheme.format == WeightFormat::kFloatQuantized;
  Json weights = {{"num_bits", scheme.bits},
                  {"type", is_float ? "float" : "int"},
                  {"symmetric", scheme.symmetric},
                  {"strategy", scheme.extent == ScaleExtent::kGroup ? "group" : "channel"},
                  {"dynamic", false}};
  if (scheme.extent == ScaleExtent::kGroup) weights["group_size"] = scheme.group_size;
  Json activations = nullptr;
  if (is_float) {
    activations = {{"num_bits", 8},
                   {"type", "float"},
                   {"symmetric", true},
                   {"strategy", "token"},
                   {"dynamic", true}};
  }
  return {{"quant_method", "compressed-tensors"},
          {"format", WeightFormatName(scheme.format)},
          {"quantization_status", "compressed"},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}},
              {"weights", weights},
              {"input_activations", activations},
              {"output_activations", nullptr}}}}},
          {"ignore", ignored}};
}

}  // namespace

std::vector<std::string_view> QuantizeTargetNames() {
  std::vector<std::string_view> names;
  for (const QuantizeTarget& target : kTargets) names.push_back(target.name);
  return names;
}

const QuantizeTarget* FindQuantizeTarget(std::string_view name) {
  for (const QuantizeTarget& target : kTargets) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

std::string WithQuantizationConfig(std::string_view config_json, const WeightScheme& scheme,
                                   const std::vector<std::string>& ignored) {
  Json config = Json::parse(config_json);
  config["quantization_config"] = scheme.format == WeightFormat::kFp8Block
                                      ? BlockConfig(scheme, ignored)
                                      : CompressedConfig(scheme, ignored);
  return config.dump(2) + "\n";
}

}  // namespace lockstep::cli
