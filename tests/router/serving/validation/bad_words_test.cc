#include "router/serving/validation/bad_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/status.h"
#include "tests/router/serving/byte_tokenizer.h"
#include "tests/router/text/golden_corpus.h"

namespace lockstep::router {
namespace {

using ::lockstep::testing::ByteTokenizer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

absl::StatusOr<std::vector<TokenId>> TokensOf(const Tokenizer& tokenizer,
                                              const std::vector<std::string>& words) {
  return BadWordTokens(tokenizer, {words.begin(), words.end()});
}

TEST(BadWordsTest, AWordIsForbiddenWithAndWithoutASpace) {
  const auto tokenizer = Tokenizer::FromJson(ReadGoldenFile("llama3.json"), "", "llama3.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto id = [&](const std::string& text) { return (*tokenizer)->FindToken(text).value(); };
  for (const std::string word : {"the", " the", "\n\xE3\x80\x80the"}) {
    const auto tokens = TokensOf(**tokenizer, {word});
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    EXPECT_THAT(*tokens, UnorderedElementsAre(id("the"), id(" the"))) << word;
  }
  const auto special = TokensOf(**tokenizer, {"<|eot_id|>"});
  ASSERT_TRUE(special.ok()) << special.status();
  EXPECT_THAT(*special, ElementsAre(id("<|eot_id|>")));
}

TEST(BadWordsTest, ASpellingOfSeveralTokensAfterASpaceIsLeftOut) {
  const ByteTokenizer tokenizer;
  EXPECT_THAT(*TokensOf(tokenizer, {"b", "a", " b", "<|im_end|>"}),
              ElementsAre('a', 'b', ByteTokenizer::kEnd));
  EXPECT_THAT(*TokensOf(tokenizer, {}), IsEmpty());
}

TEST(BadWordsTest, WordsOfSeveralTokensAreRefusedByName) {
  const ByteTokenizer tokenizer;
  const absl::Status status = TokensOf(tokenizer, {"a", "bc"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Message(status),
              HasSubstr("sampling.bad_words[1]: words of several tokens are not implemented, "
                        "\"bc\" has 2"));
}

TEST(BadWordsTest, AWordOfWhiteSpaceIsNone) {
  const ByteTokenizer tokenizer;
  const absl::Status status = TokensOf(tokenizer, {" \t"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("sampling.bad_words[0]: expected a word, got \" \\t\""));
}

}  // namespace
}  // namespace lockstep::router
