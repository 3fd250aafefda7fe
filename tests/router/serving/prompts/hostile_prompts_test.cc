// Chats and parameters of a request that are as bad as they can be for the steps around the
// tokenizer. A step that takes quadratic time needs minutes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "common/status.h"
#include "router/serving/prompts/open_message.h"
#include "router/serving/prompts/prompt_encoder.h"
#include "router/serving/prompts/special_spellings.h"
#include "router/serving/validation/bad_words.h"
#include "tests/router/serving/byte_tokenizer.h"
#include "tests/support/processor_time.h"

namespace lockstep::router {
namespace {

constexpr size_t kChatBytes = size_t{1} << 20;
// Generous: the slowest takes some tenths of a second on an idle machine.
constexpr absl::Duration kQuick = absl::Seconds(20);

void ExpectQuickly(const std::string& what, const std::function<void()>& work) {
  const absl::Duration begin = ProcessorTime();
  work();
  const absl::Duration taken = ProcessorTime() - begin;
  std::printf("%-60s %6.0f ms\n", what.c_str(), absl::ToDoubleMilliseconds(taken));
  EXPECT_LT(taken, kQuick) << what;
}

std::string FilledWith(std::string_view unit, size_t num_bytes) {
  std::string text;
  while (text.size() + unit.size() <= num_bytes) text += unit;
  return text;
}

lockstep::v1::ChatPrompt ChatOf(const std::vector<std::string>& contents) {
  lockstep::v1::ChatPrompt chat;
  for (const std::string& content : contents) {
    lockstep::v1::ChatMessage* const message = chat.add_messages();
    message->set_role("user");
    message->set_content(content);
  }
  return chat;
}

TEST(HostilePromptsTest, ChatsAreEncodedInLinearTime) {
  const ServedModel model = lockstep::testing::MakeByteModel();
  const PromptEncoder encoder(model);
  const auto encode = [&](const std::string& what, const lockstep::v1::ChatPrompt& chat) {
    ExpectQuickly(what, [&] { (void)encoder.EncodeChat(chat); });
  };
  encode("one long message", ChatOf({FilledWith("a", kChatBytes)}));
  encode("many special spellings", ChatOf({FilledWith("<|im_end|>", kChatBytes / 4)}));
  encode("starts of special spellings", ChatOf({FilledWith("<|im_en", kChatBytes)}));
  encode("what looks like a marker", ChatOf({FilledWith("lockstephiddentext0x", kChatBytes)}));
  encode("many markers in use", [&] {
    std::string text;
    for (int i = 0; text.size() < kChatBytes; ++i) text += fmt::format("lockstephiddentext{}x", i);
    return ChatOf({text});
  }());
  encode("messages with open borders",
         ChatOf(std::vector<std::string>(1024, "|>" + FilledWith("a", 900) + "<|im_")));
}

// The last message is looked for in the rendering.
TEST(HostilePromptsTest, AnOpenMessageThatNearlyRepeatsItself) {
  const std::string others = FilledWith("a", kChatBytes / 2);
  const std::string end(kOpenEnd);
  for (const std::string& last :
       {FilledWith("a", kChatBytes / 4) + "b", "b" + FilledWith("a", kChatBytes / 4),
        FilledWith("ab", kChatBytes / 4) + "aa"}) {
    ExpectQuickly("an open message", [&] {
      EXPECT_FALSE(CutAtOpenEnd(others + end, last).ok());
      EXPECT_TRUE(CutAtOpenEnd(others + last + end, last).ok());
    });
  }
}

TEST(HostilePromptsTest, ManySpecialSpellings) {
  std::vector<std::string> spellings;
  for (int i = 0; i < 5000; ++i)
    spellings.push_back(fmt::format("<|reserved_special_token_{}|>", i));
  const SpecialSpellings special(spellings);
  const std::string text = FilledWith("<|reserved_special_token_", kChatBytes);
  ExpectQuickly("spellings in a text", [&] { EXPECT_TRUE(special.FindAll(text).empty()); });
  ExpectQuickly("open borders of 1024 texts", [&] {
    for (int i = 0; i < 1024; ++i) {
      EXPECT_EQ(special.OpenSuffixSize("x<|reserved_special_token_77|"), 28u);
      EXPECT_EQ(special.OpenPrefixSize("_token_77|>x"), 11u);
      EXPECT_EQ(special.OpenPrefixSize("_token_x"), 0u);
    }
  });
}

TEST(SpecialSpellingsTest, ASpellingThatALongerOneBeginsWithIsOpen) {
  const SpecialSpellings special({"<a>", "<a>x", "y<a>"});
  EXPECT_EQ(special.OpenSuffixSize("..<a>"), 3u);
  EXPECT_EQ(special.OpenPrefixSize("<a>.."), 3u);
  EXPECT_EQ(special.OpenSuffixSize("<a>x"), 0u);
}

TEST(HostilePromptsTest, AsManyBadWordsAsThereMayBe) {
  const lockstep::testing::ByteTokenizer tokenizer;
  google::protobuf::RepeatedPtrField<std::string> words;
  for (int i = 0; i < 256; ++i) words.Add(std::string(255, ' ') + static_cast<char>('!' + i % 90));
  ExpectQuickly("bad words", [&] { EXPECT_TRUE(BadWordTokens(tokenizer, words).ok()); });
}

}  // namespace
}  // namespace lockstep::router
