// Errors about a tokenizer's files show its tokens and names on one line, without control
// characters, and cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "common/status.h"
#include "tests/router/text/tiny_tokenizer.h"

namespace lockstep::router {
namespace {

using nlohmann::json;

json Added(const std::string& content, const json& id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// What is wrong in each definition has the name in its message.
using Spoil = std::function<void(json& definition, const std::string& name)>;

std::vector<std::pair<const char*, Spoil>> BadDefinitions() {
  return {
      {"unknown field", [](json& d, const std::string& name) { d[name] = 1; }},
      {"unknown field of the model",
       [](json& d, const std::string& name) { d["model"][name] = 1; }},
      {"id of a token", [](json& d, const std::string& name) { d["model"]["vocab"][name] = -1; }},
      {"two tokens of an id",
       [](json& d, const std::string& name) { d["model"]["vocab"][name] = 3; }},
      {"merge of no tokens",
       [](json& d, const std::string& name) { d["model"]["merges"] = {name + " " + name}; }},
      {"merge of one part",
       [](json& d, const std::string& name) { d["model"]["merges"] = {name}; }},
      {"type of the model", [](json& d, const std::string& name) { d["model"]["type"] = name; }},
      {"type of the normaliser",
       [](json& d, const std::string& name) { d["normalizer"] = {{"type", name}}; }},
      {"type of the pre-tokenizer",
       [](json& d, const std::string& name) { d["pre_tokenizer"] = {{"type", name}}; }},
      {"pattern",
       [](json& d, const std::string& name) {
         d["pre_tokenizer"] = {{"type", "Split"},
                               {"pattern", {{"Regex", "\\p{" + name.substr(0, 4000)}}},
                               {"behavior", "Isolated"}};
       }},
      {"id of an added token",
       [](json& d, const std::string& name) { d["added_tokens"].push_back(Added(name, name)); }},
      {"field of an added token",
       [](json& d, const std::string& name) { d["added_tokens"][0][name] = 1; }},
  };
}

void ExpectShort(const std::string& message, const char* what) {
  EXPECT_LE(message.size(), 1000u) << what;
  EXPECT_TRUE(std::none_of(message.begin(), message.end(),
                           [](char c) { return static_cast<unsigned char>(c) < 0x20; }))
      << what << ": " << message;
}

TEST(TokenizerNamesTest, AreShownShortAndOnOneLine) {
  const std::string names[] = {std::string(size_t{1} << 20, 'x'), "two\nlines", "\x1b]0;title\x07"};
  for (const std::string& name : names) {
    for (const auto& [what, spoil] : BadDefinitions()) {
      json definition = TinyTokenizerJson();
      spoil(definition, name);
      const absl::Status status = LoadTiny(definition).status();
      ASSERT_FALSE(status.ok()) << what;
      ExpectShort(Message(status), what);
    }
    // Two ids of an added token are accepted, with a warning.
    json definition = TinyTokenizerJson();
    definition["added_tokens"].push_back(Added(name, 300));
    definition["added_tokens"].push_back(Added(name, 301));
    const auto tokenizer = LoadTiny(definition);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    ASSERT_FALSE((*tokenizer)->warnings().empty());
    for (const std::string& warning : (*tokenizer)->warnings()) {
      ExpectShort(warning, "two ids of an added token");
    }
  }
}

}  // namespace
}  // namespace lockstep::router
