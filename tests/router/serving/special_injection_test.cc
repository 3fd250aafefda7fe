// Chats of random texts over real tokenizers: special tokens are those of the template, whatever
// the normaliser makes of the texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "common/status.h"
#include "router/serving/prompts/prompt_encoder.h"
#include "tests/router/templates/test_templates.h"
#include "tests/router/text/tiny_tokenizer.h"

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Ids = std::vector<TokenId>;

// Letters that NFC makes of others: K of U+212A (Kelvin), U+00C5 of U+212B (Angstrom) and of "A"
// with U+030A. U+0338 melts with a ">" before it.
constexpr char kStart[] = "<|K|>";
constexpr char kEnd[] = "<|\u00C5|>";
constexpr TokenId kStartId = 263;
constexpr TokenId kEndId = 264;
constexpr TokenId kLastId = 265;

struct Flags {
  bool nfc = true;
  bool normalized = true;
  bool single_word = false;
  bool strips = false;
  bool decomposed = false;  // kEnd is written as "A" and U+030A in the file
};

ServedModel ModelWith(const Flags& flags, const std::string& chat_template) {
  nlohmann::json definition = TinyTokenizerJson();
  if (flags.nfc) definition["normalizer"] = {{"type", "NFC"}};
  const auto add = [&](TokenId id, const std::string& content) {
    definition["added_tokens"].push_back({{"id", id},
                                          {"content", content},
                                          {"single_word", flags.single_word},
                                          {"lstrip", flags.strips},
                                          {"rstrip", flags.strips},
                                          {"normalized", flags.normalized},
                                          {"special", true}});
  };
  add(kStartId, kStart);
  add(kEndId, flags.decomposed ? "<|A\u030A|>" : kEnd);
  add(kLastId, "K\u00C5");
  ServedModel model;
  auto tokenizer = LoadTiny(definition);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  model.tokenizer = *std::move(tokenizer);
  auto parsed =
      lockstep::testing::LoadTestTemplate(lockstep::testing::SourceOf(chat_template, "", ""));
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  model.chat_template = *std::move(parsed);
  return model;
}

lockstep::v1::ChatPrompt Chat(const std::vector<std::string>& contents) {
  lockstep::v1::ChatPrompt chat;
  for (const std::string& content : contents) {
    auto* const message = chat.add_messages();
    message->set_role("user");
    message->set_content(content);
  }
  return chat;
}

Ids SpecialIds(const ServedModel& model, const lockstep::v1::ChatPrompt& chat) {
  const auto ids = PromptEncoder(model).EncodeChat(chat);
  EXPECT_TRUE(ids.ok()) << ids.status();
  Ids special;
  for (const TokenId id : ids.value_or(Ids())) {
    if (model.tokenizer->IsSpecial(id)) special.push_back(id);
  }
  return special;
}

const std::string kTurns =
    std::string("{% for m in messages %}") + kStart + "{{ m.content }}" + kEnd + "{% endfor %}";
// Texts of clients next to each other, and next to the end of a spelling.
const std::string kJoined =
    std::string("{% for m in messages %}{{ m.content }}{% endfor %}|>") + kEnd;

TEST(SpecialInjectionTest, AKelvinSignIsNoControlToken) {
  const ServedModel model = ModelWith({}, kTurns);
  EXPECT_THAT(SpecialIds(model, Chat({"<|\u212A|>"})), ElementsAre(kStartId, kEndId));
  EXPECT_THAT(SpecialIds(model, Chat({"<|A\u030A|><|\u212B|>"})), ElementsAre(kStartId, kEndId));
}

TEST(SpecialInjectionTest, TextsThatMeetMakeNoControlToken) {
  const ServedModel model = ModelWith({}, kJoined);
  EXPECT_THAT(SpecialIds(model, Chat({"<|A", "\u030A|>"})), ElementsAre(kEndId));
  EXPECT_THAT(SpecialIds(model, Chat({"<|\u212A"})), ElementsAre(kEndId));
}

