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
  EXPECT_THAT(config->eos_token_ids, ElementsAre(2, 7, 9)) << "those of both files";
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

struct DefaultCase {
  Json generation;
  SamplingNumbers expected;
};

// As in requests, where -1 means "all" and tiny temperatures are raised.
TEST(GenerationConfigTest, WhatARequestMayAskForADefaultMay) {
  const DefaultCase cases[] = {
      {{{"top_k", -1}}, {}},
      {{{"top_k", 0}}, {}},
      {{{"top_k", nullptr}, {"temperature", nullptr}}, {}},
      {{{"temperature", 1e-6}}, {.temperature = 1e-3f}},
      {{{"temperature", 1e-9}, {"do_sample", true}}, {.temperature = 1e-3f}},
      {{{"temperature", 0}}, {.temperature = 0}},
      {{{"temperature", 0.0}, {"top_p", 1.0}, {"top_k", 1}}, {.temperature = 0, .top_k = 1}},
      {{{"temperature", 100}}, {.temperature = 100}},
      {{{"top_p", 1}}, {}},
      {{{"min_p", 0}}, {}},
      {{{"repetition_penalty", 1}}, {}},
      {{{"top_k", 4294967295}}, {.top_k = 4294967295}},
      {{{"do_sample", nullptr}, {"top_k", 50}}, {.top_k = 50}},
      {{{"num_beams", 1}, {"no_repeat_ngram_size", 0}, {"suppress_tokens", nullptr}}, {}},
  };
  for (const DefaultCase& entry : cases) {
    const absl::StatusOr<ModelConfig> config = ReadJsonConfig(LlamaJson(), entry.generation);
    ASSERT_THAT(config, IsOk()) << entry.generation;
    EXPECT_EQ(config->generation_defaults, entry.expected) << entry.generation;
    EXPECT_THAT(config->warnings, IsEmpty()) << entry.generation;
  }
}

TEST(GenerationConfigTest, AnyOtherDefaultIsLeftOutWithAWarning) {
  const std::pair<Json, const char*> cases[] = {
      {{{"num_beams", 4}}, "num_beams is 4, which would alter the result and is not supported"},
      {{{"no_repeat_ngram_size", 3}}, "no_repeat_ngram_size is 3"},
      {{{"suppress_tokens", {1}}}, "suppress_tokens is [1]"},
      {{{"stop_strings", {"a"}}}, "stop_strings is [\"a\"]"},
      {{{"guidance_scale", 1.5}}, "guidance_scale is 1.5"},
      {{{"temperature", "hot"}}, "temperature is \"hot\", expected a number"},
      {{{"temperature", -1}}, "temperature is -1, expected 0 or a number in [0.001, 100]"},
      {{{"temperature", 1e300}}, "temperature is 1e+300"},
      {{{"top_p", 1.5}}, "top_p is 1.5, expected a number in (0, 1]"},
      {{{"top_p", 0}}, "top_p is 0, expected a number in (0, 1]"},
      {{{"top_k", -5}}, "top_k is -5, expected -1 or an integer from 0 to 4294967295"},
      {{{"top_k", 1.5}}, "top_k is 1.5"},
      {{{"top_k", 1e12}}, "top_k is 1"},
      {{{"top_k", {1}}}, "top_k is [1], expected a number"},
      {{{"min_p", 2}}, "min_p is 2, expected a number in [0, 1]"},
      {{{"repetition_penalty", 0}}, "repetition_penalty is 0, expected a number in (0, 10]"},
      {{{"do_sample", "yes"}}, "do_sample is \"yes\", expected true or false"},
      {{{"eos_token_id", {5, 5000}}}, "end token id 5000 is not below the vocabulary size 1000"},
      {{{"eos_token_id", "</s>"}}, "eos_token_id is \"</s>\", expected a token id"},
  };
  for (const auto& [generation, expected] : cases) {
    const absl::StatusOr<ModelConfig> config = ReadJsonConfig(LlamaJson(), generation);
    ASSERT_THAT(config, IsOk()) << generation;
    EXPECT_EQ(config->generation_defaults, SamplingNumbers()) << generation;
    EXPECT_THAT(
        config->warnings,
        ElementsAre(AllOf(HasSubstr("models/tiny/generation_config.json: "), HasSubstr(expected))))
        << generation;
  }
}

TEST(GenerationConfigTest, AFileThatIsNoObjectIsRefused) {
  EXPECT_THAT(ReadJsonConfig(LlamaJson(), Json::array()),
              HasError(kInvalid, HasSubstr("generation_config.json: the file is []")));
}

}  // namespace
}  // namespace lockstep
