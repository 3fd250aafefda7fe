// Which keys of config.json are refused, at which values, and which ones only cost a warning.
#include <gtest/gtest.h>

#include "common/model_files/model_config.h"
#include "tests/common/config_json.h"
#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

Json Gpt2Json() {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"n_embd", 64},
          {"n_layer", 3},
          {"n_head", 4},
          {"vocab_size", 1000},
          {"n_positions", 2048}};
}

struct KeyCase {
  const char* key;
  Json changes_something;
  std::vector<Json> changes_nothing;
};

// The models have 3 layers, a hidden size of 64, and heads of 16.
const std::vector<KeyCase>& Cases() {
  static const std::vector<KeyCase> kCases = {
      {"add_cross_attention", true, {false}},
      {"alibi", true, {false}},
      {"use_alibi", true, {false}},
      {"attention_chunk_size", 8192, {0}},
      {"attention_multiplier", 0.015625, {0.25}},
      {"attn_logit_softcapping", 50.0, {0, 0.0}},
      {"attn_temperature_tuning", 4, {false, 0}},
      {"auto_map", {{"AutoModelForCausalLM", "x.Y"}}, {Json::object(), {{"AutoConfig", "x.Y"}}}},
      {"bias", true, {false}},
      {"clip_qkv", 8.0, {0}},
      {"dim_model_base", 256, {64}},
      {"embedding_multiplier", 12.0, {1, 1.0}},
      {"final_logit_softcapping", 30.0, {0}},
      {"is_encoder_decoder", true, {false}},
      {"kv_lora_rank", 512, {0}},
      {"layers_block_type", {"attention", "mamba", "mamba"}, {{"attention", "attention"}}},
      {"lm_head_bias", true, {false}},
      {"logit_scale", 0.0625, {1.0}},
      {"logits_scaling", 8.0, {1}},
      {"mlp_layer_types", {"dense", "sparse", "dense"}, {{"dense", "dense", "dense"}}},
      {"mlp_multipliers", {1.0, 0.5}, {{1.0, 1.0}}},
      {"mamba_d_state", 16, {0}},
      {"multi_query", true, {false}},
      {"n_routed_experts", 64, {0}},
      {"no_bias", false, {true}},
      {"no_rope_layers", {1, 1, 0}, {{1, 1, 1}, Json::array()}},
      {"num_experts", 8, {0}},
      {"num_experts_per_tok", 2, {0, 1}},
      {"num_kv_shared_layers", 4, {0}},
      {"num_local_experts", 8, {0, 1}},
      {"parallel_attn", true, {false}},
      {"partial_rotary_factor", 0.5, {1, 1.0}},
      {"pruned_heads", {{"0", {1}}}, {Json::object()}},
      {"q_lora_rank", 1536, {0}},
      {"qk_layernorm", true, {false}},
      {"quantization", {{"bits", 4}}, {Json::object()}},
      {"query_pre_attn_scalar", 256, {16}},
      {"reorder_and_upcast_attn", true, {false}},
      {"residual_multiplier", 0.22, {1.0}},
      {"rope_interleaved", true, {false}},
      {"rotary_dim", 8, {16}},
      {"rotary_emb_base", 20000, {10000}},
      {"rotary_pct", 0.25, {1.0}},
      {"scale_attn_by_inverse_layer_idx", true, {false}},
      {"scale_attn_weights", false, {true}},
      {"scale_emb", 12, {1}},
      {"scale_embedding", true, {false}},
      {"sliding_window_pattern", 4, {0, 1}},
      {"swiglu_limit", 7.0, {0}},
      {"use_bidirectional_attention", true, {false}},
      {"use_mrope", true, {false}},
      {"use_parallel_residual", true, {false}},
      {"use_post_norm", true, {false}},
      {"use_qk_norm", true, {false}},
      {"use_qkv_bias", true, {false}},
      {"v_head_dim", 8, {16, 0}},
      {"vision_config", {{"depth", 32}}, {Json::object()}},
      {"word_embed_proj_dim", 512, {64}},
  };
  return kCases;
}

