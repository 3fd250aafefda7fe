#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/model_files/tokenizer/byte_alphabet.h"
#include "common/status.h"
#include "router/text/tokenizer/tokenizer.h"
#include "tests/common/gguf_builder.h"
#include "tests/common/temp_folder.h"

namespace lockstep::router {
namespace {

using Ids = std::vector<TokenId>;
using testing::HasSubstr;

constexpr int32_t kNormal = 1;
constexpr int32_t kControl = 3;
constexpr int32_t kUserDefined = 4;
constexpr int32_t kUnused = 5;

// 256 bytes, "he" (256), "<s>" (257, control), "<u>" (258, user defined), an unused id (259).
struct TinyGguf {
  TinyGguf() {
    for (int byte = 0; byte < 256; ++byte)
      tokens.push_back(ByteToAlphabet(static_cast<uint8_t>(byte)));
    types.assign(256, kNormal);
    const auto add = [this](const char* text, int32_t type) {
      tokens.emplace_back(text);
      types.push_back(type);
    };
    add("he", kNormal);
    add("<s>", kControl);
    add("<u>", kUserDefined);
    add("[PAD259]", kUnused);
  }

  std::string Build() {
    builder.String("tokenizer.ggml.model", model)
        .String("tokenizer.ggml.pre", pre)
        .Strings("tokenizer.ggml.tokens", tokens)
        .Ints("tokenizer.ggml.token_type", types)
        .Strings("tokenizer.ggml.merges", merges);
    return builder.Build();
  }

  absl::StatusOr<std::unique_ptr<const Tokenizer>> Load() {
    const std::string bytes = Build();
    const auto file = GgufFile::Parse(std::as_bytes(std::span(bytes)), "tiny.gguf");
    if (!file.ok()) return file.status();
    return Tokenizer::FromGguf(*file);
  }

  GgufBuilder builder;
  std::string model = "gpt2";
  std::string pre = "gpt-2";
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<std::string> merges = {"h e"};
};

TEST(TokenizerGgufTest, TokenTypesDecideWhatIsMatchedInText) {
  TinyGguf gguf;
  gguf.builder.Uint32("tokenizer.ggml.bos_token_id", 257).String("tokenizer.chat_template", "hi");
  const auto tokenizer = gguf.Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->Encode("he<s><u>[PAD259]", {}).value(),
            (Ids{256, '<', 's', '>', 258, '[', 'P', 'A', 'D', '2', '5', '9', ']'}));
  EXPECT_EQ((*tokenizer)->Encode("<s>", {.parse_special_tokens = true}).value(), (Ids{257}));
  EXPECT_EQ((*tokenizer)->vocab_size(), 259u);
  EXPECT_EQ((*tokenizer)->TokenBytes(259), "");
  EXPECT_EQ((*tokenizer)->bos_token_id(), 257u);
  EXPECT_EQ((*tokenizer)->eos_token_id(), std::nullopt);
  EXPECT_EQ((*tokenizer)->chat_template(), "hi");
}

TEST(TokenizerGgufTest, AFileMayHaveAnyName) {
  const TempFolder folder;
  const auto tokenizer = Tokenizer::Load(folder.Write("model", TinyGguf().Build()));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->vocab_size(), 259u);
  EXPECT_THAT(Message(Tokenizer::Load(folder.Write("other", "text")).status()),
              HasSubstr("/other: expected a model folder or a GGUF file"));
}

TEST(TokenizerGgufTest, BosComesWhereTheFileOrTheFamilyAsksForIt) {
  TinyGguf llama;
  llama.pre = "llama-bpe";
  llama.builder.Uint32("tokenizer.ggml.bos_token_id", 257);
  EXPECT_EQ(llama.Load().value()->Encode("he", {}).value(), (Ids{257, 256}));
  TinyGguf without;
  without.pre = "llama-bpe";
  without.builder.Uint32("tokenizer.ggml.bos_token_id", 257)
      .Bool("tokenizer.ggml.add_bos_token", false);
  EXPECT_EQ(without.Load().value()->Encode("he", {}).value(), (Ids{256}));
  TinyGguf missing;
  missing.builder.Bool("tokenizer.ggml.add_bos_token", true);
  EXPECT_THAT(Message(missing.Load().status()),
              HasSubstr("tokenizer.ggml.bos_token_id is missing"));
}

TEST(TokenizerGgufTest, QwenNormalises) {
  for (const char* pre : {"qwen2", "deepseek-r1-qwen"}) {
    TinyGguf gguf;
    gguf.pre = pre;
    const auto tokenizer = gguf.Load();
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_EQ((*tokenizer)->Encode("e\u0301", {}).value(), (Ids{0xC3, 0xA9})) << pre;
  }
}

TEST(TokenizerGgufTest, WhatIsNotSupportedIsRefusedByKeyAndValue) {
  const auto message = [](auto spoil) {
    TinyGguf gguf;
    spoil(gguf);
    const auto tokenizer = gguf.Load();
    EXPECT_FALSE(tokenizer.ok());
    return Message(tokenizer.status());
  };
  EXPECT_THAT(message([](TinyGguf& g) { g.model = "llama"; }),
              HasSubstr("tiny.gguf: tokenizer.ggml.model is \"llama\""));
  EXPECT_THAT(message([](TinyGguf& g) { g.pre = "default"; }),
              HasSubstr("tokenizer.ggml.pre is \"default\", supported: gpt-2, smollm, qwen2"));
  EXPECT_THAT(message([](TinyGguf& g) { g.builder.Bool("tokenizer.ggml.add_space_prefix", true); }),
              HasSubstr("tokenizer.ggml.add_space_prefix is \"true\""));
  EXPECT_THAT(message([](TinyGguf& g) { g.types.pop_back(); }),
              HasSubstr("token_type has 259 entries"));
  EXPECT_THAT(message([](TinyGguf& g) { g.types[3] = 6; }), HasSubstr("token_type [3] is 6"));
  EXPECT_THAT(message([](TinyGguf& g) { g.tokens[3] = g.tokens[4]; }),
              HasSubstr("has ids 3 and 4"));
  EXPECT_THAT(message([](TinyGguf& g) { g.tokens[3] = "\xFF"; }),
              HasSubstr("[3] is not valid UTF-8"));
  EXPECT_THAT(message([](TinyGguf& g) { g.merges[0] = "he"; }), HasSubstr("merges [0] is \"he\""));
  EXPECT_THAT(message([](TinyGguf& g) { g.merges[0] = "q q"; }), HasSubstr("no token \"qq\""));
  EXPECT_THAT(message([](TinyGguf& g) { g.builder.Uint32("tokenizer.ggml.eos_token_id", 259); }),
              HasSubstr("eos token 259 is not in the vocabulary"));
}

}  // namespace
}  // namespace lockstep::router
