#include "router/text/token_offsets.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "router/text/unicode/utf8.h"
#include "tests/router/text/golden_corpus.h"
#include "tests/router/text/tiny_tokenizer.h"

namespace lockstep::router {
namespace {

using nlohmann::json;

std::vector<TokenId> IdsOf(const Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.Encode(text, {.parse_special_tokens = true});
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.value_or(std::vector<TokenId>());
}

TEST(TokenOffsetsTest, AreThoseOfTheReference) {
  const json golden = json::parse(ReadGoldenFile("token_offsets.json"));
  for (const auto& [family, texts] : golden.items()) {
    const std::string name = family + ".json";
    const auto tokenizer = Tokenizer::FromJson(ReadGoldenFile(name), "", name);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    const size_t num_before = (*tokenizer)->prefix_ids().size();
    size_t num_wrong = 0;
    for (const json& entry : texts) {
      const std::string text = entry[0];
      std::vector<uint32_t> expected(num_before, 0);
      for (const json& offset : entry[1]) expected.push_back(offset);
      const std::vector<uint32_t> offsets =
          TokenOffsets(**tokenizer, text, IdsOf(**tokenizer, text));
      if (offsets == expected || ++num_wrong > 5) continue;
      EXPECT_EQ(offsets, expected) << family << ": " << entry[0];
    }
    EXPECT_EQ(num_wrong, 0u) << family << " of " << texts.size();
  }
}

// The tokens around a text begin at its ends, whatever the text spells.
TEST(TokenOffsetsTest, TokensAroundTheTextAreAtItsEnds) {
  json definition = TinyTokenizerJson();
  definition["post_processor"] = json::parse(R"({
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "<tool>", "type_id": 0}}],
    "pair": [],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [261], "tokens": ["<s>"]},
                       "<tool>": {"id": "<tool>", "ids": [262], "tokens": ["<tool>"]}}})");
  const auto tokenizer = LoadTiny(definition);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::pair<const char*, std::vector<uint32_t>> cases[] = {
      {"", {0, 0}},
      {"ab", {0, 0, 1, 2}},
      {"<s>a", {0, 0, 3, 4}},
      {"\xC3\xA9x", {0, 0, 0, 1, 2}},
      {"a<tool>", {0, 0, 1, 7}},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(TokenOffsets(**tokenizer, text, IdsOf(**tokenizer, text)), expected) << text;
  }
}

TEST(TokenOffsetsTest, WhiteSpaceThatATokenTakesAlongIsSkipped) {
  json definition = TinyTokenizerJson();
  definition["added_tokens"][1]["lstrip"] = true;
  definition["added_tokens"][1]["rstrip"] = true;
  const auto tokenizer = LoadTiny(definition);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(TokenOffsets(**tokenizer, "a  <tool>\n b", IdsOf(**tokenizer, "a  <tool>\n b")),
            (std::vector<uint32_t>{0, 3, 11}));
}

// Where the text and the tokens do not fit at all, the result still has a place for each token, and
// takes linear time.
TEST(TokenOffsetsTest, ForeignTokensGetSomePlace) {
  const auto tokenizer = LoadTiny(TinyTokenizerJson());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += i % 3 == 0 ? "\xCC\x81" : "q";
  std::vector<TokenId> ids(400'000, 'z');
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<uint32_t> offsets = TokenOffsets(**tokenizer, text, ids);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  ASSERT_EQ(offsets.size(), ids.size());
  for (size_t i = 1; i < offsets.size(); ++i) ASSERT_LE(offsets[i - 1], offsets[i]);
  EXPECT_LE(offsets.back(), 200'000u);
}

}  // namespace
}  // namespace lockstep::router
