#pragma once

#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/router/front/http2_asker.h"
#include "tests/router/http/http_fixture.h"

// What RFC 9110, 9112 and 9113 ask of a server, over a socket, in both versions.
namespace lockstep::testing {

class ConformanceTest : public HttpServingTest {
 protected:
  static constexpr char kCompletionPath[] = "/v1/completions";
  static constexpr char kTwoTokens[] = R"({"prompt": "x", "max_tokens": 2})";

  // A whole request: its first line, and fields that are whole lines.
  HttpResponse Raw(const std::string& bytes) {
    HttpClient client(port());
    client.Send(bytes);
    return client.ReadResponse();
  }
  static std::string Request(const std::string& line, const std::string& fields = "",
                             const std::string& body = "") {
    return fmt::format("{} HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: {}\r\n\r\n{}", line,
                       fields, body.size(), body);
  }
  static Fields Http2(const std::string& method, const std::string& path,
                      const Fields& more = {{":authority", "localhost"}}) {
    Fields fields = {{":method", method}, {":scheme", "http"}, {":path", path}};
    fields.insert(fields.end(), more.begin(), more.end());
    return fields;
  }
  // RFC 9110, 6.6.1, and 5.6.7.
  static void ExpectDate(const std::map<std::string, std::string>& head) {
    ASSERT_TRUE(head.contains("date"));
    absl::Time date;
    std::string error;
    ASSERT_TRUE(absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", head.at("date"), &date, &error))
        << head.at("date") << error;
    EXPECT_LE(absl::AbsDuration(absl::Now() - date), absl::Minutes(1));
  }
};

}  // namespace lockstep::testing
