#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/model_config.h"
#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

Json Base(std::string_view architecture, std::string_view type) {
  return {{"architectures", {architecture}},
          {"model_type", type},
          {"hidden_size", 64},
          {"intermediate_size", 172},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"vocab_size", 1000},
          {"max_position_embeddings", 2048},
          {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", true},
          {"hidden_act", "silu"}};
}
Json Llama() { return Base("LlamaForCausalLM", "llama"); }
Json Qwen2() { return Base("Qwen2ForCausalLM", "qwen2"); }
Json Qwen3() { return Base("Qwen3ForCausalLM", "qwen3"); }

// `base` with the members of `change`; a member that is "absent" is removed.
Json With(Json base, const Json& change) {
  for (const auto& [key, value] : change.items()) {
    base[key] = value;
    if (value == "absent") base.erase(key);
  }
  return base;
}

absl::StatusOr<ModelConfig> Read(const Json& config, const Json& generation = Json()) {
  return ModelConfigFromJson(config.dump(), generation.is_null() ? "" : generation.dump(),
                             "models/tiny");
}

TEST(ModelConfigJsonTest, ReadsALlama) {
  const absl::StatusOr<ModelConfig> config =
      Read(With(Llama(), {{"rope_theta", 100000}, {"bos_token_id", 1}, {"eos_token_id", 2}}));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->family, ModelFamily::kLlama);
  EXPECT_EQ(config->name, "tiny");
  EXPECT_EQ(config->hidden_size, 64u);
  EXPECT_EQ(config->intermediate_size, 172u);
  EXPECT_EQ(config->num_layers, 3u);
  EXPECT_EQ(config->num_heads, 4u);
  EXPECT_EQ(config->num_kv_heads, 2u);
  EXPECT_EQ(config->head_dim, 16u);
  EXPECT_EQ(config->vocab_size, 1000u);
  EXPECT_EQ(config->max_context_tokens, 2048u);
  EXPECT_EQ(config->rms_norm_eps, 1e-5);
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_FALSE(config->attention_qkv_bias);
  EXPECT_FALSE(config->attention_output_bias);
  EXPECT_FALSE(config->mlp_bias);
  EXPECT_FALSE(config->qk_norm);
  EXPECT_EQ(config->rope.theta, 100000.0);
  EXPECT_EQ(config->rope.scaling, RopeScalingKind::kNone);
  EXPECT_THAT(config->eos_token_ids, ElementsAre(2));
  EXPECT_EQ(config->bos_token_id, 1u);
}

TEST(ModelConfigJsonTest, FamiliesDifferInBiasesNormsAndHeadDimension) {
  const absl::StatusOr<ModelConfig> qwen2 = Read(Qwen2());
  ASSERT_THAT(qwen2, IsOk());
  EXPECT_EQ(qwen2->family, ModelFamily::kQwen2);
  EXPECT_TRUE(qwen2->attention_qkv_bias);
  EXPECT_FALSE(qwen2->attention_output_bias);
  EXPECT_FALSE(qwen2->qk_norm);
  EXPECT_EQ(qwen2->head_dim, 16u);

  const absl::StatusOr<ModelConfig> qwen3 = Read(Qwen3());
  ASSERT_THAT(qwen3, IsOk());
  EXPECT_EQ(qwen3->family, ModelFamily::kQwen3);
  EXPECT_FALSE(qwen3->attention_qkv_bias);
  EXPECT_TRUE(qwen3->qk_norm);
  EXPECT_EQ(qwen3->head_dim, 128u) << "transformers' default of the family";
  EXPECT_EQ(Read(With(Qwen3(), {{"head_dim", 32}}))->head_dim, 32u);
  EXPECT_EQ(Read(With(Qwen3(), {{"head_dim", nullptr}}))->head_dim, 16u);
  EXPECT_EQ(Read(With(Llama(), {{"head_dim", 32}}))->head_dim, 32u);
  EXPECT_EQ(Read(With(Llama(), {{"head_dim", nullptr}}))->head_dim, 16u);
}

