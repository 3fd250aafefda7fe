#include "common/model_files/quantization/quantization_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

absl::StatusOr<std::optional<QuantizationConfig>> Parse(const std::string& quantization_config) {
  return QuantizationConfigFromJson(
      "{\"model_type\": \"llama\", \"quantization_config\": " + quantization_config + "}",
      "m/config.json");
}

std::optional<WeightScheme> SchemeIn(const QuantizationConfig& config, std::string_view module) {
  const absl::StatusOr<std::optional<WeightScheme>> scheme = config.SchemeOf(module);
  EXPECT_THAT(scheme, IsOk());
  return scheme.ok() ? *scheme : std::nullopt;
}

constexpr WeightScheme kW4G128 = {
    .format = WeightFormat::kPackQuantized, .bits = 4, .group_size = 128};
constexpr WeightScheme kFp8Dynamic = {.format = WeightFormat::kFloatQuantized,
                                      .bits = 8,
                                      .extent = ScaleExtent::kChannel,
                                      .activations = ActivationScheme::kDynamic};
constexpr WeightScheme kFp8Static = {.format = WeightFormat::kFloatQuantized,
                                     .bits = 8,
                                     .extent = ScaleExtent::kTensor,
                                     .activations = ActivationScheme::kStatic};
constexpr WeightScheme kFp8Blocks = {.format = WeightFormat::kFp8Block,
                                     .bits = 8,
                                     .extent = ScaleExtent::kBlock,
                                     .block_rows = 128,
                                     .block_columns = 128,
                                     .activations = ActivationScheme::kDynamic};
constexpr WeightScheme kAwq128 = {
    .format = WeightFormat::kAwq, .bits = 4, .symmetric = false, .group_size = 128};
constexpr WeightScheme kGptq128 = {.format = WeightFormat::kGptq,
                                   .bits = 4,
                                   .group_size = 128,
                                   .act_order = true,
                                   .zeros_minus_one = true};

struct Expected {
  std::string_view module;
  std::optional<WeightScheme> scheme;
};

struct GoodConfig {
  std::string_view name;
  std::string_view json;
  std::vector<Expected> modules;
  std::optional<KvCacheScheme> kv_cache = std::nullopt;
};

