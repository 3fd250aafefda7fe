// Text prompts that spell special tokens, against transformers.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/status.h"
#include "router/serving/prompts/prompt_encoder.h"
#include "tests/router/text/golden_corpus.h"

namespace lockstep::router {
namespace {

class SpecialTextTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto tokenizer = Tokenizer::FromJson(ReadGoldenFile(GetParam() + ".json"), "", GetParam());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    model_.tokenizer = *std::move(tokenizer);
    const auto golden = nlohmann::json::parse(ReadGoldenFile("special_texts.json"), nullptr, false);
    ASSERT_TRUE(golden.is_object());
    cases_ = golden.at(GetParam());
    ASSERT_EQ(cases_.size(), 500u);
  }

  ServedModel model_;
  std::vector<std::pair<std::string, std::vector<TokenId>>> cases_;
};

TEST_P(SpecialTextTest, IdsAreThoseOfTransformersByDefault) {
  const PromptEncoder encoder(model_);
  for (const auto& [text, ids] : cases_) {
    lockstep::v1::GenerateRequest request;
    request.set_text(text);
    const auto encoded = encoder.Encode(request);
    ASSERT_TRUE(encoded.ok()) << encoded.status() << "\n" << text;
    EXPECT_EQ(*encoded, ids) << text;
  }
}

TEST_P(SpecialTextTest, WithoutParsingTheTextHasNone) {
  const PromptEncoder encoder(model_, /*parse_special=*/false);
  for (const auto& [text, ids] : cases_) {
    const auto plain = encoder.EncodeText(text, {.add_special_tokens = false});
    ASSERT_TRUE(plain.ok()) << plain.status() << "\n" << text;
    EXPECT_FALSE(std::any_of(plain->begin(), plain->end(), [this](TokenId id) {
      return model_.tokenizer->IsSpecial(id);
    })) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, SpecialTextTest,
                         ::testing::Values("gpt2", "llama3", "qwen2", "smollm2"),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace lockstep::router
