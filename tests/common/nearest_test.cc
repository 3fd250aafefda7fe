#include "common/nearest.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string_view>

namespace lockstep {
namespace {

TEST(NearestTest, CountsEdits) {
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("serve", "serve"), 0u);
  EXPECT_EQ(EditDistance("sreve", "serve"), 2u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
}

TEST(NearestTest, SuggestsOnlyWhatIsAlike) {
  constexpr std::array<std::string_view, 3> kVerbs = {"serve", "chat", "top"};
  EXPECT_EQ(Nearest("sevre", kVerbs), "serve");
  EXPECT_EQ(Nearest("chart", kVerbs), "chat");
  EXPECT_EQ(Nearest("tip", kVerbs), "top");
  EXPECT_EQ(Nearest("hcat", kVerbs), "chat");
  EXPECT_EQ(Nearest("foo", kVerbs), std::nullopt);
  EXPECT_EQ(Nearest("completely-else", kVerbs), std::nullopt);
  EXPECT_EQ(Nearest("", kVerbs), std::nullopt);
}

}  // namespace
}  // namespace lockstep
