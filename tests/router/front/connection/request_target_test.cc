#include "router/front/connection/request_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::router {
namespace {

using ::testing::HasSubstr;

struct Http1Case {
  std::string_view method;
  std::string_view target;
  std::optional<std::string_view> host = "h";
  bool http_1_0 = false;
};

TargetReading Read(const Http1Case& c) {
  return ReadTarget(c.method, c.target, c.host, c.http_1_0);
}

// RFC 9112, 3.2 and 3.3.
TEST(RequestTargetTest, Http1HasFourForms) {
  const struct {
    Http1Case request;
    std::string_view path;
    std::string_view host;
  } cases[] = {
      {{"GET", "/"}, "/", "h"},
      {{"GET", "/a/b?c=/d?e"}, "/a/b", "h"},
      {{"GET", "//a"}, "//a", "h"},
      {{"GET", "/a%20b"}, "/a%20b", "h"},
      {{"GET", "/http://x/"}, "/http://x/", "h"},
      {{"GET", "/", ""}, "/", ""},
      {{"GET", "/", std::nullopt, true}, "/", ""},
      {{"GET", "/", "[::1]:80"}, "/", "[::1]:80"},
      // The absolute form: the field Host beside it does not count.
      {{"GET", "http://x/a?b"}, "/a", "x"},
      {{"POST", "HTTP://X:80/a"}, "/a", "X:80"},
      {{"GET", "https://x"}, "/", "x"},
      {{"GET", "http://x?q=1"}, "/", "x"},
      {{"GET", "http://[::1]:1/a"}, "/a", "[::1]:1"},
      {{"GET", "http://x/a", std::nullopt, true}, "/a", "x"},
      // The asterisk form, and what a proxy makes of it.
      {{"OPTIONS", "*"}, "*", "h"},
      {{"OPTIONS", "http://x"}, "*", "x"},
      {{"OPTIONS", "http://x/"}, "/", "x"},
      {{"OPTIONS", "/a"}, "/a", "h"},
      // The authority form, which leads to no path that there is.
      {{"CONNECT", "x:443"}, "x:443", "h"},
  };
  for (const auto& [request, path, host] : cases) {
    const TargetReading reading = Read(request);
    ASSERT_EQ(reading.refusal, nullptr) << request.target << ": " << reading.refusal;
    EXPECT_EQ(reading.target.path, path) << request.target;
    EXPECT_EQ(reading.target.host, host) << request.target;
  }
}

TEST(RequestTargetTest, Http1RefusesOtherForms) {
  const struct {
    Http1Case request;
    std::string_view why;
  } cases[] = {
      {{"GET", "/", std::nullopt}, "needs the field Host"},
      {{"GET", "http://x/", std::nullopt}, "needs the field Host"},
      {{"OPTIONS", "*", std::nullopt}, "needs the field Host"},
      {{"GET", "/", "a b"}, "the host is no"},
      {{"GET", "/", "localhost:80@evil.com"}, "the host is no"},
      {{"GET", "/", "a:b", true}, "the host is no"},
      {{"GET", "http://x/", "a/b"}, "the host is no"},
      {{"GET", "http:///a"}, "the host is no"},
      {{"GET", "http://"}, "the host is no"},
      {{"GET", "http://user@x/"}, "the host is no"},
      {{"GET", "http://localhost:80@evil.com/"}, "the host is no"},
      {{"GET", "http://x:a/"}, "the host is no"},
      {{"GET", "*"}, "the target is no"},
      {{"OPTIONS", "**"}, "the target is no"},
      {{"GET", "a"}, "the target is no"},
      {{"GET", ""}, "the target is no"},
      {{"GET", "?q"}, "the target is no"},
      {{"GET", "x:443"}, "the target is no"},
      {{"GET", "ftp://x/"}, "the target is no"},
      {{"GET", "http:/x/"}, "the target is no"},
      {{"GET", "/a#b"}, "the target is no"},
      {{"GET", "/a\x7f"}, "the target is no"},
      {{"GET", "http://x/a#b"}, "the target is no"},
  };
  for (const auto& [request, why] : cases) {
    const TargetReading reading = Read(request);
    ASSERT_NE(reading.refusal, nullptr) << request.target;
    EXPECT_THAT(reading.refusal, HasSubstr(std::string(why))) << request.target;
  }
}

// RFC 9113, 8.3.1.
TEST(RequestTargetTest, Http2NamesOneHost) {
  const struct {
    HeaderList fields;
    std::string_view host;  // empty: refused
  } cases[] = {
      {{{":authority", "x"}}, "x"},
      {{{"host", "x"}}, "x"},
      {{{":authority", "x"}, {"host", "x"}}, "x"},
      {{{":authority", "X:80"}, {"host", "x"}, {":scheme", "http"}}, "X:80"},
      {{{":authority", "x"}, {"host", "X:443"}, {":scheme", "https"}}, "x"},
      {{{":authority", "x:443"}, {"host", "x"}, {":scheme", "http"}}, ""},
      {{{":authority", "x"}, {"host", "y"}}, ""},
      {{{":authority", "x"}, {"host", ""}}, ""},
      {{{":authority", "x"}, {"host", "x"}, {"host", "y"}}, ""},
      {{{":authority", "x:1"}, {"host", "x:2"}}, ""},
      {{{":authority", "localhost:80@evil.com"}}, ""},
      {{{":authority", "user@x"}, {"host", "user@x"}}, ""},
      {{{"host", "a b"}}, ""},
      {{{":authority", " x"}}, ""},
  };
  for (const auto& [rest, host] : cases) {
    HeaderList fields = rest;
    fields.Add(":path", "/a?b");
    const TargetReading reading = ReadTarget(fields);
    EXPECT_EQ(reading.refusal == nullptr, !host.empty()) << host << fields.Find(":authority");
    if (host.empty()) continue;
    EXPECT_EQ(reading.target.host, host);
    EXPECT_EQ(reading.target.path, "/a");
  }
}

}  // namespace
}  // namespace lockstep::router