TEST(ConfigKeysTest, AKeyThatSomeModelComputesWithIsRefusedUnlessItChangesNothing) {
  const uint64_t plain = ReadJsonConfig(LlamaJson())->Fingerprint();
  for (const KeyCase& entry : Cases()) {
    SCOPED_TRACE(entry.key);
    EXPECT_THAT(ReadJsonConfig(With(LlamaJson(), {{entry.key, entry.changes_something}})),
                HasError(kInvalid, AllOf(HasSubstr("models/tiny/config.json"),
                                         HasSubstr(std::string(entry.key) + " is "),
                                         HasSubstr("which would alter the result"))));
    std::vector<Json> neutral = entry.changes_nothing;
    neutral.push_back(nullptr);
    for (const Json& value : neutral) {
      const absl::StatusOr<ModelConfig> config =
          ReadJsonConfig(With(LlamaJson(), {{entry.key, value}}));
      ASSERT_THAT(config, IsOk()) << value;
      EXPECT_EQ(config->Fingerprint(), plain) << value;
      EXPECT_THAT(config->warnings, IsEmpty()) << value;
    }
  }
}

TEST(ConfigKeysTest, WhatAFamilyHasAnywayIsNeutral) {
  EXPECT_THAT(ReadJsonConfig(With(Qwen3Json(), {{"use_qk_norm", true}})), IsOk());
  EXPECT_THAT(ReadJsonConfig(With(Qwen2Json(), {{"use_qkv_bias", true}, {"qkv_bias", true}})),
              IsOk());
  EXPECT_THAT(ReadJsonConfig(With(LlamaJson(), {{"position_embedding_type", "rope"}})), IsOk());
  EXPECT_THAT(ReadJsonConfig(With(LlamaJson(), {{"position_embedding_type", "alibi"}})),
              HasError(kInvalid, HasSubstr("position_embedding_type is \"alibi\"")));
  EXPECT_THAT(ReadJsonConfig(With(Gpt2Json(), {{"position_embedding_type", "absolute"}})), IsOk());
  EXPECT_THAT(ReadJsonConfig(With(Gpt2Json(), {{"use_bias", true}})), IsOk());
}

TEST(ConfigKeysTest, OtherKeysAreNamedInOneWarning) {
  for (const Json& base : {LlamaJson(), Qwen2Json(), Qwen3Json(), Gpt2Json()}) {
    const absl::StatusOr<ModelConfig> config =
        ReadJsonConfig(With(base, {{"_num_labels", 1},
                                   {"n_special", 0},
                                   {"predict_special_tokens", true},
                                   {"output_past", true},
                                   {"some_future_key", {1, 2}},
                                   {"null_key", nullptr},
                                   {"use_cache", true},
                                   {"torch_dtype", "bfloat16"}}));
    ASSERT_THAT(config, IsOk());
    EXPECT_THAT(
        config->warnings,
        ElementsAre(
            "models/tiny/config.json: keys that no known model computes with are ignored: "
            "_num_labels, n_special, output_past, predict_special_tokens, some_future_key"));
    EXPECT_EQ(config->Fingerprint(), ReadJsonConfig(base)->Fingerprint());
  }
}

TEST(ConfigKeysTest, TheWarningIsShortAndOfOneLine) {
  Json config = With(LlamaJson(), {{std::string(1 << 20, 'k') + "1", 1}, {"a\nb\x1b[31m", 1}});
  for (int i = 0; i < 1000; ++i) config["zz" + std::to_string(i)] = i;
  const absl::StatusOr<ModelConfig> read = ReadJsonConfig(config);
  ASSERT_THAT(read, IsOk());
  ASSERT_EQ(read->warnings.size(), 1u);
  EXPECT_LT(read->warnings[0].size(), 1000u);
  EXPECT_THAT(read->warnings[0], AllOf(HasSubstr("a\\nb\\x1b[31m"), HasSubstr(" and 982 more"),
                                       Not(HasSubstr("\n")), Not(HasSubstr("\x1b"))));
}

TEST(ConfigKeysTest, AFlagThatTheFamilyDoesNotReadCostsAWarning) {
  const absl::StatusOr<ModelConfig> config =
      ReadJsonConfig(With(Qwen2Json(), {{"attention_bias", false}}));
  ASSERT_THAT(config, IsOk());
  EXPECT_TRUE(config->attention_qkv_bias);
  EXPECT_THAT(config->warnings, ElementsAre(HasSubstr("attention_bias is false, but qwen2")));
}

}  // namespace
}  // namespace lockstep
