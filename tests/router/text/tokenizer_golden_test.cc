// Ids equal to those of Hugging Face `tokenizers`, and text that comes back, for the four families.
#include <gtest/gtest.h>

#include <thread>

#include "common/status.h"
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
  const auto tokenizer =
      Tokenizer::FromJson(ReadGoldenFile("added_tokens.json"), "", "added_tokens");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  ExpectGoldenIds(**tokenizer, ReadGoldenCases("added_tokens.ids"), ReadGoldenStrings());
}

TEST(OwnPatternGoldenTest, PatternsRunByTheLibraryGiveTheSameIds) {
  const auto tokenizer = Tokenizer::FromJson(ReadGoldenFile("own_pattern.json"), "", "own_pattern");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::vector<std::string> strings = ReadGoldenStrings();
  EXPECT_GE(ExpectGoldenIds(**tokenizer, ReadGoldenCases("own_pattern.ids"), strings), 2'000u);
  ExpectRoundTrip(**tokenizer, strings, /*normalized=*/false);
}

TEST(SharedTokenizerTest, ThreadsGetTheSameIds) {
  for (const char* name : {"own_pattern", "qwen2"}) {
    const auto tokenizer =
        Tokenizer::FromJson(ReadGoldenFile(fmt::format("{}.json", name)), "", name);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    const std::vector<std::string> strings = ReadGoldenStrings();
    const auto cases = ReadGoldenCases(fmt::format("{}.ids", name));
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (size_t i = 0; i < cases.size(); i += 8) {
          const auto ids = (*tokenizer)->Encode(strings[cases[i].string_index], cases[i].options);
          ASSERT_TRUE(ids.ok() && *ids == cases[i].ids);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TokenizerGoldenTest,
                         testing::Values(Family{"gpt2", false}, Family{"llama3", false},
                                         Family{"qwen2", true}, Family{"smollm2", false}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep::router
