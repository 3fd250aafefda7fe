#include "router/http/browser_policy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/status.h"
#include "tests/router/http/http_fixture.h"
#include "tests/router/serving/test_tenants.h"

namespace lockstep::testing {
namespace {

using router::BrowserPolicy;
using router::HttpRequest;
using router::IsJsonContentType;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kJsonType = "Content-Type: application/json\r\n";

absl::StatusCode CodeOf(const std::string& host, const std::string& origin,
                        const std::vector<std::string>& allowed = {}) {
  const HttpRequest request{
      .method = "POST", .path = "/", .body = "", .request_id = "", .host = host, .origin = origin};
  return BrowserPolicy(allowed).CheckLocal(request).code();
}

TEST(BrowserPolicyTest, LocalRequestsNameThisMachine) {
  for (const std::string host :
       {"", "localhost", "LocalHost:8000", "app.localhost:1", "host.docker.internal:8000",
        "127.0.0.1", "127.0.0.1:1", "127.1.2.3:80", "[::1]", "[::1]:8000"}) {
    EXPECT_EQ(CodeOf(host, ""), absl::StatusCode::kOk) << host;
  }
  for (const std::string host :
       {"evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example",
        "192.168.0.1:8000", "[::2]:1", "x@localhost", "localhost@x", "[::1", ":80",
        "localhost:80@evil.com", "127.0.0.1:80@evil.com", "[::1]:80@evil.com", "[::1]evil.com",
        "localhost/evil.com", "localhost:80:evil.com", "localhost:99999"}) {
    EXPECT_EQ(CodeOf(host, ""), absl::StatusCode::kPermissionDenied) << host;
  }
}

TEST(BrowserPolicyTest, LocalRequestsComeFromPagesOfThisMachineOrListedOnes) {
  for (const std::string origin :
       {"http://localhost:3000", "https://127.0.0.1", "http://[::1]:1"}) {
    EXPECT_EQ(CodeOf("localhost", origin), absl::StatusCode::kOk) << origin;
  }
  const std::string page = "https://app.example";
  for (const std::string& origin :
       {page, std::string("null"), std::string("http://localhost.evil"),
        std::string("http://localhost:80@evil.example"), std::string("http://localhost/")}) {
    EXPECT_EQ(CodeOf("localhost", origin), absl::StatusCode::kPermissionDenied) << origin;
    EXPECT_EQ(CodeOf("localhost", origin, {"*"}), absl::StatusCode::kOk) << origin;
  }
  EXPECT_EQ(CodeOf("localhost", page, {"http://other", page}), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf("localhost", page + ":8443", {page}), absl::StatusCode::kPermissionDenied);
  // An allowed page names the router as everybody does.
  EXPECT_EQ(CodeOf("evil.example", page, {"*"}), absl::StatusCode::kPermissionDenied);
}

TEST(BrowserPolicyTest, OriginsAreASchemeAndAHost) {
  const auto check = [](const std::string& origin) {
    const std::vector<std::string> origins = {"*", origin};
    return BrowserPolicy::CheckOrigins(origins);
  };
  for (const std::string good :
       {"*", "http://localhost:3000", "https://a.example", "app://obsidian.md"}) {
    EXPECT_TRUE(check(good).ok()) << good;
  }
  for (const std::string bad :
       {"", "null", "a.example", "https://", "://a", "https://a/", "https://a b",
        "https://a\r\nX: y", "https://*/x", "https://user@a", "https://a:b", "https://a:65536"}) {
    EXPECT_EQ(check(bad).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(BrowserPolicyTest, JsonHasItsContentTypes) {
  for (const std::string type : {"application/json", "Application/JSON; charset=utf-8",
                                 "application/json ;x", "application/problem+json"}) {
    EXPECT_TRUE(IsJsonContentType(type)) << type;
  }
  for (const std::string type : {"", "text/plain", "application/x-www-form-urlencoded",
                                 "multipart/form-data; boundary=application/json", "text/json",
                                 "application/jsonx", "text/plain;application/json"}) {
    EXPECT_FALSE(IsJsonContentType(type)) << type;
  }
}

class BrowserPolicyServingTest : public HttpServingTest {
 protected:
  static constexpr char kPage[] = "https://app.example";

  // `fields` are whole lines.
  HttpResponse Ask(const std::string& method, const std::string& path, const std::string& fields,
                   const std::string& body = "") {
    HttpClient client(port());
    const std::string host =
        fields.find("Host: ") == std::string::npos ? "Host: localhost\r\n" : "";
    client.Send(fmt::format("{} {} HTTP/1.1\r\n{}{}Content-Length: {}\r\n\r\n{}", method, path,
                            host, fields, body.size(), body));
    return client.ReadResponse();
  }
  HttpResponse Complete(const std::string& fields) {
    return Ask("POST", "/v1/completions", fields, R"({"prompt": "x", "max_tokens": 1})");
  }
  void ExpectPreflightRefused() {
    const HttpResponse refusal =
        Ask("OPTIONS", "/v1/completions",
            "Origin: http://localhost:3000\r\nAccess-Control-Request-Method: POST\r\n");
    EXPECT_EQ(refusal.status, 403) << refusal.body;
    EXPECT_THAT(Json(refusal)["error"]["message"].get<std::string>(),
                AllOf(HasSubstr("\"http://localhost:3000\""), HasSubstr("--cors-origins")));
    EXPECT_EQ(refusal.headers.count("access-control-allow-origin"), 0u);
  }
};

TEST_F(BrowserPolicyServingTest, ABodyThatSaysItIsNoJsonIsRefused) {
  StartAll();
  const HttpResponse form = Complete("Content-Type: application/x-www-form-urlencoded\r\n");
  EXPECT_EQ(form.status, 415);
  EXPECT_THAT(form.body, HasSubstr("Content-Type: application/json"));
  EXPECT_EQ(Complete("Content-Type: text/plain\r\n").status, 415);
  EXPECT_EQ(Complete("").status, 200);
  EXPECT_EQ(Complete("Origin: http://localhost:3000\r\n").status, 415) << "needs no preflight";
  EXPECT_EQ(Complete("Content-Type: application/json; charset=utf-8\r\n").status, 200);
  EXPECT_EQ(Ask("POST", "/tokenize", "Content-Type: text/plain\r\n", "{}").status, 415);
}

TEST_F(BrowserPolicyServingTest, OnLoopbackForeignHostsAndPagesAreRefused) {
  StartAll();
  const HttpResponse rebound = Complete("Host: evil.example:8000\r\n");
  EXPECT_EQ(rebound.status, 403);
  EXPECT_THAT(rebound.body, HasSubstr("permission_error"));
  EXPECT_EQ(Ask("GET", "/v1/models", "Host: evil.example\r\n").status, 403);
  EXPECT_EQ(Complete("Host: localhost\r\nOrigin: https://evil.example\r\n").status, 403);
  const HttpResponse local =
      Complete("Host: localhost\r\nOrigin: http://localhost:3000\r\n" + kJsonType);
  EXPECT_EQ(local.status, 200);
  EXPECT_EQ(local.headers.count("access-control-allow-origin"), 0u);
}

TEST_F(BrowserPolicyServingTest, APageThatIsNotListedLearnsWhatWouldListIt) {
  StartAll();
  ExpectPreflightRefused();
  const HttpResponse options = Ask("OPTIONS", "/v1/completions", "");
  EXPECT_EQ(options.status, 200) << "no page asks";
  EXPECT_EQ(options.headers.at("allow"), "POST, OPTIONS");
}

TEST_F(BrowserPolicyServingTest, WithKeysAPageThatIsNotListedLearnsTheSame) {
  const TempFolder folder;
  router_config_.tenants_path = WriteTenants(folder, {{"acme", {"acme-key"}}});
  StartAll();
  ExpectPreflightRefused();
}

TEST_F(BrowserPolicyServingTest, ListedPagesMayAskAndRead) {
  http_config_.cors_origins = {"https://other.example", kPage};
  StartAll();
  const std::string origin = std::string("Origin: ") + kPage + "\r\n";
  const HttpResponse preflight =
      Ask("OPTIONS", "/v1/chat/completions",
          origin +
              "Access-Control-Request-Method: POST\r\n"
              "Access-Control-Request-Headers: authorization, content-type\r\n");
  EXPECT_EQ(preflight.status, 200);
  EXPECT_EQ(preflight.headers.at("access-control-allow-origin"), kPage);
  EXPECT_THAT(preflight.headers.at("access-control-allow-headers"), HasSubstr("Authorization"));
  EXPECT_THAT(preflight.headers.at("access-control-allow-methods"), HasSubstr("POST"));
  EXPECT_EQ(preflight.headers.at("vary"), "Origin");
  EXPECT_EQ(preflight.headers.count("access-control-allow-credentials"), 0u);

  const HttpResponse answer = Complete(origin + kJsonType);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("access-control-allow-origin"), kPage);
  EXPECT_THAT(answer.headers.at("access-control-expose-headers"), HasSubstr("X-Request-Id"));
  const HttpResponse error = Ask("POST", "/v1/completions", origin + kJsonType, "{}");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.headers.at("access-control-allow-origin"), kPage);

  EXPECT_EQ(Ask("OPTIONS", "/v1/models", "Origin: https://evil.example\r\n").status, 403);
  EXPECT_EQ(Complete("").headers.count("access-control-allow-origin"), 0u);
}

TEST_F(BrowserPolicyServingTest, AStarAllowsEveryPageWithoutNamingIt) {
  http_config_.cors_origins = {"*"};
  StartAll();
  const HttpResponse answer = Complete("Origin: https://any.example\r\n" + kJsonType);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("access-control-allow-origin"), "*");
  EXPECT_EQ(answer.headers.count("vary"), 0u);
}

}  // namespace
}  // namespace lockstep::testing
