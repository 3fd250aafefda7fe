#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "common/status.h"
#include "tests/router/text/tiny_tokenizer.h"

namespace lockstep::router {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;
using testing::HasSubstr;

Ids EncodeOrDie(const Tokenizer& tokenizer, std::string_view text,
                const Tokenizer::EncodeOptions& options = {}) {
  const auto ids = tokenizer.Encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.ok() ? *ids : Ids();
}

TEST(TokenizerJsonTest, EncodesAndDecodes) {
  const auto tokenizer = LoadTiny(TinyTokenizerJson());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(EncodeOrDie(**tokenizer, "hello hello"), (Ids{259, 260}));
  EXPECT_EQ(EncodeOrDie(**tokenizer, ""), Ids());
  EXPECT_EQ((*tokenizer)->vocab_size(), 263u);
  EXPECT_EQ((*tokenizer)->TokenBytes(260), " hello");
  EXPECT_EQ((*tokenizer)->TokenBytes(263), "");
  EXPECT_EQ((*tokenizer)->FindToken(" hello"), 260u);
  EXPECT_EQ((*tokenizer)->FindToken("<s>"), 261u);
  EXPECT_EQ((*tokenizer)->FindToken("nothing"), std::nullopt);
  EXPECT_EQ((*tokenizer)->Decode(Ids{259, 260, 0xFF}, false), "hello hello\uFFFD");
  EXPECT_EQ((*tokenizer)->Decode(Ids{263, 259, 4'000'000'000}, false), "hello");
}

TEST(TokenizerJsonTest, SpecialTokensInTextArePlainTextUnlessAskedFor) {
  const auto tokenizer = LoadTiny(TinyTokenizerJson());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(EncodeOrDie(**tokenizer, "<s><tool>"), (Ids{'<', 's', '>', 262}));
  EXPECT_EQ(EncodeOrDie(**tokenizer, "<s><tool>", {.parse_special_tokens = true}), (Ids{261, 262}));
  EXPECT_TRUE((*tokenizer)->IsSpecial(261));
  EXPECT_FALSE((*tokenizer)->IsSpecial(262));
  EXPECT_FALSE((*tokenizer)->IsSpecial(999));
  EXPECT_EQ((*tokenizer)->Decode(Ids{261, 'a', 262}, true), "a<tool>");
  EXPECT_EQ((*tokenizer)->Decode(Ids{261, 'a', 262}, false), "<s>a<tool>");
}

TEST(TokenizerJsonTest, InvalidUtf8IsRefusedWithItsOffset) {
  const auto tokenizer = LoadTiny(TinyTokenizerJson());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto ids = (*tokenizer)->Encode("abc\xE2\x82", {});
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(ids.status()), HasSubstr("byte 3"));
}

TEST(TokenizerJsonTest, AByteWithoutATokenIsRefusedNotDropped) {
  json definition = TinyTokenizerJson();
  definition["model"]["vocab"].erase("x");
  definition["model"]["vocab"]["xyz"] = 'x';
  const auto tokenizer = LoadTiny(definition);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto ids = (*tokenizer)->Encode("a x", {});
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(ids.status()), HasSubstr("no token for byte 0x78, at byte 2"));
}

TEST(TokenizerJsonTest, TemplateSurroundsTheText) {
  json definition = TinyTokenizerJson();
  definition["post_processor"] = json::parse(R"({
    "type": "Sequence", "processors": [
      {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true},
      {"type": "TemplateProcessing",
       "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                  {"Sequence": {"id": "A", "type_id": 0}},
                  {"SpecialToken": {"id": "<tool>", "type_id": 0}}],
       "pair": [],
       "special_tokens": {"<s>": {"id": "<s>", "ids": [261], "tokens": ["<s>"]},
                          "<tool>": {"id": "<tool>", "ids": [262], "tokens": ["<tool>"]}}}]})");
  const auto tokenizer = LoadTiny(definition);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(EncodeOrDie(**tokenizer, "a"), (Ids{261, 'a', 262}));
  EXPECT_EQ(EncodeOrDie(**tokenizer, ""), (Ids{261, 262}));
  EXPECT_EQ(EncodeOrDie(**tokenizer, "a", {.add_special_tokens = false}), (Ids{'a'}));
}

