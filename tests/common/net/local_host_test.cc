#include "common/net/local_host.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(LocalHostTest, NamesOfThisMachineAndNumbers) {
  for (const char* const host :
       {"localhost", "LocalHost", "localhost:8000", "a.localhost", "a.localhost:1",
        "host.docker.internal", "127.0.0.1", "127.0.0.1:80", "10.1.2.3", "[::1]", "[::1]:8000",
        "[fe80::1]:65535"}) {
    EXPECT_TRUE(NamesThisMachine(host)) << host;
  }
}

TEST(LocalHostTest, EverythingElseMayBeAnybodys) {
  for (const char* const host : {"",
                                 ":80",
                                 "evil.example",
                                 "localhost.evil.example",
                                 "evil.example:80",
                                 ".localhost",
                                 "localhost:",
                                 "localhost:80@evil.com",
                                 "localhost:123456",
                                 "localhost:80:80",
                                 "evil.com@a.localhost",
                                 "a b.localhost",
                                 "127.0.0.1.evil.example",
                                 "127.0.0.1@evil.com",
                                 "[::1",
                                 "[::1]x",
                                 "[::1]x:80",
                                 "[evil.example]",
                                 "[]",
                                 "::1",
                                 "localhost."}) {
    EXPECT_FALSE(NamesThisMachine(host)) << host;
  }
}

}  // namespace
}  // namespace lockstep