TEST(ModelConfigJsonTest, ReadsBiasFlags) {
  const absl::StatusOr<ModelConfig> llama =
      Read(With(Llama(), {{"attention_bias", true}, {"mlp_bias", true}}));
  ASSERT_THAT(llama, IsOk());
  EXPECT_TRUE(llama->attention_qkv_bias);
  EXPECT_TRUE(llama->attention_output_bias);
  EXPECT_TRUE(llama->mlp_bias);
  EXPECT_THAT(Read(With(Qwen2(), {{"attention_bias", true}})), IsOk());
}

TEST(ModelConfigJsonTest, DefaultsAreTransformers) {
  const absl::StatusOr<ModelConfig> config = Read(With(Llama(), {{"num_key_value_heads", "absent"},
                                                                 {"rms_norm_eps", "absent"},
                                                                 {"hidden_act", "absent"},
                                                                 {"tie_word_embeddings", "absent"},
                                                                 {"model_type", "absent"}}));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->num_kv_heads, 4u);
  EXPECT_EQ(config->rms_norm_eps, 1e-6);
  EXPECT_FALSE(config->tie_word_embeddings);
  EXPECT_EQ(config->rope.theta, 10000.0);
  EXPECT_THAT(config->eos_token_ids, IsEmpty());
  EXPECT_EQ(config->bos_token_id, std::nullopt);
}

TEST(ModelConfigJsonTest, BothSpellingsOfRopeAgree) {
  const Json parameters = {{"factor", 8.0},
                           {"low_freq_factor", 1.0},
                           {"high_freq_factor", 4.0},
                           {"original_max_position_embeddings", 1024}};
  const std::vector<Json> spellings = {
      {{"rope_theta", 500000.0}, {"rope_scaling", With(parameters, {{"rope_type", "llama3"}})}},
      {{"rope_theta", 500000.0}, {"rope_scaling", With(parameters, {{"type", "llama3"}})}},
      {{"rope_theta", 500000.0},
       {"rope_scaling", With(parameters, {{"type", "llama3"}, {"rope_type", "llama3"}})}},
      {{"rope_parameters", With(parameters, {{"rope_type", "llama3"}, {"rope_theta", 500000.0}})}},
      {{"rope_theta", 500000.0},
       {"rope_parameters", With(parameters, {{"rope_type", "llama3"}, {"rope_theta", 500000.0}})}},
      {{"rope_scaling", nullptr},
       {"rope_parameters", With(parameters, {{"rope_type", "llama3"}, {"rope_theta", 500000}})}}};
  for (const Json& spelling : spellings) {
    const absl::StatusOr<ModelConfig> config = Read(With(Llama(), spelling));
    ASSERT_THAT(config, IsOk()) << spelling;
    EXPECT_EQ(config->rope.theta, 500000.0);
    EXPECT_EQ(config->rope.scaling, RopeScalingKind::kLlama3);
    EXPECT_EQ(config->rope.factor, 8.0);
    EXPECT_EQ(config->rope.low_freq_factor, 1.0);
    EXPECT_EQ(config->rope.high_freq_factor, 4.0);
    EXPECT_EQ(config->rope.original_max_positions, 1024u);
  }
}

TEST(ModelConfigJsonTest, ReadsLinearYarnAndNoScaling) {
  const absl::StatusOr<ModelConfig> linear =
      Read(With(Llama(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}));
  ASSERT_THAT(linear, IsOk());
  EXPECT_EQ(linear->rope.scaling, RopeScalingKind::kLinear);
  EXPECT_EQ(linear->rope.factor, 2.0);

  const absl::StatusOr<ModelConfig> yarn = Read(With(
      Qwen2(), {{"rope_scaling",
                 {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 512}}}}));
  ASSERT_THAT(yarn, IsOk());
  EXPECT_EQ(yarn->rope.scaling, RopeScalingKind::kYarn);
  EXPECT_EQ(yarn->rope.factor, 4.0);
  EXPECT_EQ(yarn->rope.original_max_positions, 512u);
  EXPECT_EQ(yarn->rope.yarn_beta_fast, 32.0);
  EXPECT_EQ(yarn->rope.yarn_beta_slow, 1.0);
  EXPECT_EQ(yarn->rope.yarn_attention_factor, std::nullopt);
  EXPECT_TRUE(yarn->rope.yarn_truncate);

  const absl::StatusOr<ModelConfig> none = Read(
      With(Llama(), {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 20000.0}}}}));
  ASSERT_THAT(none, IsOk());
  EXPECT_EQ(none->rope.scaling, RopeScalingKind::kNone);
  EXPECT_EQ(none->rope.theta, 20000.0);
}

