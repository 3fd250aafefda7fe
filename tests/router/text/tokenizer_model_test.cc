// The tokenizer and chat template inside SmolLM2's GGUF file.
#include <gtest/gtest.h>

#include <filesystem>

#include "common/model_files/tokenizer/vocabulary.h"
#include "tests/router/templates/test_templates.h"
#include "tests/router/text/golden_corpus.h"

namespace lockstep::router {
namespace {

constexpr const char* kModelPath = ".models/SmolLM2-135M-Instruct.Q4_1.gguf";

class SmolLm2TokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(std::filesystem::exists(kModelPath))
        << kModelPath << " is missing: run deploy/fetch-model";
    auto tokenizer = Tokenizer::Load(kModelPath);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
  }

  std::unique_ptr<const Tokenizer> tokenizer_;
};

TEST_F(SmolLm2TokenizerTest, IdsEqualTheReference) {
  const std::vector<std::string> strings = ReadGoldenStrings();
  const auto cases = ReadGoldenCases("smollm2_gguf.ids");
  EXPECT_GE(ExpectGoldenIds(*tokenizer_, cases, strings), 10'000u);
  ExpectRoundTrip(*tokenizer_, strings, /*normalized=*/false);
}

TEST_F(SmolLm2TokenizerTest, TheVocabularyHasItsTokens) {
  const auto vocabulary = LoadVocabulary(kModelPath, tokenizer_->vocab_size());
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  for (TokenId id = 0; id < vocabulary->size(); ++id) {
    ASSERT_EQ((*vocabulary)[id].bytes, tokenizer_->TokenBytes(id)) << id;
    ASSERT_EQ((*vocabulary)[id].special, tokenizer_->IsSpecial(id)) << id;
  }
}

TEST_F(SmolLm2TokenizerTest, KnowsItsSpecialTokens) {
  EXPECT_EQ(tokenizer_->vocab_size(), 49152u);
  EXPECT_EQ(tokenizer_->bos_token_id(), 1u);
  EXPECT_EQ(tokenizer_->eos_token_id(), 2u);
  EXPECT_EQ(tokenizer_->FindToken("<|im_end|>"), 2u);
  EXPECT_TRUE(tokenizer_->IsSpecial(2));
  EXPECT_EQ(tokenizer_->TokenBytes(1), "<|im_start|>");
}

TEST_F(SmolLm2TokenizerTest, DigitsAreSplitOffBeforeThePattern) {
  const auto text_of = [&](std::string_view text) {
    std::vector<std::string> pieces;
    const auto ids = tokenizer_->Encode(text, {});
    EXPECT_TRUE(ids.ok()) << ids.status();
    for (const TokenId id : *ids) pieces.emplace_back(tokenizer_->TokenBytes(id));
    return pieces;
  };
  EXPECT_EQ(text_of("   1"), (std::vector<std::string>{"   ", "1"}));
  EXPECT_EQ(text_of("\n0"), (std::vector<std::string>{"\n", "0"}));
}

TEST_F(SmolLm2TokenizerTest, RendersItsChatTemplate) {
  const auto chat = lockstep::testing::LoadTestTemplate(tokenizer_->templates());
  ASSERT_TRUE(chat.ok()) << chat.status();
  const std::vector<ChatMessage> messages = {{"user", "What is the capital of France?", ""}};
  const auto prompt = (*chat)->Render(messages, {});
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_EQ(*prompt,
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<|im_end|>\n<|im_start|>user\nWhat is the capital of France?<|im_end|>\n"
            "<|im_start|>assistant\n");
  const auto ids = tokenizer_->Encode(*prompt, {.parse_special_tokens = true});
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ(std::count(ids->begin(), ids->end(), 1u), 3);
  EXPECT_EQ(std::count(ids->begin(), ids->end(), 2u), 2);
}

}  // namespace
}  // namespace lockstep::router
