#include <gtest/gtest.h>

#include "common/model_files/model_config.h"
#include "tests/common/config_json.h"
#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

struct BadConfig {
  Json config;
  std::string expected;
};

class BadModelConfigTest : public ::testing::TestWithParam<std::vector<BadConfig>> {};

TEST_P(BadModelConfigTest, IsRefusedNamingFileKeyAndExpectation) {
  for (const BadConfig& bad : GetParam()) {
    EXPECT_THAT(ReadJsonConfig(bad.config),
                HasError(kInvalid, AllOf(HasSubstr("models/tiny"), HasSubstr(bad.expected))))
        << bad.config;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Structure, BadModelConfigTest,
    ::testing::Values(std::vector<BadConfig>{
        {Json::array(), "config.json: the file is []"},
        {With(LlamaJson(), {{"architectures", "absent"}}),
         "architectures is missing, expected LlamaForCausalLM"},
        {With(LlamaJson(), {{"architectures", {"GPTNeoXForCausalLM"}}}),
         "is [\"GPTNeoXForCausalLM\"], expected LlamaForCausalLM, Qwen2ForCausalLM"},
        {With(LlamaJson(), {{"architectures", "LlamaForCausalLM"}}),
         "architectures is \"LlamaForCausalLM\""},
        {With(LlamaJson(), {{"architectures", {"LlamaForCausalLM", "X"}}}), "architectures is"},
        {With(LlamaJson(), {{"model_type", "mistral"}}),
         "model_type is \"mistral\", expected \"llama\""},
        {With(LlamaJson(), {{"hidden_size", "absent"}}),
         "hidden_size is missing, expected an integer > 0"},
        {With(LlamaJson(), {{"hidden_size", 0}}), "hidden_size is 0"},
        {With(LlamaJson(), {{"hidden_size", -64}}), "hidden_size is -64"},
        {With(LlamaJson(), {{"hidden_size", 64.0}}), "hidden_size is 64.0"},
        {With(LlamaJson(), {{"hidden_size", "64"}}), "hidden_size is \"64\""},
        {With(LlamaJson(), {{"vocab_size", 5000000000}}),
         "vocab_size is 5000000000, expected at most 4294967295"},
        {With(LlamaJson(), {{"num_hidden_layers", 1000000}}),
         "number of layers is 1000000, expected 1 to"},
        {With(LlamaJson(), {{"num_key_value_heads", 0}}), "number of KV heads is 0"},
        {With(LlamaJson(), {{"num_key_value_heads", 3}}),
         "number of heads 4 is not a multiple of the number of KV heads 3"},
        {With(LlamaJson(), {{"head_dim", 15}}), "head dimension 15 is odd"},
        {With(LlamaJson(), {{"hidden_size", 66}}),
         "head_dim is absent, and hidden_size 66 is not a multiple"},
        {With(LlamaJson(), {{"rms_norm_eps", 0}}), "norm epsilon is 0"},
        {With(LlamaJson(), {{"rms_norm_eps", "1e-5"}}),
         "rms_norm_eps is \"1e-5\", expected a number"},
        {With(LlamaJson(), {{"tie_word_embeddings", 1}}),
         "tie_word_embeddings is 1, expected true or false"},
        {With(LlamaJson(), {{"eos_token_id", -2}}), "eos_token_id is -2, expected a token id"},
        {With(LlamaJson(), {{"eos_token_id", {1, "x"}}}), "eos_token_id is [1,\"x\"]"}}));

INSTANTIATE_TEST_SUITE_P(
    Computation, BadModelConfigTest,
    ::testing::Values(std::vector<BadConfig>{
        {With(LlamaJson(), {{"hidden_act", "gelu"}}), "hidden_act is \"gelu\", expected \"silu\""},
        {With(LlamaJson(), {{"sliding_window", 32}}), "sliding_window is 32"},
        {With(LlamaJson(),
              {{"layer_types", {"full_attention", "sliding_attention", "full_attention"}}}),
         "layer_types[1] is \"sliding_attention\""},
        {With(LlamaJson(), {{"layer_types", {"full_attention"}}}), "for each of the 3 layers"},
        {With(Qwen3Json(), {{"mlp_bias", true}}), "mlp_bias is true, expected false for qwen3"}}));

INSTANTIATE_TEST_SUITE_P(
    Rope, BadModelConfigTest,
    ::testing::Values(std::vector<BadConfig>{
        {With(LlamaJson(), {{"rope_theta", 0}}), "rope theta is 0"},
        {With(LlamaJson(), {{"rope_theta", "1e4"}}), "rope_theta is \"1e4\""},
        {With(LlamaJson(), {{"rope_scaling", "linear"}}),
         "rope_scaling is \"linear\", expected an object"},
        {With(LlamaJson(), {{"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}}}),
         "rope_scaling.rope_type is \"dynamic\", expected default, linear, llama3 or yarn"},
        {With(LlamaJson(), {{"rope_scaling", {{"rope_type", "longrope"}}}}), "\"longrope\""},
        {With(LlamaJson(), {{"rope_scaling", {{"type", "su"}}}}), "rope_type is \"su\""},
        {With(LlamaJson(), {{"rope_scaling", {{"type", "mrope"}, {"mrope_section", {1, 2}}}}}),
         "rope_type is \"mrope\""},
        {With(LlamaJson(),
              {{"rope_scaling", {{"rope_type", "default"}, {"mrope_section", {1, 2}}}}}),
         "rope_scaling.mrope_section is [1,2]: this key is not known for rope_type default"},
        {With(LlamaJson(), {{"rope_scaling", {{"rope_type", "default"}, {"factor", 4}}}}),
         "rope_scaling.factor is 4, which would alter the result"},
        {With(LlamaJson(),
              {{"rope_scaling", {{"rope_type", "linear"}, {"type", "yarn"}, {"factor", 2}}}}),
         "rope_type is \"linear\", but type is \"yarn\""},
        {With(LlamaJson(), {{"rope_scaling", {{"type", "linear"}}}}),
         "rope_scaling.factor is missing"},
        {With(LlamaJson(), {{"rope_scaling", {{"type", "linear"}, {"factor", 0.5}}}}),
         "rope factor is 0.5, expected >= 1"},
        {With(LlamaJson(),
              {{"rope_scaling", {{"type", "linear"}, {"factor", 2}, {"beta_fast", 1}}}}),
         "rope_scaling.beta_fast is 1: this key is not known for rope_type linear"},
        {With(LlamaJson(), {{"rope_scaling", {{"type", "llama3"}, {"factor", 8}}}}),
         "low_freq_factor is missing"},
        {With(LlamaJson(), {{"rope_scaling",
                             {{"type", "llama3"},
                              {"factor", 8},
                              {"low_freq_factor", 4},
                              {"high_freq_factor", 4}}}}),
         "expected 0 < low < high"},
        {With(LlamaJson(),
              {{"rope_scaling",
                {{"type", "yarn"}, {"factor", 8}, {"original_max_position_embeddings", 0}}}}),
         "original_max_position_embeddings is 0"},
        {With(LlamaJson(),
              {{"rope_scaling",
                {{"type", "yarn"}, {"factor", 8}, {"beta_fast", 1}, {"beta_slow", 2}}}}),
         "expected 0 < slow < fast"},
        {With(LlamaJson(),
              {{"rope_scaling", {{"type", "yarn"}, {"factor", 8}, {"attention_factor", -1}}}}),
         "a yarn attention factor or mscale is -1"},
        {With(LlamaJson(), {{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}}),
         "rope_parameters.full_attention is"},
        {With(LlamaJson(),
              {{"rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.25}}}}),
         "rope_parameters.partial_rotary_factor is 0.25"},
        {With(LlamaJson(), {{"rope_theta", 1e4}, {"rope_parameters", {{"rope_theta", 2e4}}}}),
         "rope_parameters.rope_theta is 20000, but the top level has 10000"},
        {With(LlamaJson(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}},
                            {"rope_parameters", {{"rope_type", "default"}}}}),
         "both given and differ"}}));

TEST(ModelConfigJsonTest, EveryViolationIsReportedAtOnce) {
  const absl::Status status =
      ReadJsonConfig(
          With(LlamaJson(), {{"num_key_value_heads", 3}, {"head_dim", 15}, {"rms_norm_eps", -1}}))
          .status();
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("KV heads 3"), HasSubstr("15 is odd"), HasSubstr("epsilon is -1")));
}

TEST(ModelConfigJsonTest, BrokenJsonNamesTheFileAndTheByte) {
  EXPECT_THAT(ModelConfigFromJson("{\"a\":}", "", "m"),
              HasError(kInvalid, HasSubstr("m/config.json: byte 6")));
  EXPECT_THAT(ModelConfigFromJson(LlamaJson().dump(), "{", "m"),
              HasError(kInvalid, HasSubstr("m/generation_config.json: byte")));
}

}  // namespace
}  // namespace lockstep