TEST(ModelConfigJsonTest, ReadsYarnsOptionalParameters) {
  const Json yarn = {
      {"rope_type", "yarn"}, {"factor", nullptr}, {"original_max_position_embeddings", 512},
      {"beta_fast", 16},     {"beta_slow", 2},    {"mscale", 0.707},
      {"mscale_all_dim", 0}, {"truncate", false}, {"attention_factor", 1.25},
      {"finetuned", true}};
  const absl::StatusOr<ModelConfig> config = Read(With(Llama(), {{"rope_scaling", yarn}}));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->rope.factor, 4.0) << "2048 / 512";
  EXPECT_EQ(config->rope.yarn_beta_fast, 16.0);
  EXPECT_EQ(config->rope.yarn_beta_slow, 2.0);
  EXPECT_EQ(config->rope.yarn_mscale, 0.707);
  EXPECT_EQ(config->rope.yarn_mscale_all_dim, std::nullopt);
  EXPECT_EQ(config->rope.yarn_attention_factor, 1.25);
  EXPECT_FALSE(config->rope.yarn_truncate);
  // Without it, transformers takes the model's context for the original one.
  const Json no_original = {{"rope_type", "yarn"}, {"factor", 2.0}};
  EXPECT_EQ(Read(With(Llama(), {{"rope_scaling", no_original}}))->rope.original_max_positions,
            2048u);
}

TEST(ModelConfigJsonTest, AcceptsWhatChangesNothing) {
  const std::vector<Json> changes = {
      {{"torch_dtype", "bfloat16"},
       {"dtype", "float32"},
       {"transformers_version", "5.1.0"},
       {"_name_or_path", "x"}},
      {{"is_llama_config", true},
       {"rope_interleaved", false},
       {"transformers.js_config", {{"dtype", "q4"}}}},
      {{"use_cache", true},
       {"initializer_range", 0.02},
       {"attention_dropout", 0.0},
       {"pretraining_tp", 1},
       {"pad_token_id", -1}},
      {{"rope_scaling", nullptr},
       {"quantization_config", nullptr},
       {"some_future_key", nullptr},
       {"sliding_window", nullptr}},
      {{"partial_rotary_factor", 1.0},
       {"final_logit_softcapping", 0},
       {"is_encoder_decoder", false}},
      {{"layer_types", {"full_attention", "full_attention", "full_attention"}}},
      {{"hidden_act", "swish"}},
      {{"sliding_window", 2048}},
      {{"rope_parameters",
        {{"rope_type", "default"}, {"rope_theta", 1e4}, {"partial_rotary_factor", 1.0}}}}};
  const uint64_t plain = Read(Llama())->Fingerprint();
  for (const Json& change : changes) {
    const absl::StatusOr<ModelConfig> config = Read(With(Llama(), change));
    ASSERT_THAT(config, IsOk()) << change;
    EXPECT_EQ(config->Fingerprint(), plain) << change;
  }
}

TEST(ModelConfigJsonTest, ASlidingWindowWithoutEffectIsAccepted) {
  for (const Json& change : std::vector<Json>{
           {{"use_sliding_window", false}, {"sliding_window", 32}, {"max_window_layers", 0}},
           {{"use_sliding_window", true}, {"sliding_window", 32}, {"max_window_layers", 3}},
           {{"use_sliding_window", true}, {"sliding_window", 4096}, {"max_window_layers", 0}},
           {{"use_sliding_window", true}, {"sliding_window", nullptr}}}) {
    EXPECT_THAT(Read(With(Qwen2(), change)), IsOk()) << change;
  }
}

