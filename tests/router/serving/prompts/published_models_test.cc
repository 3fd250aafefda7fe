// Folders as published: each loads by its configs and its tokenizer, and its answers end where the
// files say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "common/runtime/mapped_file.h"
#include "router/serving/prompts/served_model.h"
#include "tests/common/temp_folder.h"

namespace lockstep::router {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json ReadGoldenJson(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadTextFile("tests/golden/" + path, 1 << 24);
  EXPECT_TRUE(text.ok()) << text.status();
  return json::parse(text.value_or("{}"));
}

// `listed`: id, content, special. With `reserved`, the other ids of the range as well.
std::map<TokenId, json> TokensOf(const json& listed, const json& entry) {
  std::map<TokenId, json> tokens;
  const auto add = [&tokens](TokenId id, const std::string& content, bool special) {
    tokens[id] = {{"content", content}, {"single_word", false}, {"lstrip", false},
                  {"rstrip", false},    {"normalized", false},  {"special", special}};
  };
  for (const json& token : listed) add(token[0], token[1], token[2]);
  if (!entry.contains("reserved")) return tokens;
  int number = 0;
  for (TokenId id = entry["reserved"][0]; id < entry["reserved"][1].get<TokenId>(); ++id) {
    if (tokens.contains(id)) continue;
    add(id, "<|reserved_special_token_" + std::to_string(number++) + "|>", true);
  }
  return tokens;
}

// tokenizer.json of the published shape, with words of this test.
json TokenizerOf(const json& entry) {
  json tokenizer =
      ReadGoldenJson("tokenizers/" + entry["pre_tokenizer"].get<std::string>() + ".json");
  json vocabulary = json::object();
  std::vector<std::string> words;
  for (const auto& [text, id] : tokenizer["model"]["vocab"].items()) {
    if (words.size() < 256 && (text.size() == 1 || (text.size() == 2 && text[0] < 0))) {
      words.push_back(text);  // the alphabet of bytes
    }
  }
  std::map<TokenId, std::string> fixed;
  for (const auto& [text, id] : entry["in_vocabulary"].items()) fixed[id] = text;
  size_t next = 0;
  for (TokenId id = 0; id < entry["vocabulary"].get<TokenId>(); ++id) {
    const auto found = fixed.find(id);
    const std::string word = next < words.size() ? words[next] : "word " + std::to_string(id);
    vocabulary[found != fixed.end() ? found->second : word] = id;
    if (found == fixed.end()) ++next;
  }
  tokenizer["model"]["vocab"] = vocabulary;
  tokenizer["model"]["merges"] = json::array();
  tokenizer["post_processor"] = nullptr;
  tokenizer["added_tokens"] = json::array();
  for (auto [id, token] : TokensOf(entry["added"], entry)) {
    token["id"] = id;
    tokenizer["added_tokens"].push_back(token);
  }
  return tokenizer;
}

void WriteFolder(const json& entry, const json& model, const TempFolder& folder) {
  folder.Write("config.json", model["config"].dump());
  if (model.contains("generation_config")) {
    folder.Write("generation_config.json", model["generation_config"].dump());
  }
  folder.Write("tokenizer.json", TokenizerOf(entry).dump());
  json config = entry["config"];
  if (entry.contains("decoder")) {
    const json& listed = entry["decoder"] == "added" ? entry["added"] : entry["decoder"];
    for (const auto& [id, token] : TokensOf(listed, entry)) {
      config["added_tokens_decoder"][std::to_string(id)] = token;
    }
  }
  folder.Write("tokenizer_config.json", config.dump());
  if (entry.contains("map")) folder.Write("special_tokens_map.json", entry["map"].dump());
}

absl::StatusOr<ServedModel> LoadServed(const TempFolder& folder) {
  const auto no_template = [](const TemplateSource&) {
    return absl::StatusOr<std::unique_ptr<const ChatTemplate>>(nullptr);
  };
  return ServedModel::Load(folder.path(), "", no_template);
}

TEST(PublishedModelsTest, EachLoadsWithAllItsEnds) {
  std::map<std::string, json> published;
  for (const json& model : ReadGoldenJson("configs/published.json")) {
    published[model["name"]] = model;
  }
  const json entries = ReadGoldenJson("configs/tokenizers.json");
  ASSERT_GE(entries.size(), 20u);
  for (const json& entry : entries) {
    SCOPED_TRACE(entry["model"]);
    const TempFolder folder;
    WriteFolder(entry, published.at(entry["model"]), folder);
    const absl::StatusOr<ServedModel> model = LoadServed(folder);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(json(model->config.eos_token_ids), entry["ends"]);
    for (const auto& [id, token] : TokensOf(entry["added"], entry)) {
      EXPECT_EQ(model->tokenizer->FindToken(token["content"].get<std::string>()), id);
    }
  }
}

struct EndCase {
  const char* what;
  json config_end;
  json generation_end;
  json tokenizer_end;  // in tokenizer_config.json
  json map_end;        // in special_tokens_map.json
  std::vector<TokenId> expected;
};

// The model has the ids below 64 more than its tokenizer. Its tokens 0 to 2 are <|end|>, <|im_end|>
// and <|eot|>.
TEST(EndsTest, AreTheUnionOfAllFiles) {
  const json none = nullptr;
  const EndCase cases[] = {
      {"none", none, none, none, none, {}},
      {"the config's", 0, none, none, none, {0}},
      {"the generation config's", none, {0, 2}, none, none, {0, 2}},
      {"the tokenizer's: a ChatML fine-tune of a base model", none, none, "<|im_end|>", none, {1}},
      {"all differ", 0, 2, "<|im_end|>", none, {0, 1, 2}},
      {"all agree", 1, {1}, "<|im_end|>", none, {1}},
      {"lists", {0, 2}, {2}, "<|im_end|>", none, {0, 1, 2}},
      {"an object", 0, none, {{"__type", "AddedToken"}, {"content", "<|im_end|>"}}, none, {0, 1}},
      {"the map's", 0, none, none, "<|im_end|>", {0, 1}},
      {"the map wins over the config", 0, none, "<|eot|>", {{"content", "<|im_end|>"}}, {0, 1}},
      {"an empty text", 0, none, "", none, {0}},
      {"a token of the vocabulary", 0, none, "a", none, {0, 67}},
  };
  json tokenizer = ReadGoldenJson("tokenizers/gpt2.json");
  json vocabulary = {{"<|end|>", 0}, {"<|im_end|>", 1}, {"<|eot|>", 2}};
  TokenId next = 3;
  for (const auto& [text, id] : tokenizer["model"]["vocab"].items()) {
    if (text.size() == 1) vocabulary[text] = next++;
  }
  ASSERT_EQ(vocabulary["a"], 67);
  tokenizer["model"]["vocab"] = vocabulary;
  tokenizer["model"]["merges"] = json::array();
  tokenizer["added_tokens"] = json::array();
  for (const EndCase& entry : cases) {
    SCOPED_TRACE(entry.what);
    const TempFolder folder;
    folder.Write("config.json", json({{"architectures", {"LlamaForCausalLM"}},
                                      {"hidden_size", 64},
                                      {"intermediate_size", 128},
                                      {"num_hidden_layers", 2},
                                      {"num_attention_heads", 4},
                                      {"vocab_size", next + 64},
                                      {"max_position_embeddings", 128},
                                      {"eos_token_id", entry.config_end}})
                                    .dump());
    folder.Write("generation_config.json", json({{"eos_token_id", entry.generation_end}}).dump());
    folder.Write("tokenizer.json", tokenizer.dump());
    folder.Write("tokenizer_config.json", json({{"eos_token", entry.tokenizer_end}}).dump());
    if (!entry.map_end.is_null()) {
      folder.Write("special_tokens_map.json", json({{"eos_token", entry.map_end}}).dump());
    }
    const absl::StatusOr<ServedModel> model = LoadServed(folder);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->config.eos_token_ids, entry.expected);
  }
}

// A padding token was added, and the embedding was not made larger.
TEST(LargerTokenizerTest, IsServedWithAWarning) {
  const json entry = ReadGoldenJson("configs/tokenizers.json").front();
  std::map<std::string, json> published;
  for (const json& model : ReadGoldenJson("configs/published.json")) {
    published[model["name"]] = model;
  }
  json larger = entry;
  larger["config"]["pad_token"] = "[PAD]";
  larger["config"]["eos_token"] = "[END]";
  const TempFolder folder;
  WriteFolder(larger, published.at(entry["model"]), folder);
  const absl::StatusOr<ServedModel> model = LoadServed(folder);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->tokenizer->vocab_size(), model->config.vocab_size + 2);
  EXPECT_THAT(model->config.eos_token_ids, ElementsAre(128001, 128009));
  EXPECT_THAT(
      model->config.warnings,
      ElementsAre(HasSubstr("adds tokens that tokenizer.json does not list: \"[END]\" "
                            "(128256), \"[PAD]\" (128257)"),
                  HasSubstr("the tokenizer has 128258 tokens and the model's vocabulary "
                            "only 128256"),
                  HasSubstr("eos_token of the tokenizer: end token id 128256 is not below")));
}

}  // namespace
}  // namespace lockstep::router