TEST(TokenizerJsonTest, BothSpellingsOfMergesMeanTheSame) {
  json definition = TinyTokenizerJson();
  const auto one = LoadTiny(definition);
  definition["model"]["merges"] =
      json::parse(R"([["h","e"],["l","l"],["he","ll"],["hell","o"],["\u0120","hello"]])");
  const auto other = LoadTiny(definition);
  ASSERT_TRUE(one.ok() && other.ok()) << one.status() << other.status();
  EXPECT_EQ(EncodeOrDie(**one, "hello hello"), (Ids{259, 260}));
  EXPECT_EQ(EncodeOrDie(**other, "hello hello"), (Ids{259, 260}));
}

TEST(TokenizerJsonTest, ConfigGivesTemplateAndEndToken) {
  const json config = {{"bos_token", "<s>"},
                       {"eos_token", {{"__type", "AddedToken"}, {"content", "<tool>"}}},
                       {"chat_template", "{{ 1 }}"}};
  const auto tokenizer = LoadTiny(TinyTokenizerJson(), config);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->bos_token_id(), 261u);
  EXPECT_EQ((*tokenizer)->eos_token_id(), 262u);
  EXPECT_EQ((*tokenizer)->chat_template(), "{{ 1 }}");
  const json named = {
      {"chat_template",
       {{{"name", "tool_use"}, {"template", "t"}}, {{"name", "default"}, {"template", "d"}}}}};
  EXPECT_EQ(LoadTiny(TinyTokenizerJson(), named).value()->chat_template(), "d");
  const auto bad = LoadTiny(TinyTokenizerJson(), {{"bos_token", 7}});
  EXPECT_THAT(Message(bad.status()), HasSubstr("/bos_token: is 7, expected a string"));
}

TEST(TokenizerJsonTest, AnEmptyTokenOfTheConfigIsNone) {
  const auto tokenizer = LoadTiny(TinyTokenizerJson(), {{"bos_token", ""}, {"eos_token", ""}});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->bos_token_id(), std::nullopt);
  EXPECT_EQ((*tokenizer)->eos_token_id(), std::nullopt);
}

TEST(TokenizerJsonTest, HowATrainingCutItsBatchesDoesNotMatter) {
  json definition = TinyTokenizerJson();
  definition["truncation"] = {{"direction", "Right"}, {"max_length", 1}, {"stride", 0}};
  definition["padding"] = {{"strategy", {{"Fixed", 8}}}, {"pad_id", 0}, {"pad_token", "a"}};
  const auto tokenizer = LoadTiny(definition);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(EncodeOrDie(**tokenizer, "hello hello"), (Ids{259, 260}));
}

struct BadDefinition {
  const char* name;
  std::function<void(json&)> spoil;
  const char* message;  // a part of it: where, and the value or what was expected
};

class BadDefinitionTest : public testing::TestWithParam<BadDefinition> {};