// As their tools write them.
const GoodConfig kGoodConfigs[] = {
    {"W4A16OfLlmCompressor",
     R"({
        "config_groups": {"group_0": {
            "format": "pack-quantized", "input_activations": null, "output_activations": null,
            "targets": ["Linear"],
            "weights": {"actorder": "static", "block_structure": null, "dynamic": false,
                        "group_size": 128, "num_bits": 4, "observer": "minmax",
                        "observer_kwargs": {}, "strategy": "group", "symmetric": true,
                        "type": "int"}}},
        "format": "pack-quantized", "global_compression_ratio": 1.5, "ignore": ["lm_head"],
        "kv_cache_scheme": null, "quant_method": "compressed-tensors",
        "quantization_status": "compressed", "sparsity_config": {}, "transform_config": {},
        "version": "0.11.0"})",
     {{"model.layers.0.mlp.down_proj", kW4G128}, {"lm_head", std::nullopt}}},
    {"Fp8DynamicOfLlmCompressor",
     R"({
        "config_groups": {"group_0": {
            "input_activations": {"dynamic": true, "num_bits": 8, "observer": null,
                                  "strategy": "token", "symmetric": true, "type": "float"},
            "targets": ["Linear"],
            "weights": {"dynamic": false, "num_bits": 8, "observer": "minmax",
                        "strategy": "channel", "symmetric": true, "type": "float"}}},
        "format": "float-quantized", "ignore": ["re:.*lm_head", "re:visual.*", "re:.*mlp.gate$"],
        "quant_method": "compressed-tensors", "quantization_status": "frozen"})",
     {{"model.layers.31.self_attn.q_proj", kFp8Dynamic},
      {"model.layers.0.mlp.gate_proj", kFp8Dynamic},
      {"model.layers.0.mlp.gate", std::nullopt},
      {"lm_head", std::nullopt},
      {"visual.blocks.0.attn.qkv", std::nullopt},
      {"model.visual.blocks.0.attn.qkv", kFp8Dynamic}}},
    {"Fp8StaticWithCacheScales",
     R"({
        "config_groups": {"group_0": {
            "input_activations": {"dynamic": false, "num_bits": 8, "strategy": "tensor",
                                  "type": "float"},
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "strategy": "tensor", "type": "float"}}},
        "format": "naive-quantized", "ignore": ["lm_head"],
        "kv_cache_scheme": {"num_bits": 8, "type": "float", "symmetric": true, "dynamic": false,
                            "strategy": "tensor", "group_size": null, "actorder": null,
                            "observer": "minmax", "observer_kwargs": {}},
        "quant_method": "compressed-tensors"})",
     {{"model.layers.0.mlp.up_proj", kFp8Static}},
     KvCacheScheme{.bits = 8, .is_float = true, .dynamic = false}},
    // The name comes before the expression, and both before the class, whatever the file's order.
    {"GroupsPerModule",
     R"({
        "config_groups": {
            "group_0": {"targets": ["Linear"],
                        "weights": {"num_bits": 4, "type": "int", "group_size": 128}},
            "group_1": {"targets": ["re:.*down_proj"], "format": "int-quantized",
                        "weights": {"num_bits": 8, "type": "int", "symmetric": false,
                                    "strategy": "channel"}},
            "group_2": {"targets": ["model.layers.1.mlp.down_proj"], "format": "float-quantized",
                        "weights": {"num_bits": 8, "type": "float", "strategy": "block",
                                    "block_structure": [128, 64]}}},
        "format": "pack-quantized", "ignore": [], "quant_method": "compressed-tensors"})",
     {{"model.layers.1.mlp.up_proj", kW4G128},
      {"model.layers.0.mlp.down_proj", WeightScheme{.format = WeightFormat::kIntQuantized,
                                                    .bits = 8,
                                                    .symmetric = false,
                                                    .extent = ScaleExtent::kChannel}},
      {"model.layers.1.mlp.down_proj", WeightScheme{.format = WeightFormat::kFloatQuantized,
                                                    .bits = 8,
                                                    .extent = ScaleExtent::kBlock,
                                                    .block_rows = 128,
                                                    .block_columns = 64}}}},
    {"OnlyNamedModules",
     R"({
        "config_groups": {"group_0": {"targets": ["re:.*self_attn\\.(q|k)_proj$"],
            "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}}},
        "format": "pack-quantized", "ignore": null, "quant_method": "compressed-tensors"})",
     {{"model.layers.0.self_attn.q_proj", kW4G128},
      {"model.layers.0.self_attn.v_proj", std::nullopt}}},
    {"Nvfp4OfLlmCompressor",
     R"({
        "config_groups": {"group_0": {
            "input_activations": {"dynamic": "local", "group_size": 16, "num_bits": 4,
                                  "strategy": "tensor_group", "type": "float"},
            "targets": ["Linear"],
            "weights": {"group_size": 16, "num_bits": 4, "strategy": "tensor_group",
                        "type": "float"}}},
        "format": "nvfp4-pack-quantized", "ignore": ["lm_head"],
        "quant_method": "compressed-tensors"})",
     {{"model.layers.0.mlp.up_proj", WeightScheme{.format = WeightFormat::kNvfp4,
                                                  .bits = 4,
                                                  .group_size = 16,
                                                  .activations = ActivationScheme::kDynamic}}}},
    {"Fp8BlocksOfQwen",
     R"({
        "activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
        "modules_to_not_convert": ["lm_head", "model.layers.0.input_layernorm",
                                   "model.layers.3.mlp.gate", "model.layers.1"],
        "weight_block_size": [128, 128]})",
     {{"model.layers.0.mlp.gate_proj", kFp8Blocks},
      {"model.layers.3.mlp.gate", std::nullopt},
      {"model.layers.3.mlp.gate_proj", kFp8Blocks},
      {"model.layers.1.mlp.up_proj", std::nullopt},
      {"model.layers.11.mlp.up_proj", kFp8Blocks},
      {"lm_head", std::nullopt}}},
    {"Fp8BlocksOfDeepSeek",
     R"({
        "activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
        "scale_fmt": "ue8m0", "weight_block_size": [128, 128]})",
     {{"model.layers.0.mlp.gate_proj", kFp8Blocks}, {"lm_head", std::nullopt}}},
    {"Fp8Static",
     R"({
        "quant_method": "fp8", "activation_scheme": "static", "weight_block_size": null,
        "ignored_layers": ["vision_tower", "lm_head"], "kv_cache_scheme": "static"})",
     {{"model.layers.0.mlp.gate_proj", kFp8Static},
      {"model.vision_tower.blocks.0.fc", std::nullopt},
      {"vision_tower.blocks.0.fc", std::nullopt}},
     KvCacheScheme{}},
    {"AwqOfAutoAwq",
     R"({
        "bits": 4, "group_size": 128, "modules_to_not_convert": null, "quant_method": "awq",
        "version": "gemm", "zero_point": true})",
     {{"model.layers.0.mlp.down_proj", kAwq128},
      {"lm_head", std::nullopt},
      {"visual.merger.mlp", std::nullopt}}},
    {"AwqWithModulesLeftOut",
     R"({
        "backend": "autoawq", "bits": 4, "do_fuse": false, "exllama_config": null,
        "fuse_max_seq_len": null, "group_size": -1, "modules_to_fuse": null,
        "modules_to_not_convert": ["visual", "mlp.gate"], "quant_method": "awq", "version": "GEMM",
        "zero_point": true})",
     {{"model.layers.0.mlp.gate_proj", WeightScheme{.format = WeightFormat::kAwq,
                                                    .bits = 4,
                                                    .symmetric = false,
                                                    .extent = ScaleExtent::kChannel}},
      {"model.layers.0.mlp.gate", std::nullopt},
      {"visual.blocks.0.attn.proj", std::nullopt},
      {"model.visual.blocks.0.attn.proj", std::nullopt}}},
    {"GptqOfAutoGptq",
     R"({
        "bits": 4, "damp_percent": 0.1, "desc_act": true, "group_size": 128,
        "model_file_base_name": "model", "model_name_or_path": null, "quant_method": "gptq",
        "sym": true, "true_sequential": true, "static_groups": false})",
     {{"model.layers.0.mlp.down_proj", kGptq128},
      {"transformer.h.3.attn.c_attn", kGptq128},
      {"lm_head", std::nullopt}}},
    {"GptqOfGptqModel",
     R"({
        "bits": 4, "checkpoint_format": "gptq_v2", "desc_act": false, "group_size": 128,
        "lm_head": true, "pack_dtype": "int32", "quant_method": "gptq", "sym": false,
        "meta": {"quantizer": ["gptqmodel:2.0.0"], "uri": "https://github.com/modelcloud"},
        "dynamic": {"-:.*\\.0\\.mlp\\.down_proj": {},
                    "+:.*down_proj": {"bits": 8, "group_size": 32, "desc_act": true},
                    ".*mlp.*": {"group_size": 64}}})",
     {{"model.layers.1.self_attn.q_proj",
       WeightScheme{
           .format = WeightFormat::kGptq, .bits = 4, .symmetric = false, .group_size = 128}},
      {"lm_head",
       WeightScheme{
           .format = WeightFormat::kGptq, .bits = 4, .symmetric = false, .group_size = 128}},
      {"model.layers.0.mlp.down_proj", std::nullopt},
      {"model.layers.1.mlp.down_proj", WeightScheme{.format = WeightFormat::kGptq,
                                                    .bits = 8,
                                                    .symmetric = false,
                                                    .group_size = 32,
                                                    .act_order = true}},
      {"model.layers.0.mlp.up_proj",
       WeightScheme{
           .format = WeightFormat::kGptq, .bits = 4, .symmetric = false, .group_size = 64}}}},
    {"GptqOfSomeModulesOfABlock",
     R"({
        "bits": 4, "desc_act": true, "group_size": 128, "quant_method": "gptq", "sym": true,
        "modules_in_block_to_quantize": [["self_attn.k_proj", "self_attn.v_proj"],
                                         ["self_attn.q_proj"]]})",
     {{"model.layers.0.self_attn.q_proj", kGptq128},
      {"model.layers.0.self_attn.o_proj", std::nullopt},
      {"self_attn.q_proj", std::nullopt}}},
    {"ModelOptFp8",
     R"({
        "quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8",
        "producer": {"name": "modelopt", "version": "0.29.0"},
        "exclude_modules": ["lm_head", "model.layers.0.self_attn*", "*router*"]})",
     {{"model.layers.1.self_attn.q_proj", kFp8Static},
      {"model.layers.0.self_attn.q_proj", std::nullopt},
      {"model.layers.4.mlp.router", std::nullopt}},
     KvCacheScheme{}},
    {"ModelOptNvfp4",
     R"({
        "quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16,
        "config_groups": {"group_0": {"targets": ["Linear"]}}, 
        "ignore": ["lm_head", "model.layers.2"],
        "kv_cache_scheme": {"dynamic": false, "num_bits": 8, "type": "float"}})",
     {{"model.layers.1.mlp.up_proj", WeightScheme{.format = WeightFormat::kNvfp4ModelOpt,
                                                  .bits = 4,
                                                  .group_size = 16,
                                                  .activations = ActivationScheme::kStatic}},
      {"model.layers.2.mlp.up_proj", std::nullopt}},
     KvCacheScheme{}},
    {"Mxfp4OfGptOss",
     R"({
        "quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                   "model.embed_tokens", "lm_head"]})",
     {{"model.layers.0.mlp.experts",
       WeightScheme{.format = WeightFormat::kMxfp4, .bits = 4, .group_size = 32}},
      {"model.layers.7.self_attn.q_proj", std::nullopt},
      {"model.layers.7.mlp.router", std::nullopt}}},
};

