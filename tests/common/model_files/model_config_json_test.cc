#include <gtest/gtest.h>

#include "common/model_files/model_config.h"
#include "common/model_files/model_family.h"
#include "tests/common/config_json.h"
#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

TEST(ModelConfigJsonTest, ReadsALlama) {
  const absl::StatusOr<ModelConfig> config = ReadJsonConfig(
      With(LlamaJson(), {{"rope_theta", 100000}, {"bos_token_id", 1}, {"eos_token_id", 2}}));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->family, FindModelFamily("llama"));
  EXPECT_EQ(config->name, "tiny");
  EXPECT_EQ(config->hidden_size, 64u);
  EXPECT_EQ(config->intermediate_size, 172u);
  EXPECT_EQ(config->num_layers, 3u);
  EXPECT_EQ(config->num_heads, 4u);
  EXPECT_EQ(config->num_kv_heads, 2u);
  EXPECT_EQ(config->head_dim, 16u);
  EXPECT_EQ(config->vocab_size, 1000u);
  EXPECT_EQ(config->max_context_tokens, 2048u);
  EXPECT_EQ(config->norm_eps, 1e-5);
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
  const absl::StatusOr<ModelConfig> qwen2 = ReadJsonConfig(Qwen2Json());
  ASSERT_THAT(qwen2, IsOk());
  EXPECT_EQ(qwen2->family, FindModelFamily("qwen2"));
  EXPECT_TRUE(qwen2->attention_qkv_bias);
  EXPECT_FALSE(qwen2->attention_output_bias);
  EXPECT_FALSE(qwen2->qk_norm);
  EXPECT_EQ(qwen2->head_dim, 16u);

  const absl::StatusOr<ModelConfig> qwen3 = ReadJsonConfig(Qwen3Json());
  ASSERT_THAT(qwen3, IsOk());
  EXPECT_EQ(qwen3->family, FindModelFamily("qwen3"));
  EXPECT_FALSE(qwen3->attention_qkv_bias);
  EXPECT_TRUE(qwen3->qk_norm);
  EXPECT_EQ(qwen3->head_dim, 128u) << "transformers' default of the family";
  EXPECT_EQ(ReadJsonConfig(With(Qwen3Json(), {{"head_dim", 32}}))->head_dim, 32u);
  EXPECT_EQ(ReadJsonConfig(With(Qwen3Json(), {{"head_dim", nullptr}}))->head_dim, 16u);
  EXPECT_EQ(ReadJsonConfig(With(LlamaJson(), {{"head_dim", 32}}))->head_dim, 32u);
  EXPECT_EQ(ReadJsonConfig(With(LlamaJson(), {{"head_dim", nullptr}}))->head_dim, 16u);
}

TEST(ModelConfigJsonTest, ReadsBiasFlags) {
  const absl::StatusOr<ModelConfig> llama =
      ReadJsonConfig(With(LlamaJson(), {{"attention_bias", true}, {"mlp_bias", true}}));
  ASSERT_THAT(llama, IsOk());
  EXPECT_TRUE(llama->attention_qkv_bias);
  EXPECT_TRUE(llama->attention_output_bias);
  EXPECT_TRUE(llama->mlp_bias);
  EXPECT_THAT(ReadJsonConfig(With(Qwen2Json(), {{"attention_bias", true}})), IsOk());
}

TEST(ModelConfigJsonTest, DefaultsAreTransformers) {
  const absl::StatusOr<ModelConfig> config =
      ReadJsonConfig(With(LlamaJson(), {{"num_key_value_heads", "absent"},
                                        {"rms_norm_eps", "absent"},
                                        {"hidden_act", "absent"},
                                        {"tie_word_embeddings", "absent"},
                                        {"model_type", "absent"}}));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->num_kv_heads, 4u);
  EXPECT_EQ(config->norm_eps, 1e-6);
  EXPECT_FALSE(config->tie_word_embeddings);
  EXPECT_EQ(config->rope.theta, 10000.0);
  EXPECT_THAT(config->eos_token_ids, IsEmpty());
  EXPECT_EQ(config->bos_token_id, std::nullopt);
}

// A tokenizer may have more tokens than the model, and -1 stands for none.
TEST(ModelConfigJsonTest, IdsOutsideOfTheVocabularyAreLeftOut) {
  const absl::StatusOr<ModelConfig> config =
      ReadJsonConfig(With(LlamaJson(), {{"eos_token_id", {1000, 7, -1}}, {"bos_token_id", 1000}}));
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->eos_token_ids, ElementsAre(7));
  EXPECT_EQ(config->bos_token_id, std::nullopt);
  EXPECT_THAT(config->warnings, ElementsAre(HasSubstr("eos_token_id: end token id 1000 is not "
                                                      "below the vocabulary size 1000")));
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
    const absl::StatusOr<ModelConfig> config = ReadJsonConfig(With(LlamaJson(), spelling));
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
      ReadJsonConfig(With(LlamaJson(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}));
  ASSERT_THAT(linear, IsOk());
  EXPECT_EQ(linear->rope.scaling, RopeScalingKind::kLinear);
  EXPECT_EQ(linear->rope.factor, 2.0);

  const absl::StatusOr<ModelConfig> yarn = ReadJsonConfig(
      With(Qwen2Json(),
           {{"rope_scaling",
             {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 512}}}}));
  ASSERT_THAT(yarn, IsOk());
  EXPECT_EQ(yarn->rope.scaling, RopeScalingKind::kYarn);
  EXPECT_EQ(yarn->rope.factor, 4.0);
  EXPECT_EQ(yarn->rope.original_max_positions, 512u);
  EXPECT_EQ(yarn->rope.yarn_beta_fast, 32.0);
  EXPECT_EQ(yarn->rope.yarn_beta_slow, 1.0);
  EXPECT_EQ(yarn->rope.yarn_attention_factor, std::nullopt);
  EXPECT_TRUE(yarn->rope.yarn_truncate);

  const absl::StatusOr<ModelConfig> none = ReadJsonConfig(With(
      LlamaJson(), {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 20000.0}}}}));
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
  const absl::StatusOr<ModelConfig> config =
      ReadJsonConfig(With(LlamaJson(), {{"rope_scaling", yarn}}));
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
  EXPECT_EQ(ReadJsonConfig(With(LlamaJson(), {{"rope_scaling", no_original}}))
                ->rope.original_max_positions,
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
       {"quantization_config", {{"quant_method", "awq"}}},
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
  const uint64_t plain = ReadJsonConfig(LlamaJson())->Fingerprint();
  for (const Json& change : changes) {
    const absl::StatusOr<ModelConfig> config = ReadJsonConfig(With(LlamaJson(), change));
    ASSERT_THAT(config, IsOk()) << change;
    EXPECT_EQ(config->Fingerprint(), plain) << change;
  }
}

}  // namespace
}  // namespace lockstep