TEST_P(BadDefinitionTest, IsRefusedByPathAndValue) {
  json definition = TinyTokenizerJson();
  GetParam().spoil(definition);
  const auto tokenizer = LoadTiny(definition);
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(tokenizer.status()), HasSubstr("tiny.json: "));
  EXPECT_THAT(Message(tokenizer.status()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Definitions, BadDefinitionTest,
    testing::Values(
        BadDefinition{"Version", [](json& d) { d["version"] = "2.0"; }, "/version: is \"2.0\""},
        BadDefinition{"UnknownField", [](json& d) { d["novelty"] = 1; },
                      "/novelty: is not a known"},
        BadDefinition{"Model", [](json& d) { d["model"]["type"] = "Unigram"; },
                      "/model/type: is \"Unigram\""},
        BadDefinition{"NoVocabulary", [](json& d) { d["model"].erase("vocab"); },
                      "has no \"vocab\""},
        BadDefinition{"ByteFallback", [](json& d) { d["model"]["byte_fallback"] = true; },
                      "/model/byte_fallback: is true"},
        BadDefinition{"Dropout", [](json& d) { d["model"]["dropout"] = 0.1; },
                      "/model/dropout: is 0.1"},
        BadDefinition{"Suffix", [](json& d) { d["model"]["end_of_word_suffix"] = "</w>"; },
                      "/model/end_of_word_suffix: is \"</w>\""},
        BadDefinition{"Unknown", [](json& d) { d["model"]["unk_token"] = "<nope>"; },
                      "/model/unk_token: is \"<nope>\""},
        BadDefinition{"NegativeId", [](json& d) { d["model"]["vocab"]["a"] = -1; },
                      "/model/vocab/a: is -1"},
        BadDefinition{"HugeId", [](json& d) { d["model"]["vocab"]["a"] = 4294967295u; },
                      "/model/vocab/a: is 4294967295"},
        BadDefinition{"SameId", [](json& d) { d["model"]["vocab"]["a"] = 98; },
                      "/model/vocab: id 98 belongs to"},
        BadDefinition{"MergeOfNothing", [](json& d) { d["model"]["merges"][1] = "q q"; },
                      "/model/merges/1: merge of \"q\" and \"q\": no token \"qq\""},
        BadDefinition{"MergeOfThree", [](json& d) { d["model"]["merges"][2] = "a b c"; },
                      "/model/merges/2: expected two tokens"},
        BadDefinition{"MergeType", [](json& d) { d["model"]["merges"][0] = 5; },
                      "/model/merges/0: expected two tokens"},
        BadDefinition{"Normalizer", [](json& d) { d["normalizer"] = {{"type", "Lowercase"}}; },
                      "/normalizer/type: is \"Lowercase\", expected \"NFC\""},
        BadDefinition{"PreTokenizer", [](json& d) { d["pre_tokenizer"] = {{"type", "Metaspace"}}; },
                      "/pre_tokenizer: ByteLevel must be the last part"},
        BadDefinition{"PreTokenizerPart",
                      [](json& d) {
                        d["pre_tokenizer"] = {
                            {"type", "Sequence"},
                            {"pretokenizers", {{{"type", "Whitespace"}}, {{"type", "ByteLevel"}}}}};
                      },
                      "/pre_tokenizer/pretokenizers/0/type: is \"Whitespace\""},
        BadDefinition{"NoPreTokenizer", [](json& d) { d["pre_tokenizer"] = nullptr; },
                      "/pre_tokenizer: is null"},
        BadDefinition{"Pattern",
                      [](json& d) {
                        d["pre_tokenizer"] = {{"type", "Sequence"},
                                              {"pretokenizers",
                                               {{{"type", "Split"},
                                                 {"pattern", {{"Regex", "\\w+"}}},
                                                 {"behavior", "Isolated"},
                                                 {"invert", false}},
                                                {{"type", "ByteLevel"}}}}};
                      },
                      "/pre_tokenizer/pretokenizers/0/pattern/Regex: unsupported escape \"\\w\""},
        BadDefinition{"PostProcessor",
                      [](json& d) { d["post_processor"] = {{"type", "BertProcessing"}}; },
                      "/post_processor/type: is \"BertProcessing\""},
        BadDefinition{"Decoder", [](json& d) { d["decoder"] = {{"type", "WordPiece"}}; },
                      "/decoder/type: is \"WordPiece\""},
        BadDefinition{"AddedId", [](json& d) { d["added_tokens"][1]["id"] = -1; },
                      "/added_tokens/1/id: is -1, expected an integer from 0 to"},
        BadDefinition{"AddedFlag", [](json& d) { d["added_tokens"][0]["lstrip"] = 1; },
                      "/added_tokens/0/lstrip: is 1, expected true or false"}),
    [](const auto& info) { return info.param.name; });

TEST(TokenizerJsonTest, BrokenJsonIsRefusedWithItsOffset) {
  const auto tokenizer = Tokenizer::FromJson("{\"version\": ", "", "broken.json");
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(tokenizer.status()), HasSubstr("broken.json"));
}

class ModelFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / "lockstep_model_folder";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Write(const char* name, const std::string& text) { std::ofstream(folder_ / name) << text; }

  std::filesystem::path folder_;
};

TEST_F(ModelFolderTest, ATemplateFileWinsOverTheConfig) {
  Write("tokenizer.json", TinyTokenizerJson().dump());
  EXPECT_EQ(Tokenizer::Load(folder_).value()->chat_template(), "");
  Write("tokenizer_config.json", R"({"chat_template": "config"})");
  EXPECT_EQ(Tokenizer::Load(folder_).value()->chat_template(), "config");
  Write("chat_template.jinja", "file");
  EXPECT_EQ(Tokenizer::Load(folder_).value()->chat_template(), "file");
}

TEST_F(ModelFolderTest, MissingFilesAreNamed) {
  EXPECT_THAT(Message(Tokenizer::Load(folder_).status()), HasSubstr("tokenizer.json"));
  EXPECT_EQ(Tokenizer::Load((folder_ / "none").string()).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace lockstep::router
