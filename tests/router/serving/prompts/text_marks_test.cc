#include "router/serving/prompts/text_marks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "router/serving/prompts/chat_pieces.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;

const SpecialSpellings& Spellings() {
  static const SpecialSpellings spellings({"<|end|>", "<s>", "<s>>", "\u00C5x"});
  return spellings;
}

TEST(TextMarksTest, PlainTextsStayAsTheyAre) {
  TextMarks marks(Spellings());
  for (const char* const text : {"", "hello", "\u00E9 \U0001F642", "a < b"}) {
    EXPECT_EQ(marks.Mark(text), text);
  }
  EXPECT_FALSE(marks.has_marked());
}

TEST(TextMarksTest, MarksSpellingsAndBordersAndPutsThemBack) {
  TextMarks marks(Spellings());
  for (const std::string text : {"a<|end|>b", "x<|en", "d|>x", "\u00C5", "x\u00C5x\u00C5", "<s>>",
                                 "<s><s>", "\U0001F642<s>\u00E9"}) {
    const std::string marked = marks.Mark(text);
    EXPECT_NE(marked, text);
    EXPECT_TRUE(FindInvalidUtf8(marked).has_value()) << "marks are in no text of a client";
    const auto plain = marks.Unmark(marked);
    ASSERT_TRUE(plain.ok()) << plain.status();
    EXPECT_EQ(plain->text, text);
    EXPECT_EQ(plain->is_marked.size(), text.size());
  }
  EXPECT_TRUE(marks.has_marked());
  EXPECT_FALSE(FindInvalidUtf8(*marks.characters()).has_value());
}

TEST(TextMarksTest, AMarkOfAnotherChatIsAnError) {
  TextMarks marks(Spellings());
  EXPECT_FALSE(marks.Unmark("\xED\xB0\x80").ok());
}

TEST(TextMarksTest, ThereAreOnlySoManyMarks) {
  std::vector<std::string> many;
  std::string text;
  for (char32_t c = 0x4E00; c < 0x4E00 + 1100; ++c) {
    many.push_back(EncodeUtf8(c));
    text += many.back();
  }
  const SpecialSpellings spellings(many);
  TextMarks marks(spellings);
  marks.Mark(text);
  EXPECT_EQ(marks.characters().status().code(), absl::StatusCode::kInvalidArgument);
}

std::vector<std::string> Separate(const std::string& before, const std::string& text,
                                  const std::string& after) {
  TextMarks marks(Spellings());
  const std::string marked = before + marks.Mark(text) + after;
  const auto pieces = SeparateForeign(Spellings(), before + text + after, marked, marks);
  EXPECT_TRUE(pieces.ok()) << pieces.status();
  std::vector<std::string> shown;
  for (const ChatPiece& piece : *pieces)
    shown.push_back((piece.foreign ? "F:" : "T:") + piece.text);
  return shown;
}

TEST(ChatPiecesTest, CutsAtWhatClientsSpell) {
  EXPECT_THAT(Separate("<s>", "hello", "<|end|>"), ElementsAre("T:<s>hello<|end|>"));
  EXPECT_THAT(Separate("<s>", "a<s>b", "<|end|>"), ElementsAre("T:<s>a", "F:<s>", "T:b<|end|>"));
  EXPECT_THAT(Separate("<", "s", ">"), ElementsAre("T:<s>"));
  EXPECT_THAT(Separate("x<|en", "d|>", "y"), ElementsAre("T:x", "F:<|end|>", "T:y"));
  EXPECT_THAT(Separate("", "<|end", "|>"), ElementsAre("F:<|end|>"));
  // The longer spelling is half the template's; the shorter one is all its own.
  EXPECT_THAT(Separate("<s>", "> hi", "<|end|>"), ElementsAre("T:<s>", "F:> hi", "T:<|end|>"));
}

TEST(ChatPiecesTest, ARenderingThatDiffersIsTakenOnlyIfItHasNothingForeign) {
  TextMarks marks(Spellings());
  const std::string marked = marks.Mark("<s>");
  const auto separate = [&](const std::string& plain) {
    return SeparateForeign(Spellings(), plain, "<|end|>" + marked, marks).ok();
  };
  EXPECT_TRUE(separate("<|end|><s>"));
  EXPECT_TRUE(separate("<|end|>&lt;s&gt;"));
  EXPECT_FALSE(separate("<|end|>x<s>"));
  EXPECT_FALSE(separate("<s>"));
}

}  // namespace
}  // namespace lockstep::router