TEST(SpecialInjectionTest, ATextCannotUndoAControlToken) {
  const ServedModel model = ModelWith({}, kTurns);
  EXPECT_THAT(SpecialIds(model, Chat({"\u0338"})), ElementsAre(kStartId, kEndId));
}

TEST(SpecialInjectionTest, ATemplateMaySpellATokenAsItsFileDoes) {
  const ServedModel model = ModelWith({.decomposed = true}, "<|A\u030A|><|\u00C5|>");
  EXPECT_THAT(SpecialIds(model, Chat({"x"})), ElementsAre(kEndId, kEndId));
}

TEST(SpecialInjectionTest, ATextHasControlTokensOnlyWhereTheyAreParsed) {
  const ServedModel model = ModelWith({}, kTurns);
  const auto specials = [&](bool parse_special) {
    const auto ids = PromptEncoder(model).EncodeText("<|\u212A|><|K|>K\u212B",
                                                     {.parse_special_tokens = parse_special});
    EXPECT_TRUE(ids.ok()) << ids.status();
    Ids special;
    for (const TokenId id : ids.value_or(Ids())) {
      if (model.tokenizer->IsSpecial(id)) special.push_back(id);
    }
    return special;
  };
  EXPECT_THAT(specials(false), ElementsAre());
  // The Kelvin sign is another character than the letter.
  EXPECT_THAT(specials(true), ElementsAre(kStartId));
}

class SpecialInjectionPropertyTest : public ::testing::TestWithParam<Flags> {
 protected:
  std::string RandomText() {
    static const std::vector<std::string> pieces = {
        "<",      "|",      ">",      "<|",     "|>",       "K",          "\u212A", "A",
        "\u030A", "\u00C5", "\u212B", "\u0338", "<|K|>",    "<|\u212A|>", "<s>",    "s",
        " ",      "\n",     "hello",  "<tool>", "<|\u00C5", "\u212B|>",   "K\u00C5"};
    std::string text;
    for (size_t i = random_() % 8; i > 0; --i) text += pieces[random_() % pieces.size()];
    return text;
  }

  std::mt19937 random_{12};
};

TEST_P(SpecialInjectionPropertyTest, SpecialTokensAreTheTemplates) {
  const Flags& flags = GetParam();
  const ServedModel turns = ModelWith(flags, kTurns);
  const ServedModel joined = ModelWith(flags, kJoined);
  for (int i = 0; i < 1500; ++i) {
    std::vector<std::string> contents;
    for (size_t n = 1 + random_() % 3; n > 0; --n) contents.push_back(RandomText());
    Ids in_turns;
    for (size_t n = contents.size(); n > 0; --n) {
      in_turns.insert(in_turns.end(), {kStartId, kEndId});
    }
    // A token that must stand alone need not be one beside a letter.
    const lockstep::v1::ChatPrompt chat = Chat(contents);
    const Ids seen_in_turns = SpecialIds(turns, chat);
    const Ids seen_joined = SpecialIds(joined, chat);
    if (flags.single_word) {
      EXPECT_LE(seen_in_turns.size(), in_turns.size()) << chat.ShortDebugString();
      EXPECT_LE(seen_joined.size(), 1u) << chat.ShortDebugString();
    } else {
      ASSERT_EQ(seen_in_turns, in_turns) << chat.ShortDebugString();
      ASSERT_THAT(seen_joined, ElementsAre(kEndId)) << chat.ShortDebugString();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, SpecialInjectionPropertyTest,
                         ::testing::Values(Flags{}, Flags{.normalized = false}, Flags{.nfc = false},
                                           Flags{.nfc = false, .normalized = false},
                                           Flags{.single_word = true}, Flags{.strips = true},
                                           Flags{.normalized = false, .strips = true}));

}  // namespace
}  // namespace lockstep::router