class QuantizationConfigTest : public ::testing::TestWithParam<GoodConfig> {};

TEST_P(QuantizationConfigTest, SaysHowEachModuleIsStored) {
  const auto config = Parse(std::string(GetParam().json));
  ASSERT_THAT(config, IsOk());
  ASSERT_TRUE(config->has_value());
  for (const Expected& expected : GetParam().modules) {
    const std::optional<WeightScheme> scheme = SchemeIn(**config, expected.module);
    ASSERT_EQ(scheme.has_value(), expected.scheme.has_value()) << expected.module;
    if (scheme) {
      EXPECT_TRUE(*scheme == *expected.scheme)
          << expected.module << ": " << WeightFormatName(scheme->format);
    }
  }
  EXPECT_TRUE((*config)->kv_cache() == GetParam().kv_cache);
}

// A key that nobody knows is refused, wherever it stands.
TEST_P(QuantizationConfigTest, RefusesAnUnknownKey) {
  Json json = Json::parse(GetParam().json);
  json["frobnicate"] = 7;
  EXPECT_THAT(Parse(json.dump()),
              HasError(kInvalid, HasSubstr("m/config.json: quantization_config.frobnicate is 7: "
                                           "this key is not known")));
}

INSTANTIATE_TEST_SUITE_P(All, QuantizationConfigTest, ::testing::ValuesIn(kGoodConfigs),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(QuantizationConfigTest, NoneWithoutIt) {
  for (const char* json :
       {"{}", R"({"quantization_config": null})", R"({"quantization_config": {}})"}) {
    const auto config = QuantizationConfigFromJson(json, "config.json");
    ASSERT_THAT(config, IsOk());
    EXPECT_FALSE(config->has_value()) << json;
  }
}

TEST(QuantizationConfigTest, ReadsTheOlderNameToo) {
  const auto config = QuantizationConfigFromJson(
      R"({"compression_config": {"quant_method": "fp8", "activation_scheme": "dynamic"}})", "c");
  ASSERT_THAT(config, IsOk());
  ASSERT_TRUE(config->has_value());
  EXPECT_EQ((*config)->method(), "fp8");
}

TEST(QuantizationConfigTest, ReadsTheFileOfModelOpt) {
  const auto config = QuantizationConfigFromOlderFile(
      R"({"producer": {"name": "modelopt", "version": "0.23.0"},
          "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": null,
                           "exclude_modules": ["lm_head", "*.q_proj"]}})",
      "m/hf_quant_config.json");
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->method(), "modelopt");
  EXPECT_TRUE(SchemeIn(*config, "model.layers.0.mlp.up_proj") == kFp8Static);
  EXPECT_FALSE(SchemeIn(*config, "model.layers.0.self_attn.q_proj").has_value());
  EXPECT_THAT(
      QuantizationConfigFromOlderFile("{\"a\": 1, \"quantization\": {}}", "m/hf_quant_config.json"),
      HasError(kInvalid, HasSubstr("m/hf_quant_config.json: a is 1: this key")));
  EXPECT_THAT(QuantizationConfigFromOlderFile("{}", "m/hf_quant_config.json"),
              HasError(kInvalid, HasSubstr("m/hf_quant_config.json: quantization is missing")));
}

TEST(QuantizationConfigTest, ReadsTheFileOfAutoGptq) {
  const auto config = QuantizationConfigFromOlderFile(
      R"({"bits": 4, "group_size": 128, "damp_percent": 0.01, "desc_act": true, "sym": true,
          "true_sequential": true, "dynamic": {"-:.*up_proj": {}}})",
      "m/quantize_config.json");
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->method(), "gptq");
  EXPECT_TRUE(SchemeIn(*config, "model.layers.0.mlp.down_proj") == kGptq128);
  EXPECT_FALSE(SchemeIn(*config, "model.layers.0.mlp.up_proj").has_value());
  EXPECT_THAT(QuantizationConfigFromOlderFile(
                  R"({"bits": 4, "group_size": 128, "dynamic": {"a": {"rank": 1}}})",
                  "m/quantize_config.json"),
              HasError(kInvalid, HasSubstr("m/quantize_config.json: dynamic.a.rank is 1")));
  EXPECT_THAT(QuantizationConfigFromOlderFile("{}", "m/other.json"),
              HasError(kInvalid, HasSubstr("m/other.json is not hf_quant_config.json or ")));
}

}  // namespace
}  // namespace lockstep
