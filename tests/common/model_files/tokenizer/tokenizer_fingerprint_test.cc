#include "common/model_files/tokenizer/tokenizer_fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/common/gguf_builder.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

json TinyTokenizer() {
  return json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 3, "content": "<s>", "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "post_processor": {"type": "ByteLevel"},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b", "ab a"]}})");
}

uint64_t OfFolder(const json& tokenizer, const std::string& config = "{}",
                  const json& added = nullptr) {
  TempFolder folder;
  folder.Write("tokenizer.json", tokenizer.dump(2));
  if (!added.is_null()) folder.Write("added_tokens.json", added.dump());
  folder.Write("tokenizer_config.json", config);
  const auto fingerprint = LoadTokenizerFingerprint(folder.path());
  EXPECT_THAT(fingerprint, IsOk());
  return fingerprint.value_or(0);
}

TEST(TokenizerFingerprintTest, FollowsEverythingInTheFolderThatChangesIds) {
  const std::vector<std::function<void(json&)>> changes = {
      [](json&) {},
      [](json& d) { d["model"]["ignore_merges"] = true; },
      [](json& d) { std::swap(d["model"]["merges"][0], d["model"]["merges"][1]); },
      [](json& d) { std::swap(d["model"]["vocab"]["a"], d["model"]["vocab"]["b"]); },
      [](json& d) { d["normalizer"] = {{"type", "NFC"}}; },
      [](json& d) { d["pre_tokenizer"]["add_prefix_space"] = true; },
      [](json& d) { d["post_processor"] = nullptr; },
      [](json& d) { d["added_tokens"][0]["content"] = "<t>"; },
      [](json& d) { d["added_tokens"].push_back({{"id", 4}, {"content", "<u>"}}); },
  };
  std::set<uint64_t> fingerprints = {0};
  for (size_t i = 0; i < changes.size(); ++i) {
    json tokenizer = TinyTokenizer();
    changes[i](tokenizer);
    EXPECT_TRUE(fingerprints.insert(OfFolder(tokenizer)).second) << "change " << i;
  }
}

TEST(TokenizerFingerprintTest, IgnoresWhatChangesNoId) {
  const uint64_t plain = OfFolder(TinyTokenizer());
  EXPECT_EQ(OfFolder(TinyTokenizer(), R"({"chat_template": "{{ 1 }}", "eos_token": "<s>"})"),
            plain);
  const std::vector<std::function<void(json&)>> changes = {
      [](json& d) { d["decoder"] = nullptr; }, [](json& d) { d["padding"] = {{"pad_id", 0}}; },
      [](json& d) { d["model"]["merges"] = json::parse(R"([["a", "b"], ["ab", "a"]])"); },
      [](json& d) { d.erase("normalizer"); },  // absent means null
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    json tokenizer = TinyTokenizer();
    changes[i](tokenizer);
    EXPECT_EQ(OfFolder(tokenizer), plain) << "change " << i;
  }
}

TEST(TokenizerFingerprintTest, FollowsWhatOtherFilesAdd) {
  const uint64_t plain = OfFolder(TinyTokenizer());
  const std::string same =
      R"({"added_tokens_decoder": {"3": {"content": "<s>", "special": true}}})";
  EXPECT_EQ(OfFolder(TinyTokenizer(), same), plain);
  EXPECT_EQ(OfFolder(TinyTokenizer(), "{}", {{"<s>", 3}}), plain);
  std::set<uint64_t> fingerprints = {plain};
  for (const char* config :
       {R"({"added_tokens_decoder": {"4": {"content": "<u>"}}})",
        R"({"added_tokens_decoder": {"4": {"content": "<u>", "special": true}}})",
        R"({"added_tokens_decoder": {"3": {"content": "<s>", "special": true, "lstrip": true}}})",
        R"({"eos_token": "b"})", R"({"eos_token": "<v>"})"}) {
    EXPECT_TRUE(fingerprints.insert(OfFolder(TinyTokenizer(), config)).second) << config;
  }
  EXPECT_TRUE(fingerprints.insert(OfFolder(TinyTokenizer(), "{}", {{"<w>", 4}})).second);
}

