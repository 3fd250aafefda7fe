#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "common/model_files/quantization/quantization_config.h"
#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

absl::StatusOr<std::optional<QuantizationConfig>> ReadConfigWith(
    const std::string& quantization_config) {
  return QuantizationConfigFromJson(
      "{\"model_type\": \"llama\", \"quantization_config\": " + quantization_config + "}",
      "m/config.json");
}

// A compressed-tensors config in which a test changes one thing.
Json Compressed() {
  return Json::parse(R"({
      "config_groups": {"group_0": {"targets": ["Linear"],
          "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}}},
      "format": "pack-quantized", "ignore": ["lm_head"], "quant_method": "compressed-tensors"})");
}
Json Gptq() {
  return Json::parse(
      R"({"bits": 4, "group_size": 128, "desc_act": false, "quant_method": "gptq"})");
}
Json Awq() { return Json::parse(R"({"bits": 4, "group_size": 128, "quant_method": "awq"})"); }
Json Fp8() { return Json::parse(R"({"quant_method": "fp8", "weight_block_size": [128, 128]})"); }
Json ModelOpt() { return Json::parse(R"({"quant_method": "modelopt", "quant_algo": "FP8"})"); }

struct BadConfig {
  std::string_view name;
  Json base;
  std::string pointer;  // where a member is set
  Json value;
  std::string_view error;
};

const std::string kWeights = "/config_groups/group_0/weights";

const BadConfig kBadConfigs[] = {
    {"NoMethod", Json::object({{"bits", 4}}), "/group_size", 128,
     "quantization_config.quant_method is missing, expected \"awq\", \"compressed-tensors\", "
     "\"fp8\", \"gptq\", \"modelopt\" or \"mxfp4\""},
    {"AnotherMethod", Gptq(), "/quant_method", "bitsandbytes",
     "quantization_config.quant_method is \"bitsandbytes\", expected \"awq\""},
    {"MethodIsANumber", Gptq(), "/quant_method", 4, "quantization_config.quant_method is 4"},
    // compressed-tensors
    {"UnknownFormat", Compressed(), "/format", "marlin-24",
     "quantization_config.format is \"marlin-24\", expected \"pack-quantized\""},
    {"NoFormat", Compressed(), "/format", nullptr, "quantization_config.format is missing"},
    {"NotCompressed", Compressed(), "/quantization_status", "initialized",
     "quantization_config.quantization_status is \"initialized\", expected \"compressed\""},
    {"Sparse", Compressed(), "/sparsity_config", Json::object({{"format", "sparse-24-bitmask"}}),
     "quantization_config.sparsity_config is "},
    {"Rotated", Compressed(), "/transform_config", Json::object({{"config_groups", 1}}),
     "quantization_config.transform_config is "},
    {"NoGroups", Compressed(), "/config_groups", nullptr,
     "quantization_config.config_groups is missing, expected an object of groups"},
    {"PresetGroup", Compressed(), "/config_groups/W4A16", Json::array({"Linear"}),
     "quantization_config.config_groups.W4A16 is [\"Linear\"], expected an object"},
    {"NoTargets", Compressed(), "/config_groups/group_0/targets", Json::array(),
     "quantization_config.config_groups.group_0.targets is missing or empty"},
    {"TargetOfAnotherClass", Compressed(), "/config_groups/group_0/targets",
     Json::array({"Embedding"}),
     "quantization_config.config_groups.group_0.targets has \"Embedding\", expected \"Linear\""},
    {"TargetTwice", Compressed(), "/config_groups/group_1",
     Compressed()["config_groups"]["group_0"],
     "quantization_config.config_groups: target \"Linear\" is in two groups"},
    {"TargetNoExpression", Compressed(), "/config_groups/group_0/targets", Json::array({"re:a("}),
     "quantization_config.config_groups: \"re:a(\" is not a regular expression: at offset 2"},
    {"IgnoreNoExpression", Compressed(), "/ignore", Json::array({"re:["}),
     "quantization_config.ignore: \"re:[\" is not a regular expression"},
    {"IgnoreIsText", Compressed(), "/ignore", "lm_head",
     "quantization_config.ignore is \"lm_head\", expected a list of names"},
    {"OutputActivations", Compressed(), "/config_groups/group_0/output_activations",
     Json::object({{"num_bits", 8}}),
     "quantization_config.config_groups.group_0.output_activations is "},
    {"UnknownKeyOfGroup", Compressed(), "/config_groups/group_0/weight_dtype", "x",
     "quantization_config.config_groups.group_0.weight_dtype is \"x\": this key is not known"},
    {"UnknownKeyOfWeights", Compressed(), kWeights + "/is_mx", true,
     "quantization_config.config_groups.group_0.weights.is_mx is true: this key is not known"},
    {"ThreeBits", Compressed(), kWeights + "/num_bits", 3,
     "config_groups.group_0.weights.num_bits is 3, expected 4 or 8"},
    {"UnknownType", Compressed(), kWeights + "/type", "posit",
     "config_groups.group_0.weights.type is \"posit\", expected \"int\" or \"float\""},
    {"UnknownStrategy", Compressed(), kWeights + "/strategy", "token",
     "config_groups.group_0.weights.strategy is \"token\", expected \"tensor\", \"channel\""},
    {"GroupOfNothing", Compressed(), kWeights + "/group_size", 0,
     "config_groups.group_0.weights.group_size is 0, expected a number of columns > 0"},
    {"GroupWithoutSize", Compressed(), kWeights + "/group_size", nullptr,
     "config_groups.group_0.weights.group_size is missing, but strategy is \"group\""},
    {"ChannelWithSize", Compressed(), kWeights + "/strategy", "channel",
     "config_groups.group_0.weights.group_size is 128, but strategy is \"channel\""},
    {"BlocksWithoutStrategy", Compressed(), kWeights + "/block_structure", Json::array({128, 128}),
     "config_groups.group_0.weights.block_structure is given, but strategy is \"group\""},
    {"BlockOfThree", Compressed(), kWeights + "/block_structure", Json::array({1, 2, 3}),
     "config_groups.group_0.weights.block_structure is [1,2,3], expected [rows, columns]"},
    {"FloatsPacked", Compressed(), kWeights + "/type", "float",
     "config_groups.group_0.weights: 4 bits, type float, symmetric, strategy group 128 is not "
     "supported in format pack-quantized"},
    {"DynamicWeights", Compressed(), kWeights + "/dynamic", true,
     "strategy group 128, dynamic is not supported in format pack-quantized"},
    {"CacheOfAnotherKind", Compressed(), "/kv_cache_scheme",
     Json::object({{"num_bits", 8}, {"frob", 1}}),
     "quantization_config.kv_cache_scheme.frob is 1: this key is not known"},
    // GPTQ
    {"GptqNoBits", Gptq(), "/bits", nullptr,
     "quantization_config.bits is missing, expected 4 or 8"},
    {"GptqThreeBits", Gptq(), "/bits", 3, "quantization_config.bits is 3, expected 4 or 8"},
    {"GptqNoGroup", Gptq(), "/group_size", nullptr, "quantization_config.group_size is missing"},
    {"GptqGroupOfMinusTwo", Gptq(), "/group_size", -2, "quantization_config.group_size is -2"},
    {"GptqMarlin", Gptq(), "/checkpoint_format", "marlin",
     "quantization_config.checkpoint_format is \"marlin\", expected \"gptq\" or \"gptq_v2\""},
    {"GptqIsMarlin", Gptq(), "/is_marlin_format", true,
     "quantization_config.is_marlin_format is true, which is not supported; expected false"},
    {"GptqPackType", Gptq(), "/pack_dtype", "int16",
     "quantization_config.pack_dtype is \"int16\", expected \"int32\""},
    {"GptqDynamicIsAList", Gptq(), "/dynamic", Json::array({1}),
     "quantization_config.dynamic is [1], expected an object"},
    {"GptqDynamicNoExpression", Gptq(), "/dynamic", Json::object({{"+:(", Json::object()}}),
     "quantization_config.dynamic: \"+:(\" is not a regular expression"},
    {"GptqDynamicUnknownKey", Gptq(), "/dynamic",
     Json::object({{"a", Json::object({{"rank", 8}})}}),
     "quantization_config.dynamic.a.rank is 8: this key is not known"},
    {"GptqDynamicBits", Gptq(), "/dynamic", Json::object({{"a", Json::object({{"bits", 2}})}}),
     "quantization_config.dynamic.a.bits is 2, expected 4 or 8"},
    {"GptqModulesAreNumbers", Gptq(), "/modules_in_block_to_quantize", Json::array({1}),
     "quantization_config.modules_in_block_to_quantize is [1], expected lists of names"},
    {"GptqModuleIsNoName", Gptq(), "/modules_in_block_to_quantize", Json::array({"\\E.*"}),
     "is not the name of a module"},
    {"GptqAdapter", Gptq(), "/adapter", Json::object({{"lora", 1}}),
     "quantization_config.adapter is "},
    // AWQ
    {"AwqThreeBits", Awq(), "/bits", 3, "quantization_config.bits is 3, expected 4"},
    {"AwqGemv", Awq(), "/version", "gemv_fast",
     "quantization_config.version is \"gemv_fast\", expected \"gemm\""},
    {"AwqNoZeroPoints", Awq(), "/zero_point", false,
     "quantization_config.zero_point is false, which is not supported; expected true"},
    {"AwqNoExpression", Awq(), "/modules_to_not_convert", Json::array({"a(b"}),
     "quantization_config.modules_to_not_convert: \"a(b\" is not a regular expression"},
    // fp8 and ModelOpt
    {"Fp8OtherFormat", Fp8(), "/fmt", "e5m2",
     "quantization_config.fmt is \"e5m2\", expected \"e4m3\""},
    {"Fp8NotSerialized", Fp8(), "/is_checkpoint_fp8_serialized", false,
     "quantization_config.is_checkpoint_fp8_serialized is false, which is not supported"},
    {"Fp8BlockOfOne", Fp8(), "/weight_block_size", Json::array({128}),
     "quantization_config.weight_block_size is [128], expected [rows, columns]"},
    {"Fp8BlockOfNothing", Fp8(), "/weight_block_size", Json::array({128, 0}),
     "quantization_config.weight_block_size is [128,0], expected [rows, columns]"},
    {"Fp8Activations", Fp8(), "/activation_scheme", "none",
     "quantization_config.activation_scheme is \"none\", expected \"dynamic\" or \"static\""},
    {"Fp8Experts", Fp8(), "/expert_dtype", "fp4",
     "quantization_config.expert_dtype is \"fp4\", expected \"fp8\""},
    {"Fp8Cache", Fp8(), "/kv_cache_scheme", Json::object({{"num_bits", 16}, {"type", "float"}}),
     "quantization_config.kv_cache_scheme is "},
    {"ModelOptAlgorithm", ModelOpt(), "/quant_algo", "W4A8_AWQ",
     "quantization_config.quant_algo is \"W4A8_AWQ\", expected \"fp8\""},
    {"ModelOptNone", ModelOpt(), "/quant_algo", nullptr,
     "quantization_config.quant_algo is missing"},
    {"ModelOptPreScaled", ModelOpt(), "/pre_quant_scale", true,
     "quantization_config.pre_quant_scale is true"},
};

class BadQuantizationConfigTest : public ::testing::TestWithParam<BadConfig> {};

TEST_P(BadQuantizationConfigTest, IsRefusedByName) {
  Json json = GetParam().base;
  json[Json::json_pointer(GetParam().pointer)] = GetParam().value;
  const auto config = ReadConfigWith(json.dump());
  ASSERT_THAT(config, HasError(kInvalid, HasSubstr(std::string(GetParam().error))));
  EXPECT_TRUE(Message(config.status()).starts_with("m/config.json: "));
  EXPECT_EQ(Message(config.status()).find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, BadQuantizationConfigTest, ::testing::ValuesIn(kBadConfigs),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(BadQuantizationConfigTest, IsNoObject) {
  EXPECT_THAT(ReadConfigWith("[]"), HasError(kInvalid,
                                             "m/config.json: quantization_config is [], expected "
                                             "an object"));
  EXPECT_THAT(QuantizationConfigFromJson("[]", "c"),
              HasError(kInvalid, "c: the file is [], expected an object"));
}

}  // namespace
}  // namespace lockstep
