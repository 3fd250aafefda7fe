// How long the context is, and how the two spellings of scaling go together.
#include <gtest/gtest.h>

#include <cmath>

#include "common/model_files/model_config.h"
#include "tests/common/config_json.h"
#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

struct ContextCase {
  const char* what;
  Json change;  // of a config whose max_position_embeddings is 2048
  uint32_t context;
};

// As vLLM 0.33 derives it, except that a file which says a longer context keeps it.
TEST(RopeContextTest, ScalingExtendsTheContext) {
  const auto yarn = [](Json more) {
    return Json{{"rope_scaling", With({{"rope_type", "yarn"}, {"factor", 4.0}}, more)}};
  };
  const ContextCase cases[] = {
      {"no scaling", Json::object(), 2048},
      {"YaRN over the whole context", yarn({{"original_max_position_embeddings", 2048}}), 8192},
      {"YaRN over half of it", yarn({{"original_max_position_embeddings", 1024}}), 4096},
      {"YaRN, and the file has the result",
       With(yarn({{"original_max_position_embeddings", 2048}}),
            {{"max_position_embeddings", 8192}}),
       8192},
      {"YaRN, and the file has more",
       With(yarn({{"original_max_position_embeddings", 2048}}),
            {{"max_position_embeddings", 10240}}),
       10240},
      {"YaRN without an original", yarn({}), 8192},
      {"YaRN with a broken factor",
       yarn({{"original_max_position_embeddings", 2048}, {"factor", 2.5}}), 5120},
      {"YaRN without a factor",
       yarn({{"original_max_position_embeddings", 512}, {"factor", nullptr}}), 2048},
      {"YaRN in the old spelling",
       {{"rope_scaling",
         {{"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 2048}}}},
       8192},
      {"YaRN in the spelling of transformers 5",
       {{"rope_parameters",
         {{"rope_type", "yarn"},
          {"rope_theta", 1e6},
          {"factor", 4.0},
          {"original_max_position_embeddings", 2048}}}},
       8192},
      {"YaRN with the original beside it, as in Phi's files",
       With(yarn({}), {{"original_max_position_embeddings", 1024}}), 4096},
      {"linear", {{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}}, 8192},
      {"Llama 3",
       {{"rope_scaling",
         {{"rope_type", "llama3"},
          {"factor", 8.0},
          {"low_freq_factor", 1.0},
          {"high_freq_factor", 4.0},
          {"original_max_position_embeddings", 512}}}},
       2048},
      {"none by name", {{"rope_scaling", {{"rope_type", "default"}}}}, 2048},
      {"attention over chunks, beyond one chunk",
       {{"dual_chunk_attention_config",
         {{"chunk_size", 1024}, {"local_size", 64}, {"original_max_position_embeddings", 1024}}}},
       1024},
      {"attention over chunks that are longer",
       {{"dual_chunk_attention_config", {{"chunk_size", 4096}, {"local_size", 64}}}},
       2048},
  };
  for (const ContextCase& entry : cases) {
    const absl::StatusOr<ModelConfig> config = ReadJsonConfig(With(Qwen2Json(), entry.change));
    ASSERT_THAT(config, IsOk()) << entry.what;
    EXPECT_EQ(config->max_context_tokens, entry.context) << entry.what;
  }
}

TEST(RopeContextTest, AContextBeyondAllBoundsIsRefused) {
  EXPECT_THAT(
      ReadJsonConfig(With(Qwen2Json(), {{"rope_scaling", {{"type", "linear"}, {"factor", 1e30}}}})),
      HasError(kInvalid, HasSubstr("context length is ")));
}

TEST(RopeContextTest, AFactorThatShortensIsRefused) {
  for (const char* const type : {"linear", "yarn"}) {
    for (const double factor : {-1e30, -2.0, -0.1, 0.0, 0.5}) {
      EXPECT_THAT(ReadJsonConfig(With(
                      Qwen2Json(), {{"rope_scaling", {{"rope_type", type}, {"factor", factor}}}})),
                  HasError(kInvalid, HasSubstr("rope factor is ")))
          << type << " " << factor;
    }
  }
}

TEST(RopeContextTest, BothSpellingsBesideEachOtherMustAgree) {
  const Json old_names = {
      {"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 1024}};
  const Json new_names = {{"rope_type", "yarn"},
                          {"rope_theta", 1e6},
                          {"factor", 4.0},
                          {"original_max_position_embeddings", 1024},
                          {"beta_fast", 32.0}};
  struct Case {
    Json change;
    bool agree;
  };
  const Case cases[] = {
      {{{"rope_scaling", old_names}, {"rope_parameters", new_names}}, true},
      {{{"rope_theta", 1e6}, {"rope_scaling", old_names}, {"rope_parameters", new_names}}, true},
      {{{"rope_theta", 1e6},
        {"rope_scaling", With(old_names, {{"rope_type", "yarn"}})},
        {"rope_parameters", With(new_names, {{"rope_theta", "absent"}})}},
       true},
      {{{"rope_scaling", Json::object()}, {"rope_parameters", new_names}}, true},
      {{{"rope_scaling", nullptr}, {"rope_parameters", new_names}}, true},
      {{{"rope_scaling", {{"type", "default"}}},
        {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e6}}}},
       true},
      {{{"rope_scaling", old_names}, {"rope_parameters", With(new_names, {{"factor", 2.0}})}},
       false},
      {{{"rope_scaling", old_names}, {"rope_parameters", With(new_names, {{"beta_fast", 16.0}})}},
       false},
      {{{"rope_scaling", With(old_names, {{"rope_theta", 1e4}})}, {"rope_parameters", new_names}},
       false},
      {{{"rope_scaling", old_names}, {"rope_parameters", {{"rope_type", "default"}}}}, false},
  };
  for (const Case& entry : cases) {
    const absl::StatusOr<ModelConfig> config = ReadJsonConfig(With(Qwen2Json(), entry.change));
    if (entry.agree) {
      EXPECT_THAT(config, IsOk()) << entry.change;
    } else {
      EXPECT_THAT(config, HasError(kInvalid, HasSubstr("rope_scaling and rope_parameters are both "
                                                       "given and differ")))
          << entry.change;
    }
  }
}

TEST(RopeContextTest, VllmsNameForTheAttentionFactorScalesTheFormula) {
  const Json scaling = {{"rope_type", "yarn"},
                        {"factor", 4.0},
                        {"original_max_position_embeddings", 512},
                        {"attn_factor", 0.8782488562869419}};
  const auto factor = [](const Json& object) {
    return ReadJsonConfig(With(Qwen3Json(), {{"rope_scaling", object}}))
        ->rope.yarn_attention_factor;
  };
  EXPECT_NEAR(*factor(scaling), 1.0, 1e-12);
  EXPECT_EQ(factor(With(scaling, {{"attention_factor", 1.5}})), 1.5);
  EXPECT_EQ(factor(With(scaling, {{"attn_factor", "absent"}})), std::nullopt);
}

}  // namespace
}  // namespace lockstep
