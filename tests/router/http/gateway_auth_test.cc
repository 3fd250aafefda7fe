#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/router/api/test_tenants.h"
#include "tests/router/http/http_fixture.h"

// API keys and the limits of tenants, over HTTP.
namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class GatewayAuthTest : public HttpServingTest {
 protected:
  void StartWith(const std::vector<TestTenant>& tenants) {
    router_config_.tenants_path = WriteTenants(folder_, tenants);
    StartAll();
  }
  HttpResponse Ask(const std::string& method, const std::string& path,
                   const std::string& authorization, const std::string& body = "") {
    HttpClient client(port());
    client.Send(fmt::format("{} {} HTTP/1.1\r\nHost: x\r\n{}{}Content-Length: {}\r\n\r\n{}", method,
                            path,
                            authorization.empty() ? "" : "Authorization: " + authorization + "\r\n",
                            "Content-Type: application/json\r\n", body.size(), body));
    return client.ReadResponse();
  }
  HttpResponse Complete(const std::string& key, const std::string& body) {
    return Ask("POST", "/v1/completions", "Bearer " + key, body);
  }

  const TempFolder folder_;
};

constexpr char kShort[] = R"({"prompt": "Hello", "max_tokens": 4, "ignore_eos": true})";

TEST_F(GatewayAuthTest, StrangersLearnNothingButHealth) {
  StartWith({{"acme", {"acme-key"}}});
  for (const std::string authorization : {"", "Bearer wrong-key", "Basic acme-key", "acme-key"}) {
    for (const std::string path : {"/v1/completions", "/v1/chat/completions", "/tokenize",
                                   "/detokenize", "/v1/models", "/v1/models/bytes", "/version",
                                   "/metrics", "/no/such/path", "/health/", "/ready/../metrics"}) {
      for (const std::string method : {"GET", "POST", "DELETE"}) {
        const HttpResponse response = Ask(method, path, authorization);
        EXPECT_EQ(response.status, 401) << method << " " << path << " " << authorization;
        EXPECT_EQ(response.headers.at("www-authenticate"), "Bearer");
        const nlohmann::json error = Json(response)["error"];
        EXPECT_EQ(error["type"], "authentication_error");
        EXPECT_EQ(error["code"], "invalid_api_key");
        EXPECT_TRUE(error["param"].is_null());
        EXPECT_THAT(response.body, Not(HasSubstr("-key")));
      }
    }
    EXPECT_EQ(Ask("GET", "/health", authorization).status, 200);
    EXPECT_EQ(Ask("GET", "/ready", authorization).status, 200);
  }
  EXPECT_EQ(router_->engine().admission_counts().open_requests, 0u);
}

TEST_F(GatewayAuthTest, ItsKeyOpensThePaths) {
  StartWith({{"acme", {"acme-key"}}});
  const HttpResponse response = Complete("acme-key", kShort);
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(Text(response), Continuation(6, 4));
  EXPECT_EQ(Ask("POST", "/tokenize", "bearer acme-key", R"({"prompt": "a"})").status, 200);
  EXPECT_EQ(Ask("GET", "/v1/models", "Bearer acme-key").status, 200);
  EXPECT_EQ(Ask("GET", "/no/such/path", "Bearer acme-key").status, 404);
}

TEST_F(GatewayAuthTest, MetricsTellOfAllTenantsAndAreForNone) {
  StartWith({{"acme", {"acme-key"}}, {"blue", {"blue-key"}}});
  Complete("blue-key", kShort);
  const HttpResponse response = Ask("GET", "/metrics", "Bearer acme-key");
  EXPECT_EQ(response.status, 403);
  EXPECT_EQ(Json(response)["error"]["type"], "permission_error");
  EXPECT_THAT(response.body, Not(HasSubstr("blue")));
}

TEST_F(GatewayAuthTest, PrefixesAreNotSharedBetweenTenants) {
  StartWith({{"acme", {"acme-key"}}, {"blue", {"blue-key"}}});
  const std::string body =
      fmt::format(R"({{"prompt": "{}", "max_tokens": 1}})", std::string(100, 'x'));
  const auto cached = [&](const std::string& key) {
    const nlohmann::json usage = Json(Complete(key, body))["usage"];
    return usage["prompt_tokens_details"]["cached_tokens"].get<int>();
  };
  EXPECT_EQ(cached("acme-key"), 0);
  EXPECT_EQ(cached("acme-key"), 96);
  EXPECT_EQ(cached("blue-key"), 0);
}

TEST_F(GatewayAuthTest, LimitsOfTenantsSayWhenToComeBack) {
  StartWith({{"acme", {"acme-key"}, R"("tokens_per_second": 0.001, "burst_tokens": 9)"}});
  EXPECT_EQ(Complete("acme-key", kShort).status, 200);
  const HttpResponse refused = Complete("acme-key", kShort);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(Json(refused)["error"]["type"], "rate_limit_exceeded");
  const int seconds = std::stoi(refused.headers.at("retry-after"));
  EXPECT_GT(seconds, 900);
  EXPECT_LE(seconds, 1000);  // one token of debt
  EXPECT_THAT(refused.body, Not(HasSubstr("acme-key")));
}

TEST_F(GatewayAuthTest, EveryPromptOfABatchCounts) {
  StartWith({{"acme", {"acme-key"}, R"("max_open_requests": 2)"}});
  EXPECT_EQ(Complete("acme-key", R"({"prompt": ["a", "b", "c"], "max_tokens": 2})").status, 429);
  EXPECT_EQ(Complete("acme-key", R"({"prompt": ["a", "b"], "max_tokens": 2})").status, 200);
  EXPECT_EQ(Complete("acme-key", R"({"prompt": ["a", "b"], "max_tokens": 2})").status, 200);
  ExpectEverythingBack();
}

}  // namespace
}  // namespace lockstep::testing
