#include "common/net/percent_encoding.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

TEST(PercentEncodingTest, TextsSurviveIt) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string encoded = PercentEncoded(all);
  for (const char c : encoded) EXPECT_TRUE(c >= ' ' && c <= '~');
  EXPECT_EQ(PercentDecoded(encoded), all);
  EXPECT_EQ(PercentEncoded("50 %"), "50 %25");
  EXPECT_EQ(PercentEncoded("plain text: \"x\""), "plain text: \"x\"");
  EXPECT_EQ(PercentEncoded("50%\n\xc3\xa9"), "50%25%0A%C3%A9");
}

TEST(PercentEncodingTest, WhatIsNoEscapeStays) {
  for (const char* const broken : {"%", "%4", "%zz", "a%", "%4z", "%-1", "%+1", "% 1"}) {
    EXPECT_EQ(PercentDecoded(broken), broken);
  }
  EXPECT_EQ(PercentDecoded("%41%6a"), "Aj");
}

}  // namespace
}  // namespace lockstep
