// Readers that cut no texts must see the tokens that the tokenizer sees.
#include "common/model_files/tokenizer/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "router/text/tokenizer/tokenizer.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep::router {
namespace {

using ::testing::HasSubstr;

TEST(VocabularyTest, HasTheTokensOfTheTokenizer) {
  for (const char* const name : {"tiny-llama", "tiny-qwen2", "tiny-qwen3"}) {
    SCOPED_TRACE(name);
    const std::string path = std::string("tests/golden/") + name;
    const auto tokenizer = Tokenizer::Load(path);
    ASSERT_THAT(tokenizer, IsOk());
    // A model may have more ids than its tokenizer has tokens, and fewer.
    for (const uint32_t vocab_size : {(*tokenizer)->vocab_size() + 7, 300u}) {
      const auto vocabulary = LoadVocabulary(path, vocab_size);
      ASSERT_THAT(vocabulary, IsOk());
      ASSERT_EQ(vocabulary->size(), vocab_size);
      uint32_t num_special = 0;
      for (TokenId id = 0; id < vocab_size; ++id) {
        const VocabularyToken& token = (*vocabulary)[id];
        EXPECT_EQ(token.bytes, (*tokenizer)->TokenBytes(id)) << id;
        EXPECT_EQ(token.special, (*tokenizer)->IsSpecial(id)) << id;
        num_special += token.special ? 1 : 0;
      }
      EXPECT_TRUE(num_special > 0 || vocab_size == 300u);
    }
  }
}

TEST(VocabularyTest, BadFilesAreNamed) {
  EXPECT_THAT(LoadVocabulary("/nonexistent", 10),
              HasError(absl::StatusCode::kNotFound, HasSubstr("/nonexistent")));
  const TempFolder folder;
  folder.Write("tokenizer.json", R"({"model": {"vocab": {"a": -1}}})");
  EXPECT_THAT(LoadVocabulary(folder.path(), 10), HasError(kInvalid, HasSubstr("vocab")));
  folder.Write("tokenizer.json", R"({"model": {}})");
  EXPECT_THAT(LoadVocabulary(folder.path(), 10), HasError(kInvalid, HasSubstr("vocab")));
}

}  // namespace
}  // namespace lockstep::router
