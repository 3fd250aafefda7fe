#include "common/net/http_host.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {
namespace {

using std::string_literals::operator""s;

TEST(HttpHostTest, ReadsAHostAndAPort) {
  const struct {
    std::string text;
    std::string name;
    std::optional<uint16_t> port = {};
    bool is_v6 = false;
  } cases[] = {
      {"localhost", "localhost"},
      {"LocalHost:8000", "localhost", 8000},
      {"a.example:", "a.example"},
      {"a.example:0", "a.example", 0},
      {"a.example:00080", "a.example", 80},
      {"a.example:65535", "a.example", 65535},
      {"localhost.", "localhost."},
      {"my_host-1~x", "my_host-1~x"},
      {"a%2Eb", "a%2eb"},
      {"a!$&'()*+,;=b", "a!$&'()*+,;=b"},
      {"127.0.0.1:1", "127.0.0.1", 1},
      {"999.999.999.999", "999.999.999.999"},  // a name, as far as the grammar goes
      {"[::1]", "::1", {}, true},
      {"[::1]:8000", "::1", 8000, true},
      {"[2001:DB8::1]:", "2001:db8::1", {}, true},
      {"[::ffff:127.0.0.1]", "::ffff:127.0.0.1", {}, true},
  };
  for (const auto& [text, name, port, is_v6] : cases) {
    EXPECT_EQ(ParseHttpHost(text), (HttpHost{.name = name, .port = port, .is_v6 = is_v6})) << text;
  }
}

TEST(HttpHostTest, RefusesEverythingElse) {
  for (const std::string& text : {""s,
                                  ":80"s,
                                  "localhost:80@evil.com"s,
                                  "localhost@evil.com"s,
                                  "user:password@localhost"s,
                                  "@localhost"s,
                                  "localhost:65536"s,
                                  "localhost:80a"s,
                                  "localhost:-1"s,
                                  "localhost:+80"s,
                                  "localhost: 80"s,
                                  "localhost:80:80"s,
                                  "localhost:99999999999999999999"s,
                                  "local host"s,
                                  " localhost"s,
                                  "localhost "s,
                                  "localhost\t"s,
                                  "localhost\0.evil.com"s,
                                  "localhost/"s,
                                  "localhost/path"s,
                                  "localhost?"s,
                                  "localhost#"s,
                                  "localhost\\evil.com"s,
                                  "http://localhost"s,
                                  "a%2"s,
                                  "a%"s,
                                  "a%zz"s,
                                  "a\"b"s,
                                  "a<b>"s,
                                  "a^b"s,
                                  "a|b"s,
                                  "a{b}"s,
                                  "a`b"s,
                                  "h\xc3\xb6st"s,
                                  "a\x7f"s,
                                  "::1"s,
                                  "[::1"s,
                                  "::1]"s,
                                  "[]"s,
                                  "[]:80"s,
                                  "[::1]80"s,
                                  "[::1]x"s,
                                  "[::1].evil.com"s,
                                  "[::1]:80@evil.com"s,
                                  "[::1%eth0]"s,
                                  "[1.2.3.4]"s,
                                  "[:::]"s,
                                  "[12345::]"s,
                                  "[::1]]"s,
                                  "[[::1]]"s,
                                  "[::1\0]"s,
                                  "[v1.x]"s,
                                  "x[::1]"s}) {
    EXPECT_EQ(ParseHttpHost(text), std::nullopt) << text;
  }
}

TEST(HttpHostTest, KnowsTheNamesOfThisMachine) {
  for (const std::string text :
       {"localhost", "LOCALHOST:1", "app.localhost", "127.0.0.1", "127.255.255.254:80", "[::1]",
        "[::1]:8000", "host.docker.internal"}) {
    EXPECT_TRUE(IsThisMachine(*ParseHttpHost(text))) << text;
  }
  for (const std::string text :
       {"evil.com", "localhost.evil.com", "127.0.0.1.evil.com", "notlocalhost", "128.0.0.1",
        "192.168.0.1", "0.0.0.0", "[::2]", "[::]", "a.docker.internal", "127.0.0.1,evil.com"}) {
    EXPECT_FALSE(IsThisMachine(*ParseHttpHost(text))) << text;
  }
}

}  // namespace
}  // namespace lockstep
