#include "common/shown_text.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "common/utf8.h"

namespace lockstep {
namespace {

TEST(ShownTextTest, ANameIsShownAsItIsIfItIsShortAndPlain) {
  EXPECT_EQ(ShownName("blk.0.attn_q.weight"), "blk.0.attn_q.weight");
  EXPECT_EQ(ShownName("vocabulaire é 漢"), "vocabulaire é 漢");
  EXPECT_EQ(ShownName(""), "");
}

TEST(ShownTextTest, ANameStaysOnOneLineAndSteersNoTerminal) {
  EXPECT_EQ(ShownName("a\nb\tc\x1b[2J\x7f"), "a\\nb\\tc\\x1b[2J\\x7f");
  EXPECT_EQ(ShownName("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");
  EXPECT_EQ(ShownName("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(Quote("\x1b]0;title\x07"), "\"\\x1b]0;title\\x07\"");
}

TEST(ShownTextTest, ALongNameIsCutAtACharacter) {
  EXPECT_EQ(ShownName(std::string(1 << 20, 'x')), std::string(100, 'x') + "... (1048576 bytes)");
  std::string accents;
  while (accents.size() < 300) accents += "é";
  const std::string shown = ShownName(accents);
  EXPECT_EQ(shown, accents.substr(0, 100) + "... (300 bytes)");
  EXPECT_LT(ShownName(std::string(1000, '\x1b')).size(), 125u);
}

TEST(ShownTextTest, NumbersAreCut) {
  EXPECT_EQ(ShownNumbers({}), "");
  EXPECT_EQ(ShownNumbers(std::vector<uint64_t>{2, 3}), "2, 3");
  std::vector<uint64_t> many(1'000'000);
  std::iota(many.begin(), many.end(), uint64_t{0});
  EXPECT_EQ(ShownNumbers(many),
            "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, ... (1000000 numbers)");
}

TEST(ShownTextTest, WithoutControlsKeepsLineBreaksAndTabs) {
  EXPECT_EQ(WithoutControls("a\x1b[2J\tb\r\n\x07\x7f"), "a[2J\tb\n");
  EXPECT_EQ(WithoutControls("\xc2\x9b"
                            "1mé \xc2\xa0ü"),
            "1mé \xc2\xa0ü");
  EXPECT_EQ(WithoutControls("\xc2"), "\xc2");
}

TEST(ShownTextTest, OneLineHasNoLineBreaks) {
  EXPECT_EQ(OneLine("a\nb\tc\x1b[m", 100), "a b c[m");
  EXPECT_EQ(OneLine("ééé", 5), "éé");
  EXPECT_EQ(OneLine(std::string(1000, 'x'), 10), std::string(10, 'x'));
}

TEST(CharacterBytesTest, KnowsWellFormedCharacters) {
  EXPECT_EQ(CharacterBytes("é", 0), 2u);
  EXPECT_EQ(CharacterBytes("漢", 0), 3u);
  EXPECT_EQ(CharacterBytes("\xf0\x9f\x98\x80", 0), 4u);
  for (const char* const text : {"a", "\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80",
                                 "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80"}) {
    EXPECT_EQ(CharacterBytes(text, 0), 0u) << text;
  }
  EXPECT_EQ(CharacterBytes("", 0), 0u);
}

}  // namespace
}  // namespace lockstep