struct BadConfig {
  Json config;
  std::string expected;
};

class BadModelConfigTest : public ::testing::TestWithParam<std::vector<BadConfig>> {};

TEST_P(BadModelConfigTest, IsRefusedNamingFileKeyAndExpectation) {
  for (const BadConfig& bad : GetParam()) {
    EXPECT_THAT(Read(bad.config),
                HasError(kInvalid, AllOf(HasSubstr("models/tiny"), HasSubstr(bad.expected))))
        << bad.config;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Structure, BadModelConfigTest,
    ::testing::Values(std::vector<BadConfig>{
        {Json::array(), "config.json: the file is []"},
        {With(Llama(), {{"architectures", "absent"}}),
         "architectures is missing, expected LlamaForCausalLM"},
        {With(Llama(), {{"architectures", {"GPT2LMHeadModel"}}}),
         "is [\"GPT2LMHeadModel\"], expected LlamaForCausalLM, Qwen2ForCausalLM"},
        {With(Llama(), {{"architectures", "LlamaForCausalLM"}}),
         "architectures is \"LlamaForCausalLM\""},
        {With(Llama(), {{"architectures", {"LlamaForCausalLM", "X"}}}), "architectures is"},
        {With(Llama(), {{"model_type", "mistral"}}),
         "model_type is \"mistral\", expected \"llama\""},
        {With(Llama(), {{"hidden_size", "absent"}}),
         "hidden_size is missing, expected an integer > 0"},
        {With(Llama(), {{"hidden_size", 0}}), "hidden_size is 0"},
        {With(Llama(), {{"hidden_size", -64}}), "hidden_size is -64"},
        {With(Llama(), {{"hidden_size", 64.0}}), "hidden_size is 64.0"},
        {With(Llama(), {{"hidden_size", "64"}}), "hidden_size is \"64\""},
        {With(Llama(), {{"vocab_size", 5000000000}}),
         "vocab_size is 5000000000, expected at most 4294967295"},
        {With(Llama(), {{"num_hidden_layers", 1000000}}),
         "number of layers is 1000000, expected 1 to"},
        {With(Llama(), {{"num_key_value_heads", 0}}), "number of KV heads is 0"},
        {With(Llama(), {{"num_key_value_heads", 3}}),
         "number of heads 4 is not a multiple of the number of KV heads 3"},
        {With(Llama(), {{"head_dim", 15}}), "head dimension 15 is odd"},
        {With(Llama(), {{"hidden_size", 66}}),
         "head_dim is absent, and hidden_size 66 is not a multiple"},
        {With(Llama(), {{"rms_norm_eps", 0}}), "RMS norm epsilon is 0"},
        {With(Llama(), {{"rms_norm_eps", "1e-5"}}), "rms_norm_eps is \"1e-5\", expected a number"},
        {With(Llama(), {{"tie_word_embeddings", 1}}),
         "tie_word_embeddings is 1, expected true or false"},
        {With(Llama(), {{"eos_token_id", 1000}}),
         "end token id 1000 is not below the vocabulary size 1000"},
        {With(Llama(), {{"eos_token_id", -1}}), "eos_token_id is -1, expected a token id"},
        {With(Llama(), {{"eos_token_id", {1, "x"}}}), "eos_token_id is [1,\"x\"]"},
        {With(Llama(), {{"bos_token_id", 1000}}), "begin token id 1000"}}));

INSTANTIATE_TEST_SUITE_P(
    Computation, BadModelConfigTest,
    ::testing::Values(std::vector<BadConfig>{
        {With(Llama(), {{"hidden_act", "gelu"}}), "hidden_act is \"gelu\", expected \"silu\""},
        {With(Qwen2(),
              {{"use_sliding_window", true}, {"sliding_window", 32}, {"max_window_layers", 2}}),
         "sliding_window is 32"},
        {With(Llama(), {{"sliding_window", 32}}), "sliding_window is 32"},
        {With(Llama(),
              {{"layer_types", {"full_attention", "sliding_attention", "full_attention"}}}),
         "layer_types is"},
        {With(Llama(), {{"layer_types", {"full_attention"}}}), "for each of the 3 layers"},
        {With(Llama(), {{"partial_rotary_factor", 0.5}}),
         "partial_rotary_factor is 0.5, which would alter the result"},
        {With(Qwen2(), {{"attention_bias", false}}),
         "attention_bias is false, but Qwen2 has biases"},
        {With(Qwen3(), {{"mlp_bias", true}}), "mlp_bias is true, expected false for qwen3"},
        {With(Llama(), {{"quantization_config", {{"bits", 4}}}}),
         "quantization_config is {\"bits\":4}"},
        {With(Llama(), {{"final_logit_softcapping", 30.0}}), "final_logit_softcapping is 30.0"},
        {With(Llama(), {{"rope_interleaved", true}}), "rope_interleaved is true"},
        {With(Llama(), {{"auto_map", {{"AutoModel", "x.Y"}}}}), "auto_map is"},
        {With(Llama(), {{"some_future_key", 1}}),
         "config.json: some_future_key is 1: this key is not known"},
        {With(Llama(), {{"num_experts", 8}}), "num_experts is 8: this key is not known"}}));

INSTANTIATE_TEST_SUITE_P(
    Rope, BadModelConfigTest,
    ::testing::Values(std::vector<BadConfig>{
        {With(Llama(), {{"rope_theta", 0}}), "rope theta is 0"},
        {With(Llama(), {{"rope_theta", "1e4"}}), "rope_theta is \"1e4\""},
        {With(Llama(), {{"rope_scaling", "linear"}}),
         "rope_scaling is \"linear\", expected an object"},
        {With(Llama(), {{"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}}}),
         "rope_scaling.rope_type is \"dynamic\", expected default, linear, llama3 or yarn"},
        {With(Llama(), {{"rope_scaling", {{"rope_type", "longrope"}}}}), "\"longrope\""},
        {With(Llama(),
              {{"rope_scaling", {{"rope_type", "linear"}, {"type", "yarn"}, {"factor", 2}}}}),
         "rope_type is \"linear\", but type is \"yarn\""},
        {With(Llama(), {{"rope_scaling", {{"type", "linear"}}}}), "rope_scaling.factor is missing"},
        {With(Llama(), {{"rope_scaling", {{"type", "linear"}, {"factor", 0.5}}}}),
         "rope factor is 0.5, expected >= 1"},
        {With(Llama(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2}, {"beta_fast", 1}}}}),
         "rope_scaling.beta_fast is 1: this key is not known for rope_type linear"},
        {With(Llama(), {{"rope_scaling", {{"type", "llama3"}, {"factor", 8}}}}),
         "low_freq_factor is missing"},
        {With(Llama(), {{"rope_scaling",
                         {{"type", "llama3"},
                          {"factor", 8},
                          {"low_freq_factor", 4},
                          {"high_freq_factor", 4}}}}),
         "expected 0 < low < high"},
        {With(Llama(),
              {{"rope_scaling",
                {{"type", "yarn"}, {"factor", 8}, {"original_max_position_embeddings", 0}}}}),
         "original_max_position_embeddings is 0"},
        {With(Llama(), {{"rope_scaling",
                         {{"type", "yarn"}, {"factor", 8}, {"beta_fast", 1}, {"beta_slow", 2}}}}),
         "expected 0 < slow < fast"},
        {With(Llama(),
              {{"rope_scaling", {{"type", "yarn"}, {"factor", 8}, {"attention_factor", -1}}}}),
         "a yarn attention factor or mscale is -1"},
        {With(Llama(), {{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}}),
         "rope_parameters.full_attention is"},
        {With(Llama(),
              {{"rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.25}}}}),
         "rope_parameters.partial_rotary_factor is 0.25"},
        {With(Llama(), {{"rope_theta", 1e4}, {"rope_parameters", {{"rope_theta", 2e4}}}}),
         "rope_parameters.rope_theta is 20000, but the top level has 10000"},
        {With(Llama(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}},
                        {"rope_parameters", {{"rope_type", "default"}}}}),
         "both given and differ"}}));

TEST(ModelConfigJsonTest, EveryViolationIsReportedAtOnce) {
  const absl::Status status =
      Read(With(Llama(), {{"num_key_value_heads", 3}, {"head_dim", 15}, {"rms_norm_eps", -1}}))
          .status();
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("KV heads 3"), HasSubstr("15 is odd"), HasSubstr("epsilon is -1")));
}

