#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "router/text/tokenizer/tokenizer.h"

namespace lockstep::router {
namespace {

using nlohmann::json;

// What `convert_ids_to_tokens` of transformers gives: a token of the vocabulary as its file spells
// it, an added token as it is.
class VocabularyStringTest : public ::testing::TestWithParam<const char*> {};

TEST_P(VocabularyStringTest, IsTheSpellingOfTheFile) {
  std::ifstream file(std::string("tests/golden/") + GetParam());
  const json definition = json::parse(file);
  const auto tokenizer = Tokenizer::FromJson(definition.dump(), "", GetParam());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::set<TokenId> added;
  for (const json& token : definition["added_tokens"]) {
    const TokenId id = token["id"];
    added.insert(id);
    // Kept normalised, as it is looked for in normalised text.
    if (token["normalized"].get<bool>()) continue;
    EXPECT_EQ((*tokenizer)->VocabularyString(id), token["content"]) << id;
  }
  ASSERT_GT(definition["model"]["vocab"].size(), 256u);
  for (const auto& [spelling, id] : definition["model"]["vocab"].items()) {
    if (added.contains(id.get<TokenId>())) continue;
    EXPECT_EQ((*tokenizer)->VocabularyString(id), spelling) << id;
  }
  EXPECT_EQ((*tokenizer)->VocabularyString(1'000'000), "");
}

INSTANTIATE_TEST_SUITE_P(Models, VocabularyStringTest,
                         ::testing::Values("tiny-llama/tokenizer.json", "tiny-qwen3/tokenizer.json",
                                           "tokenizers/gpt2.json", "tokenizers/llama3.json",
                                           "tokenizers/qwen2.json", "tokenizers/smollm2.json",
                                           "tokenizers/added_tokens.json"));

}  // namespace
}  // namespace lockstep::router
