#include "router/text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "router/text/unicode/utf8.h"
#include "tests/router/text/golden_corpus.h"
#include "tests/router/text/tiny_tokenizer.h"

namespace lockstep::router {
namespace {

TEST(DetokenizerTest, WaitsForWholeCharacters) {
  const auto tokenizer = LoadTiny(TinyTokenizerJson());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  IncrementalDetokenizer detokenizer(**tokenizer, /*skip_special_tokens=*/false);
  EXPECT_EQ(detokenizer.Push(0xE2), "");  // U+20AC, byte by byte
  EXPECT_EQ(detokenizer.Push(0x82), "");
  EXPECT_EQ(detokenizer.Push(0xAC), "\u20ac");
  EXPECT_EQ(detokenizer.Push(260), " hello");
  EXPECT_EQ(detokenizer.Push(0xE2), "");
  EXPECT_EQ(detokenizer.Push('a'), "\uFFFDa");  // it can no longer become a character
  EXPECT_EQ(detokenizer.Push(0xC3), "");
  EXPECT_EQ(detokenizer.Flush(), "\uFFFD");
  EXPECT_EQ(detokenizer.Flush(), "");
}

TEST(DetokenizerTest, SpecialTokensAreShownOnlyWhenAskedFor) {
  const auto tokenizer = LoadTiny(TinyTokenizerJson());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  IncrementalDetokenizer hiding(**tokenizer, /*skip_special_tokens=*/true);
  EXPECT_EQ(hiding.Push(0xC3), "");
  EXPECT_EQ(hiding.Push(261), "");  // a hidden token does not end the character
  EXPECT_EQ(hiding.Push(0xA9), "\u00e9");
  EXPECT_EQ(hiding.Push(262), "<tool>");
  IncrementalDetokenizer showing(**tokenizer, /*skip_special_tokens=*/false);
  EXPECT_EQ(showing.Push(261), "<s>");
}

TEST(DetokenizerTest, PiecesJoinToTheWholeTextForAnyIds) {
  std::mt19937 rng(17);
  for (const char* name : {"gpt2.json", "qwen2.json"}) {
    const auto tokenizer = Tokenizer::FromJson(ReadGoldenFile(name), "", name);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    for (int round = 0; round < 5'000; ++round) {
      const bool skip_special_tokens = rng() % 2 == 0;
      IncrementalDetokenizer detokenizer(**tokenizer, skip_special_tokens);
      std::vector<TokenId> ids(rng() % 24);
      std::string joined;
      for (TokenId& id : ids) {
        // Half of them single bytes, where characters break.
        id = rng() % ((rng() % 2 == 0) ? 256 : (*tokenizer)->vocab_size());
        const std::string piece = detokenizer.Push(id);
        ASSERT_EQ(FindInvalidUtf8(piece), std::nullopt);
        joined += piece;
      }
      joined += detokenizer.Flush();
      ASSERT_EQ(joined, (*tokenizer)->Decode(ids, skip_special_tokens));
    }
  }
}

}  // namespace
}  // namespace lockstep::router