TEST(ModelConfigJsonTest, BrokenJsonNamesTheFileAndTheByte) {
  EXPECT_THAT(ModelConfigFromJson("{\"a\":}", "", "m"),
              HasError(kInvalid, HasSubstr("m/config.json: byte 6")));
  EXPECT_THAT(ModelConfigFromJson(Llama().dump(), "{", "m"),
              HasError(kInvalid, HasSubstr("m/generation_config.json: byte")));
}

TEST(GenerationConfigTest, GivesEndIdsAndSamplingDefaults) {
  const absl::StatusOr<ModelConfig> config =
      Read(With(Llama(), {{"eos_token_id", 2}}), {{"eos_token_id", {9, 7, 9}},
                                                  {"do_sample", true},
                                                  {"temperature", 0.5},
                                                  {"top_p", 0.75},
                                                  {"top_k", 20},
                                                  {"min_p", 0.125},
                                                  {"repetition_penalty", 1.25},
                                                  {"transformers_version", "4"},
                                                  {"max_length", 4096},
                                                  {"cache_implementation", "static"}});
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->eos_token_ids, ElementsAre(7, 9));
  EXPECT_EQ(config->generation_defaults.temperature, 0.5f);
  EXPECT_EQ(config->generation_defaults.top_p, 0.75f);
  EXPECT_EQ(config->generation_defaults.top_k, 20u);
  EXPECT_EQ(config->generation_defaults.min_p, 0.125f);
  EXPECT_EQ(config->generation_defaults.repetition_penalty, 1.25f);
}

