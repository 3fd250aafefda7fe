#include "router/text/unicode/white_space.h"

#include <gtest/gtest.h>

#include <string>

#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

// str.isspace() of Python 3.
constexpr char32_t kSpaces[] = {0x09,   0x0A,   0x0B,   0x0C,   0x0D,   0x1C,   0x1D,   0x1E,
                                0x1F,   0x20,   0x85,   0xA0,   0x1680, 0x2000, 0x2001, 0x2002,
                                0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A,
                                0x2028, 0x2029, 0x202F, 0x205F, 0x3000};

TEST(WhiteSpaceTest, EverySpaceIsTrimmedFromItsOwnEnd) {
  std::string spaces;
  for (const char32_t c : kSpaces) spaces += EncodeUtf8(c);
  const std::string text = spaces + "a" + spaces + "\xC3\xA9" + spaces;
  EXPECT_EQ(TrimStart(text), "a" + spaces + "\xC3\xA9" + spaces);
  EXPECT_EQ(TrimEnd(text), spaces + "a" + spaces + "\xC3\xA9");
  EXPECT_EQ(TrimStart(spaces), "");
  EXPECT_EQ(TrimEnd(spaces), "");
  EXPECT_EQ(TrimEnd(""), "");
}

TEST(WhiteSpaceTest, NothingElseIsTrimmed) {
  for (const char32_t c : {0x00, 0x08, 0x1B, 0x7F, 0x180E, 0x200B, 0x2060, 0xFEFF, 0x10FFFF}) {
    const std::string text = EncodeUtf8(c);
    EXPECT_EQ(TrimStart(text), text) << static_cast<uint32_t>(c);
    EXPECT_EQ(TrimEnd(text), text) << static_cast<uint32_t>(c);
  }
}

}  // namespace
}  // namespace lockstep::router
