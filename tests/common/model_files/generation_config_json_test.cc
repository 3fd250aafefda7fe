#include <gtest/gtest.h>

#include "common/model_files/model_config.h"
#include "tests/common/config_json.h"
#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

TEST(GenerationConfigTest, GivesEndIdsAndSamplingDefaults) {
  const absl::StatusOr<ModelConfig> config = ReadJsonConfig(
      With(LlamaJson(), {{"eos_token_id", 2}}), {{"eos_token_id", {9, 7, 9}},
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

TEST(GenerationConfigTest, AbsentValuesAreOff) {
  const absl::StatusOr<ModelConfig> config =
      ReadJsonConfig(With(LlamaJson(), {{"eos_token_id", 2}}), {{"bos_token_id", 1}});
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->eos_token_ids, ElementsAre(2));
  EXPECT_EQ(config->generation_defaults.temperature, 1.0f);
  EXPECT_EQ(config->generation_defaults.top_k, 0u);
}

TEST(GenerationConfigTest, DoSampleFalseIsGreedy) {
  const absl::StatusOr<ModelConfig> config = ReadJsonConfig(
      LlamaJson(),
      {{"do_sample", false}, {"temperature", 0.5}, {"top_p", 0.75}, {"repetition_penalty", 1.5}});
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->generation_defaults.temperature, 0.0f);
  EXPECT_EQ(config->generation_defaults.top_p, 1.0f);
  EXPECT_EQ(config->generation_defaults.repetition_penalty, 1.5f);
}

TEST(GenerationConfigTest, RefusesWhatItCannotDo) {
  const std::pair<Json, const char*> cases[] = {
      {Json::array(), "generation_config.json: the file is []"},
      {{{"num_beams", 4}}, "generation_config.json: num_beams is 4, which would alter the result"},
      {{{"no_repeat_ngram_size", 3}}, "no_repeat_ngram_size is 3"},
      {{{"suppress_tokens", {1}}}, "suppress_tokens is [1]"},
      {{{"temperature", "hot"}}, "temperature is \"hot\""},
      {{{"temperature", -1}},
       "generation_config.json: temperature: expected 0 or a number in [0.001, 100], got -1"},
      {{{"top_p", 1.5}}, "generation_config.json: top_p: expected a number in (0, 1], got 1.5"},
      {{{"top_p", 0}}, "generation_config.json: top_p: expected a number in (0, 1], got 0"},
      {{{"top_k", -1}}, "top_k is -1"},
      {{{"min_p", 2}}, "generation_config.json: min_p: expected a number in [0, 1], got 2"},
      {{{"repetition_penalty", 0}},
       "generation_config.json: repetition_penalty: expected a number in (0, 10], got 0"},
      {{{"eos_token_id", {5, 5000}}}, "end token id 5000"}};
  for (const auto& [generation, expected] : cases) {
    EXPECT_THAT(ReadJsonConfig(LlamaJson(), generation), HasError(kInvalid, HasSubstr(expected)))
        << generation;
  }
}

}  // namespace
}  // namespace lockstep