TEST(GenerationConfigTest, AbsentValuesStayAbsent) {
  const absl::StatusOr<ModelConfig> config =
      Read(With(Llama(), {{"eos_token_id", 2}}), {{"bos_token_id", 1}});
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->eos_token_ids, ElementsAre(2));
  EXPECT_EQ(config->generation_defaults.temperature, std::nullopt);
  EXPECT_EQ(config->generation_defaults.top_k, std::nullopt);
}

TEST(GenerationConfigTest, DoSampleFalseIsGreedy) {
  const absl::StatusOr<ModelConfig> config = Read(
      Llama(),
      {{"do_sample", false}, {"temperature", 0.5}, {"top_p", 0.75}, {"repetition_penalty", 1.5}});
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->generation_defaults.temperature, 0.0f);
  EXPECT_EQ(config->generation_defaults.top_p, std::nullopt);
  EXPECT_EQ(config->generation_defaults.repetition_penalty, 1.5f);
}

TEST(GenerationConfigTest, RefusesWhatItCannotDo) {
  const std::pair<Json, const char*> cases[] = {
      {Json::array(), "generation_config.json: the file is []"},
      {{{"num_beams", 4}}, "generation_config.json: num_beams is 4, which would alter the result"},
      {{{"no_repeat_ngram_size", 3}}, "no_repeat_ngram_size is 3"},
      {{{"suppress_tokens", {1}}}, "suppress_tokens is [1]"},
      {{{"temperature", "hot"}}, "temperature is \"hot\""},
      {{{"temperature", -1}}, "default temperature is -1"},
      {{{"top_p", 1.5}}, "default top_p is 1.5"},
      {{{"top_p", 0}}, "default top_p is 0"},
      {{{"top_k", -1}}, "top_k is -1"},
      {{{"min_p", 2}}, "default min_p is 2"},
      {{{"repetition_penalty", 0}}, "default repetition_penalty is 0"},
      {{{"eos_token_id", {5, 5000}}}, "end token id 5000"}};
  for (const auto& [generation, expected] : cases) {
    EXPECT_THAT(Read(Llama(), generation), HasError(kInvalid, HasSubstr(expected))) << generation;
  }
}

}  // namespace
}  // namespace lockstep
