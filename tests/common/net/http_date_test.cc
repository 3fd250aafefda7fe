#include "common/net/http_date.h"

#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace lockstep {
namespace {

// RFC 9110, 5.6.7; the seconds are those of `date -u -d @N`.
TEST(HttpDateTest, IsAnImfFixdate) {
  const struct {
    int64_t unix_seconds;
    const char* text;
  } cases[] = {
      {784111777, "Sun, 06 Nov 1994 08:49:37 GMT"},  // the example of the RFC
      {0, "Thu, 01 Jan 1970 00:00:00 GMT"},          {951782399, "Mon, 28 Feb 2000 23:59:59 GMT"},
      {951782400, "Tue, 29 Feb 2000 00:00:00 GMT"},  {1709164800, "Thu, 29 Feb 2024 00:00:00 GMT"},
      {4102444799, "Thu, 31 Dec 2099 23:59:59 GMT"},
  };
  for (const auto& [unix_seconds, text] : cases) {
    EXPECT_EQ(FormatHttpDate(absl::FromUnixSeconds(unix_seconds)), text);
    EXPECT_EQ(FormatHttpDate(absl::FromUnixSeconds(unix_seconds) + absl::Milliseconds(999)), text);
  }
}

TEST(HttpDateTest, IsThatOfNow) {
  const absl::Time before = absl::Now();
  const std::string date(HttpDate());
  const absl::Time after = absl::Now();
  // Both ends are rounded down to the second of their texts.
  EXPECT_TRUE(date == FormatHttpDate(before) || date == FormatHttpDate(after) ||
              absl::ToUnixSeconds(after) - absl::ToUnixSeconds(before) > 1)
      << date;
}

}  // namespace
}  // namespace lockstep
