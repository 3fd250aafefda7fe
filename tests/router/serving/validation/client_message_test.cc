#include "router/serving/validation/client_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/status.h"
#include "router/serving/validation/field_checks.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

std::string Told(const std::string& text) {
  return ClientMessage(absl::Status(absl::StatusCode::kInternal, text));
}

TEST(ClientMessageTest, ShortTextIsToldAsItIs) {
  EXPECT_EQ(Told("text: expected at most 5 bytes, got 6"), "text: expected at most 5 bytes, got 6");
  EXPECT_EQ(Told("é漢"), "é漢");
  EXPECT_EQ(Told(""), "");
  const std::string longest(kMaxClientMessageBytes, 'x');
  EXPECT_EQ(Told(longest), longest);
}

TEST(ClientMessageTest, LongTextIsCutAtACharacter) {
  for (size_t shift = 0; shift < 5; ++shift) {
    std::string text(kMaxClientMessageBytes - 8 + shift, 'x');
    for (int i = 0; i < 1000; ++i) text += "漢";
    const std::string told = Told(text);
    EXPECT_LE(told.size(), kMaxClientMessageBytes);
    EXPECT_GT(told.size(), kMaxClientMessageBytes - 4);
    EXPECT_THAT(told, EndsWith("..."));
    EXPECT_FALSE(FindInvalidUtf8(told).has_value());
    EXPECT_THAT(text, StartsWith(told.substr(0, told.size() - 3)));
  }
}

TEST(ClientMessageTest, BytesThatAreNoTextAreReplaced) {
  EXPECT_EQ(Told("a\xff\xfe b\xe6\xbc"), "a\uFFFD\uFFFD b\uFFFD");
  const std::string told = Told(std::string(100'000, '\xff'));
  EXPECT_LE(told.size(), kMaxClientMessageBytes);
  EXPECT_FALSE(FindInvalidUtf8(told).has_value());
}

TEST(QuoteTest, ShowsAtMostAHundredBytesOfForeignText) {
  EXPECT_EQ(Quote("abc é"), "\"abc é\"");
  EXPECT_EQ(Quote("a\nb\xff"), "\"a\\nb\\xff\"");
  EXPECT_EQ(Quote(std::string(100, 'x')), '"' + std::string(100, 'x') + '"');
  EXPECT_EQ(Quote(std::string(101, 'x')), '"' + std::string(100, 'x') + "\"... (101 bytes)");
  for (const std::string part : {"\x01", "\xff", "漢", "x", "\n"}) {
    std::string text;
    for (int i = 0; i < 1000; ++i) text += part;
    const std::string quoted = Quote(text);
    EXPECT_LE(quoted.size(), 100 + std::string("\"\"... (3000 bytes)").size()) << quoted;
    EXPECT_FALSE(FindInvalidUtf8(quoted).has_value());
  }
}

}  // namespace
}  // namespace lockstep::router
