#include "cli/common/server_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/status_matchers.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;

TEST(ServerUrlTest, SpellingsOfOneServer) {
  for (const char* const text : {"127.0.0.1:8000", "127.0.0.1", "http://127.0.0.1:8000",
                                 "http://127.0.0.1:8000/", "http://127.0.0.1/v1"}) {
    const auto url = ParseServerUrl(text);
    ASSERT_THAT(url, IsOk());
    EXPECT_EQ(url->address, (Address{"127.0.0.1", 8000})) << text;
    EXPECT_FALSE(url->tls);
  }
}

TEST(ServerUrlTest, TlsAndIpv6) {
  const auto url = ParseServerUrl("https://[::1]:7/v1");
  ASSERT_THAT(url, IsOk());
  EXPECT_EQ(url->address, (Address{"::1", 7}));
  EXPECT_TRUE(url->tls);
  EXPECT_EQ(ParseServerUrl("[::1]").value().address, (Address{"::1", 8000}));
}

TEST(ServerUrlTest, QuotesWhatIsNone) {
  for (const char* const text : {"", "a:b", "http://", "127.0.0.1:0", "127.0.0.1:70000"}) {
    EXPECT_THAT(ParseServerUrl(text), HasError(kInvalid, HasSubstr(std::string("\"") + text)));
  }
}

}  // namespace
}  // namespace lockstep::cli
