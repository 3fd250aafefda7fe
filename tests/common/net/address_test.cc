#include "common/net/address.h"

#include <gtest/gtest.h>

#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(AddressTest, ParsesAndFormats) {
  const std::pair<const char*, Address> cases[] = {
      {"127.0.0.1:50051", {"127.0.0.1", 50051}},
      {"localhost:0", {"localhost", 0}},
      {"worker-0.lockstep:65535", {"worker-0.lockstep", 65535}},
      {"[::1]:9090", {"::1", 9090}},
      {"[fe80::1%eth0]:1", {"fe80::1%eth0", 1}}};
  for (const auto& [text, address] : cases) {
    const absl::StatusOr<Address> parsed = ParseAddress(text);
    ASSERT_THAT(parsed, IsOk()) << text;
    EXPECT_EQ(*parsed, address) << text;
    EXPECT_EQ(FormatAddress(*parsed), text);
  }
}

TEST(AddressTest, RefusesEverythingElseQuotingIt) {
  for (const char* text : {"",
                           ":",
                           "host",
                           "host:",
                           ":80",
                           "host:65536",
                           "host:-1",
                           "host:+1",
                           "host:80 ",
                           "host:0x50",
                           " host:80",
                           "ho st:80",
                           "::1:80",
                           "[::1]",
                           "[::1]80",
                           "[host]:80",
                           "[]:80",
                           "[::1:80",
                           "http://host:80",
                           "a/b:80",
                           "ho\nst:80",
                           "host:99999999999999999999"}) {
    EXPECT_THAT(ParseAddress(text),
                HasError(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("expected host:port"), HasSubstr(text))))
        << text;
  }
}

TEST(AddressTest, LoopbackIsWhatOnlyThisMachineReaches) {
  for (const char* host : {"localhost", "::1", "127.0.0.1", "127.3.2.1"}) {
    EXPECT_TRUE(IsLoopback({host, 1})) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "worker", "localhost.example",
                           "127.example", "127.0.0.1.example", "127.1", "::ffff:127.0.0.1"}) {
    EXPECT_FALSE(IsLoopback({host, 1})) << host;
  }
}

}  // namespace
}  // namespace lockstep