// Router and worker may be of different builds: equal files must go on to give equal numbers.
TEST(TokenizerFingerprintTest, NeverChanges) {
  EXPECT_EQ(OfFolder(TinyTokenizer()), 2379716895894818086u);
}

struct GgufTokenizer {
  std::string pre = "gpt-2";
  std::vector<std::string> tokens = {"a", "b", "ab", "<s>"};
  std::vector<int32_t> types = {1, 1, 1, 3};
  std::vector<std::string> merges = {"a b"};
  bool add_bos = false;
  bool add_eos = false;
  uint32_t bos_id = 3;
  uint32_t eos_id = 3;
  std::string chat_template = "{{ 1 }}";
};

uint64_t OfGgufFile(const GgufTokenizer& tokenizer) {
  TempFolder folder;
  const auto fingerprint = LoadTokenizerFingerprint(
      folder.Write("model.gguf", GgufBuilder()
                                     .String("tokenizer.ggml.model", "gpt2")
                                     .String("tokenizer.ggml.pre", tokenizer.pre)
                                     .Strings("tokenizer.ggml.tokens", tokenizer.tokens)
                                     .Ints("tokenizer.ggml.token_type", tokenizer.types)
                                     .Strings("tokenizer.ggml.merges", tokenizer.merges)
                                     .Bool("tokenizer.ggml.add_bos_token", tokenizer.add_bos)
                                     .Bool("tokenizer.ggml.add_eos_token", tokenizer.add_eos)
                                     .Uint32("tokenizer.ggml.bos_token_id", tokenizer.bos_id)
                                     .Uint32("tokenizer.ggml.eos_token_id", tokenizer.eos_id)
                                     .String("tokenizer.chat_template", tokenizer.chat_template)
                                     .Build()));
  EXPECT_THAT(fingerprint, IsOk());
  return fingerprint.value_or(0);
}

TEST(TokenizerFingerprintTest, FollowsEverythingInTheFileThatChangesIds) {
  const std::vector<GgufTokenizer> all = {
      {},
      {.pre = "qwen2"},
      {.tokens = {"b", "a", "ab", "<s>"}},
      {.tokens = {"a", "b", "ab", "<s>", ""}, .types = {1, 1, 1, 3, 5}},
      {.types = {1, 1, 4, 3}},
      {.merges = {"a b", "ab a"}},
      {.merges = {}},
      {.add_bos = true},
      {.bos_id = 2},
      {.add_eos = true},
      {.add_eos = true, .eos_id = 2},
  };
  std::set<uint64_t> fingerprints = {0};
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(fingerprints.insert(OfGgufFile(all[i])).second) << "tokenizer " << i;
  }
  EXPECT_EQ(OfGgufFile({.chat_template = "{{ 2 }}"}), OfGgufFile({}));
  EXPECT_EQ(OfGgufFile({.eos_id = 2}), OfGgufFile({})) << "no text gets an end token";
}

TEST(TokenizerFingerprintTest, IsZeroWithoutATokenizer) {
  TempFolder folder;
  EXPECT_EQ(LoadTokenizerFingerprint(folder.path()).value(), 0u);
  const std::string file = folder.Write("model.gguf", GgufBuilder().Build());
  EXPECT_EQ(LoadTokenizerFingerprint(file).value(), 0u);
}

TEST(TokenizerFingerprintTest, RefusesFilesThatItCannotRead) {
  TempFolder folder;
  folder.Write("tokenizer.json", "[1]");
  EXPECT_THAT(LoadTokenizerFingerprint(folder.path()),
              HasError(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(folder.path() + "/tokenizer.json"),
                             HasSubstr("expected an object"))));
  folder.Write("tokenizer.json", "{\"model\": ");
  EXPECT_THAT(LoadTokenizerFingerprint(folder.path()),
              HasError(absl::StatusCode::kInvalidArgument, HasSubstr("tokenizer.json: byte")));
  EXPECT_THAT(LoadTokenizerFingerprint(folder.Write("model.gguf", "not one")),
              HasError(absl::StatusCode::kInvalidArgument, HasSubstr("model.gguf")));
}

}  // namespace
}  // namespace lockstep
