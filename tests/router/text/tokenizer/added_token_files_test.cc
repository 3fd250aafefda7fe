// Folders whose files disagree about added tokens, against what transformers makes of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "common/status.h"
#include "router/text/tokenizer/tokenizer.h"
#include "tests/router/text/golden_corpus.h"

namespace lockstep::router {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

std::string TextOf(const json& entry, const char* key) {
  return entry.contains(key) ? entry[key].dump() : "";
}

TokenizerFiles FilesOf(const json& golden, const json& entry) {
  json tokenizer = golden["base"];
  if (entry.contains("added_tokens")) tokenizer["added_tokens"] = entry["added_tokens"];
  if (entry.contains("normalizer")) tokenizer["normalizer"] = {{"type", entry["normalizer"]}};
  return {.tokenizer = {.name = "tokenizer.json", .text = tokenizer.dump()},
          .config = {.name = "tokenizer_config.json", .text = TextOf(entry, "config")},
          .special_tokens = {.name = "special_tokens_map.json", .text = TextOf(entry, "map")},
          .added_tokens = {.name = "added_tokens.json", .text = TextOf(entry, "added")}};
}

// Version 5's answer, where the versions differ.
const json& Answer(const json& entry) { return entry.contains("5") ? entry["5"] : entry["4"]; }

TEST(AddedTokenFilesTest, IdsAndSpecialTokensAreThoseOfTransformers) {
  const json golden = json::parse(ReadGoldenFile("added_token_files.json"));
  ASSERT_GE(golden["cases"].size(), 70u);
  for (const json& entry : golden["cases"]) {
    SCOPED_TRACE(entry["name"]);
    const json& expected = Answer(entry);
    const auto tokenizer = Tokenizer::FromFiles(FilesOf(golden, entry));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_EQ((*tokenizer)->vocab_size(), expected["size"]);
    const auto id_of = [](std::optional<TokenId> id) { return id ? json(*id) : json(nullptr); };
    EXPECT_EQ(id_of((*tokenizer)->bos_token_id()), expected["named"]["bos_token"]);
    EXPECT_EQ(id_of((*tokenizer)->eos_token_id()), expected["named"]["eos_token"]);
    Ids skipped;
    for (TokenId id = 0; id < (*tokenizer)->vocab_size(); ++id) {
      if ((*tokenizer)->IsSpecial(id)) skipped.push_back(id);
    }
    EXPECT_EQ(json(skipped), expected["skipped"]);
    for (size_t i = 0; i < golden["texts"].size(); ++i) {
      const std::string text = golden["texts"][i];
      for (const bool parse : {true, false}) {
        const auto ids =
            (*tokenizer)
                ->Encode(text, {.add_special_tokens = false, .parse_special_tokens = parse});
        ASSERT_TRUE(ids.ok()) << ids.status();
        EXPECT_EQ(json(*ids), expected[parse ? "ids" : "plain_ids"][i]) << text << " " << parse;
      }
    }
  }
}

TEST(AddedTokenFilesTest, DifferencesAreSaid) {
  const json golden = json::parse(ReadGoldenFile("added_token_files.json"));
  const std::map<std::string, std::string> expected = {
      {"nothing_else", ""},
      {"config_agrees", ""},
      {"config_lists_fewer", ""},
      {"map_names",
       "tokenizer_config.json: its flags replace those of tokenizer.json: \"<tool>\" (262)"},
      {"config_adds_end",
       "tokenizer_config.json: adds tokens that tokenizer.json does not list: \"<|im_end|>\" "
       "(263)"},
      {"config_strips_left",
       "tokenizer_config.json: its flags replace those of tokenizer.json: \"<tool>\" (262)"},
      {"config_has_another_id",
       "tokenizer_config.json: added tokens have other ids than the file lists, as in "
       "transformers: \"<tool>\" (262) is listed as 270\n"
       "tokenizer_config.json: its flags replace those of tokenizer.json: \"<tool>\" (262)"},
      {"listed_twice", ""},
      {"listed_with_a_gap",
       "tokenizer.json: added tokens have other ids than the file lists, as in transformers: "
       "\"<tool>\" (262) is listed as 270"},
      {"added_file_two",
       "tokenizer_config.json: adds tokens that tokenizer.json does not list: \"<extra>\" (263), "
       "\"<other>\" (264)"},
  };
  size_t num_found = 0;
  for (const json& entry : golden["cases"]) {
    const auto found = expected.find(entry["name"]);
    if (found == expected.end()) continue;
    ++num_found;
    const auto tokenizer = Tokenizer::FromFiles(FilesOf(golden, entry));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_EQ(fmt::format("{}", fmt::join((*tokenizer)->warnings(), "\n")), found->second)
        << found->first;
  }
  EXPECT_EQ(num_found, expected.size());
}

struct BadFiles {
  const char* file;
  const char* text;
  const char* message;
};

TEST(AddedTokenFilesTest, WhatCannotBeReadIsNamed) {
  const json golden = json::parse(ReadGoldenFile("added_token_files.json"));
  const BadFiles cases[] = {
      {"config", R"([])", "tokenizer_config.json: /: is [], expected an object"},
      {"config", R"({"added_tokens_decoder": []})", "/added_tokens_decoder: is [], expected an"},
      {"config", R"({"added_tokens_decoder": {"x": {"content": "a"}}})",
       "/added_tokens_decoder/x: expected an id from 0 to"},
      {"config", R"({"added_tokens_decoder": {"9999999": {"content": "a"}}})",
       "/added_tokens_decoder/9999999: expected an id"},
      {"config", R"({"added_tokens_decoder": {"5": "a"}})", "/added_tokens_decoder/5: is \"a\""},
      {"config", R"({"added_tokens_decoder": {"5": {}}})", "/5: has no \"content\""},
      {"config", R"({"eos_token": 7})", "/eos_token: is 7, expected a string"},
      {"config", R"({"additional_special_tokens": "x"})", "expected an array"},
      {"config", "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n",
       "tokenizer_config.json: the file is a git-lfs pointer"},
      {"map", R"({"eos_token": [1]})", "special_tokens_map.json: /eos_token: is [1]"},
      {"map", "<!doctype html>", "special_tokens_map.json: the file is a web page"},
      {"added", R"({"<x>": "y"})", "added_tokens.json: /<x>: is \"y\", expected an integer"},
      {"added", R"({"<x>": 1)", "added_tokens.json: byte 9"},
  };
  for (const BadFiles& entry : cases) {
    TokenizerFiles files = FilesOf(golden, json::object());
    (entry.file == std::string("config") ? files.config
     : entry.file == std::string("map")  ? files.special_tokens
                                         : files.added_tokens)
        .text = entry.text;
    const auto tokenizer = Tokenizer::FromFiles(files);
    EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument) << entry.text;
    EXPECT_THAT(Message(tokenizer.status()), testing::HasSubstr(entry.message)) << entry.text;
  }
}

}  // namespace
}  // namespace lockstep::router
