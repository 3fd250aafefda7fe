// Ids equal to those of Hugging Face `tokenizers`, and text that comes back, for the four families.
#include <gtest/gtest.h>

#include "tests/router/text/golden_corpus.h"

namespace lockstep::router {
namespace {

struct Family {
  const char* name;
  bool normalizes;  // text to NFC
};

class TokenizerGoldenTest : public testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    const std::string name = std::string(GetParam().name) + ".json";
    auto tokenizer = Tokenizer::FromJson(ReadGoldenFile(name), "", name);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
    strings_ = ReadGoldenStrings();
    ASSERT_GE(strings_.size(), 10'000u);
  }

  std::unique_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> strings_;
};

TEST_P(TokenizerGoldenTest, IdsEqualTheReference) {
  const auto cases = ReadGoldenCases(std::string(GetParam().name) + ".ids");
  EXPECT_GE(ExpectGoldenIds(*tokenizer_, cases, strings_), strings_.size());
  size_t num_parsed = 0;
  for (const GoldenCase& golden : cases) num_parsed += golden.options.parse_special_tokens;
  EXPECT_GE(num_parsed, 1'000u);
}

TEST_P(TokenizerGoldenTest, TextComesBack) {
  ExpectRoundTrip(*tokenizer_, strings_, GetParam().normalizes);
}

TEST(AddedTokenGoldenTest, FlagsMeanWhatTheyMeanInTheReference) {
  const auto tokenizer = Tokenizer::FromJson(ReadGoldenFile("added_tokens.json"), "", "added_tokens");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  ExpectGoldenIds(**tokenizer, ReadGoldenCases("added_tokens.ids"), ReadGoldenStrings());
}

INSTANTIATE_TEST_SUITE_P(Families, TokenizerGoldenTest,
                         testing::Values(Family{"gpt2", false}, Family{"llama3", false},
                                         Family{"qwen2", true}, Family{"smollm2", false}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep::router
