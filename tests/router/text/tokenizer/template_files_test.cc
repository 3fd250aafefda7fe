#include "router/text/tokenizer/template_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "common/status.h"
#include "tests/common/gguf_builder.h"
#include "tests/common/temp_folder.h"
#include "tests/router/text/golden_corpus.h"

namespace lockstep::router {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

TokenizerFiles FilesWith(const std::string& config) {
  TokenizerFiles files;
  files.config = {.name = "tokenizer_config.json", .text = config};
  return files;
}

TEST(TemplateFilesTest, FoldersAreReadAsTransformersReadsThem) {
  const Json cases = Json::parse(ReadGoldenFile("template_files.json"), nullptr, false);
  ASSERT_TRUE(cases.is_array());
  for (const Json& test : cases) {
    SCOPED_TRACE(test["files"].dump());
    const TempFolder folder;
    std::filesystem::create_directory(folder.path() + "/additional_chat_templates");
    for (const auto& [name, text] : test["files"].items())
      folder.Write(name, text.get<std::string>());
    TokenizerFiles files = FilesWith(test["files"].value("tokenizer_config.json", ""));
    files.special_tokens.text = test["files"].value("special_tokens_map.json", "");
    const auto source = ReadTemplateFolder(folder.path(), files);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(Json(source->templates), test["templates"]);
    EXPECT_EQ(Json::parse(source->special_tokens_json), test["tokens"]);
  }
  EXPECT_GE(cases.size(), 19u);
}

TEST(TemplateFilesTest, ClassesHaveTokensOfTheirOwn) {
  const auto tokens = [](const std::string& config) {
    const auto source = ReadTemplateConfig(FilesWith(config));
    EXPECT_TRUE(source.ok()) << source.status();
    return Json::parse(source->special_tokens_json);
  };
  EXPECT_EQ(tokens(R"({"tokenizer_class": "GPT2Tokenizer"})"),
            Json::parse(R"({"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>",
                            "unk_token": "<|endoftext|>"})"));
  EXPECT_EQ(tokens(R"({"tokenizer_class": "Qwen2TokenizerFast", "eos_token": "<|im_end|>",
                       "unk_token": null, "bos_token": null})"),
            Json::parse(R"({"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"})"));
}

TEST(TemplateFilesTest, WrongKindsAreNamed) {
  const auto error = [](const std::string& config) {
    return Message(ReadTemplateConfig(FilesWith(config)).status());
  };
  EXPECT_THAT(error(R"({"pad_token": 5})"), HasSubstr("tokenizer_config.json: /pad_token: is 5"));
  EXPECT_THAT(error(R"({"chat_template": 5})"), HasSubstr("/chat_template"));
  EXPECT_THAT(error(R"({"chat_template": [{"name": "x"}]})"), HasSubstr("/chat_template/0"));
  EXPECT_THAT(error(R"({"additional_special_tokens": "x"})"),
              HasSubstr("/additional_special_tokens"));
  const TempFolder folder;
  folder.Write("chat_template.jinja", "\xFF");
  EXPECT_THAT(Message(ReadTemplateFolder(folder.path(), TokenizerFiles()).status()),
              HasSubstr("\"default\" is not valid UTF-8 at byte 0"));
}

TEST(TemplateFilesTest, GgufFilesHaveNamedTemplatesAndTokens) {
  const TempFolder folder;
  const auto file = GgufFile::Open(
      folder.Write("tiny.gguf", GgufBuilder()
                                    .Strings("tokenizer.ggml.tokens", {"<s>", "</s>", "<pad>"})
                                    .Uint32("tokenizer.ggml.bos_token_id", 0)
                                    .Uint32("tokenizer.ggml.padding_token_id", 2)
                                    .Uint32("tokenizer.ggml.unknown_token_id", 9)
                                    .String("tokenizer.chat_template", "d")
                                    .String("tokenizer.chat_template.tool_use", "t")
                                    .Strings("tokenizer.chat_templates", {"tool_use"})
                                    .Build()));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto source = ReadGgufTemplates(*file);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(Json(source->templates), Json::parse(R"({"default": "d", "tool_use": "t"})"));
  EXPECT_EQ(Json::parse(source->special_tokens_json),
            Json::parse(R"({"bos_token": "<s>", "pad_token": "<pad>"})"));
}

}  // namespace
}  // namespace lockstep::router
