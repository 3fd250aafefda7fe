#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <cstring>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/router/http/http_fixture.h"
#include "tests/router/serving/test_tenants.h"

// API keys and the limits of tenants, over HTTP.
namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
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
    client.Send(fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}{}Content-Length: {}\r\n\r\n{}",
                            method, path,
                            authorization.empty() ? "" : "Authorization: " + authorization + "\r\n",
                            "Content-Type: application/json\r\n", body.size(), body));
    return client.ReadResponse();
  }
  HttpResponse Complete(const std::string& key, const std::string& body) {
    return Ask("POST", "/v1/completions", "Bearer " + key, body);
  }
  // A request up to its body; `fields` are further lines of its header.
  static std::string Header(const std::string& method, const std::string& path,
                            const std::string& key, const std::string& fields) {
    return fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}{}\r\n", method, path,
                       key.empty() ? "" : "Authorization: Bearer " + key + "\r\n", fields);
  }
  static std::string Length(size_t num_bytes) {
    return fmt::format("Content-Length: {}\r\n", num_bytes);
  }
  // The series of requests' counters that are not zero, as they are exported.
  std::vector<std::string> Counted() {
    std::istringstream text(prometheus::TextSerializer().Serialize(registry_.Collect()));
    std::vector<std::string> counted;
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with("lockstep_router_http_requests_total{") && !line.ends_with(" 0")) {
        counted.push_back(line);
      }
    }
    return counted;
  }

  const TempFolder folder_;
};

constexpr char kFourTokens[] = R"({"prompt": "Hello", "max_tokens": 4, "ignore_eos": true})";
constexpr size_t kLargeBodyBytes = size_t{1} << 20;
constexpr char kChunked[] = "Transfer-Encoding: chunked\r\n";
constexpr char kExpect[] = "Expect: 100-continue\r\n";

// As large as may be, for the little that it says.
std::string LargeBody() {
  std::string body = kFourTokens;
  body.resize(kLargeBodyBytes, ' ');
  return body;
}

TEST_F(GatewayAuthTest, StrangersLearnNothingButHealth) {
  StartWith({{"acme", {"acme-key"}}});
  for (const std::string authorization : {"", "Bearer wrong-key", "Basic acme-key", "acme-key",
                                          "Bearer acme-key\r\nAuthorization: Bearer acme-key"}) {
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
  EXPECT_EQ(router_->engine().admission().counts().open_requests, 0u);
}

TEST_F(GatewayAuthTest, ItsKeyOpensThePaths) {
  StartWith({{"acme", {"acme-key"}}});
  const HttpResponse response = Complete("acme-key", kFourTokens);
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(Text(response), Continuation(6, 4));
  EXPECT_EQ(Ask("POST", "/tokenize", "bearer acme-key", R"({"prompt": "a"})").status, 200);
  EXPECT_EQ(Ask("GET", "/v1/models", "Bearer acme-key").status, 200);
  EXPECT_EQ(Ask("GET", "/no/such/path", "Bearer acme-key").status, 404);
}

// None of the body is sent here before the answer is there.
TEST_F(GatewayAuthTest, AStrangerIsRefusedBeforeItsBodyIsRead) {
  StartWith({{"acme", {"acme-key"}}});
  for (const std::string key : {"", "wrong-key"}) {
    const HttpResponse usual = Ask("GET", "/version", key.empty() ? "" : "Bearer " + key);
    ASSERT_EQ(usual.status, 401);
    for (const std::string path : {"/v1/completions", "/v1/chat/completions", "/tokenize",
                                   "/detokenize", "/v1/models", "/metrics", "/no/such/path"}) {
      for (const std::string& framing : {Length(kLargeBodyBytes), std::string(kChunked)}) {
        for (const std::string expect : {"", kExpect}) {
          SCOPED_TRACE(path + " " + key + " " + framing + expect);
          HttpClient client(port());
          client.Send(Header("POST", path, key, framing + expect));
          const HttpResponse refused = client.ReadResponse();
          EXPECT_EQ(refused.status, 401);
          EXPECT_EQ(refused.body, usual.body);
          EXPECT_EQ(refused.headers.at("www-authenticate"), "Bearer");
          EXPECT_EQ(refused.headers.at("connection"), "close");
          EXPECT_TRUE(client.WaitUntilClosed());
        }
      }
    }
  }
}

TEST_F(GatewayAuthTest, ARefusalBeforeTheBodyIsCountedByItsRoute) {
  StartWith({{"acme", {"acme-key"}}});
  HttpClient client(port());
  client.Send(Header("POST", "/tokenize", "", Length(kLargeBodyBytes)));
  EXPECT_EQ(client.ReadResponse().status, 401);
  EXPECT_TRUE(client.WaitUntilClosed());
  EXPECT_THAT(Counted(), ElementsAre(AllOf(HasSubstr(R"(code="401")"),
                                           HasSubstr(R"(route="/tokenize")"), EndsWith(" 1"))));
}

TEST_F(GatewayAuthTest, AStrangerThatSendsItsBodyAllTheSameReadsWhyItIsRefused) {
  StartWith({{"acme", {"acme-key"}}});
  for (const std::string key : {"", "wrong-key"}) {
    HttpClient client(port());
    client.Send(Header("POST", "/v1/completions", key, Length(kLargeBodyBytes)) + LargeBody());
    const HttpResponse refused = client.ReadResponse();
    EXPECT_EQ(refused.status, 401);
    EXPECT_EQ(Json(refused)["error"]["code"], "invalid_api_key");
    EXPECT_TRUE(client.WaitUntilClosed());
  }
}

TEST_F(GatewayAuthTest, WithItsKeyATenantIsToldToSendItsBody) {
  StartWith({{"acme", {"acme-key"}}});
  HttpClient client(port());
  const std::string large = LargeBody();
  client.Send(Header("POST", "/v1/completions", "acme-key", Length(large.size()) + kExpect));
  EXPECT_EQ(client.ReadHead().status, 100);
  client.Send(large);
  EXPECT_EQ(Text(client.ReadResponse()), Continuation(6, 4));
  client.Send(Header("POST", "/v1/completions", "acme-key", std::string(kChunked) + kExpect));
  EXPECT_EQ(client.ReadHead().status, 100);
  client.Send(fmt::format("{:x}\r\n{}\r\n0\r\n\r\n", large.size(), large));
  EXPECT_EQ(Text(client.ReadResponse()), Continuation(6, 4));
  client.Send(Header("POST", "/v1/completions", "acme-key", Length(large.size())) + large);
  EXPECT_EQ(Text(client.ReadResponse()), Continuation(6, 4));
  ExpectEverythingBack();
}

TEST_F(GatewayAuthTest, EveryRequestOfAConnectionShowsItsKey) {
  StartWith({{"acme", {"acme-key"}}});
  const std::string good =
      Header("POST", "/v1/completions", "acme-key", Length(strlen(kFourTokens))) + kFourTokens;
  HttpClient client(port());
  client.Send(good);
  EXPECT_EQ(client.ReadResponse().headers.at("connection"), "keep-alive");
  // Without a body there is nothing to be spared from.
  client.Send(Header("GET", "/v1/models", "", "") + Header("POST", "/tokenize", "", Length(0)));
  for (int i = 0; i < 2; ++i) {
    const HttpResponse refused = client.ReadResponse();
    EXPECT_EQ(refused.status, 401);
    EXPECT_EQ(refused.headers.at("connection"), "keep-alive");
  }
  // Pipelined: what follows a body that is not read is never looked at.
  client.Send(good + Header("POST", "/v1/completions", "", Length(strlen(kFourTokens))) +
              kFourTokens + good);
  EXPECT_EQ(Text(client.ReadResponse()), Continuation(6, 4));
  const HttpResponse refused = client.ReadResponse();
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.headers.at("connection"), "close");
  EXPECT_EQ(client.ReadAtMost(1), "");
  ExpectEverythingBack();
}

// Health is for everybody, but what strangers send along with the question is not wanted.
TEST_F(GatewayAuthTest, HealthNeedsNoBodiesOfStrangers) {
  StartWith({{"acme", {"acme-key"}}});
  for (const auto& [method, status] : {std::pair("GET", 200), std::pair("POST", 405)}) {
    for (const std::string path : {"/health", "/ready"}) {
      SCOPED_TRACE(method + path);
      HttpClient stranger(port());
      stranger.Send(Header(method, path, "", Length(kLargeBodyBytes)));
      EXPECT_EQ(stranger.ReadResponse().status, status);
      EXPECT_TRUE(stranger.WaitUntilClosed());
      HttpClient tenant(port());
      for (int i = 0; i < 2; ++i) {
        tenant.Send(Header(method, path, "acme-key", Length(kLargeBodyBytes)) + LargeBody());
        EXPECT_EQ(tenant.ReadResponse().status, status);
      }
    }
  }
}

TEST_F(GatewayAuthTest, AKeyThatIsRemovedWhileTheBodyComesOpensNothing) {
  router_config_.tenants_reload_interval = absl::Milliseconds(5);
  StartWith({{"acme", {"acme-key"}}});
  HttpClient client(port());
  client.Send(Header("POST", "/v1/completions", "acme-key", Length(strlen(kFourTokens)) + kExpect));
  EXPECT_EQ(client.ReadHead().status, 100);
  WriteTenants(folder_, {{"blue", {"blue-key"}}});
  Eventually("the key is nobody's",
             [this] { return Ask("GET", "/version", "Bearer acme-key").status == 401; });
  client.Send(kFourTokens);
  EXPECT_EQ(client.ReadResponse().status, 401);
  EXPECT_EQ(router_->engine().admission().counts().open_requests, 0u);
}

TEST_F(GatewayAuthTest, MetricsTellOfAllTenantsAndAreForNone) {
  StartWith({{"acme", {"acme-key"}}, {"blue", {"blue-key"}}});
  Complete("blue-key", kFourTokens);
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
  EXPECT_EQ(Complete("acme-key", kFourTokens).status, 200);
  const HttpResponse refused = Complete("acme-key", kFourTokens);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(Json(refused)["error"]["type"], "rate_limit_exceeded");
  const int seconds = std::stoi(refused.headers.at("retry-after"));
  EXPECT_GT(seconds, 900);
  EXPECT_LE(seconds, 1000);  // one token of debt
  EXPECT_THAT(refused.body, Not(HasSubstr("acme-key")));
}

// What it sends is no JSON: whoever reads it would say 400.
TEST_F(GatewayAuthTest, ATenantAtItsLimitIsRefusedBeforeItsBodyIsLookedAt) {
  StartWith({{"acme", {"acme-key"}, R"("tokens_per_second": 0.001, "burst_tokens": 9)"}});
  EXPECT_EQ(Complete("acme-key", kFourTokens).status, 200);
  for (const size_t num_bytes : {size_t{10}, size_t{30'000}, size_t{40'000}, kLargeBodyBytes}) {
    for (const std::string path : {"/v1/completions", "/v1/chat/completions", "/tokenize"}) {
      const HttpResponse refused =
          Ask("POST", path, "Bearer acme-key", std::string(num_bytes, '{'));
      EXPECT_EQ(refused.status, 429) << num_bytes << path << refused.body;
      EXPECT_GT(std::stoi(refused.headers.at("retry-after")), 900);
      EXPECT_EQ(refused.headers.at("connection"), num_bytes > 32 << 10 ? "close" : "keep-alive");
    }
  }
  EXPECT_EQ(Ask("POST", "/v1/completions", "Bearer wrong-key", std::string(10, '{')).status, 401);
}

TEST_F(GatewayAuthTest, ATenantAtItsLimitIsRefusedBeforeALargeBodyIsSent) {
  StartWith({{"acme", {"acme-key"}, R"("max_open_requests": 1)"}, {"blue", {"blue-key"}}});
  HoldForwards();
  HttpClient running(port());
  running.Send(Header("POST", "/v1/completions", "acme-key", Length(strlen(kFourTokens))) +
               kFourTokens);
  Eventually("it runs", [this] { return router_->engine().replica_status().live_requests == 1; });
  for (const std::string& framing : {Length(kLargeBodyBytes), std::string(kChunked)}) {
    HttpClient client(port());
    client.Send(Header("POST", "/v1/completions", "acme-key", framing + kExpect));
    const HttpResponse refused = client.ReadResponse();
    EXPECT_EQ(refused.status, 429);
    EXPECT_THAT(refused.body, HasSubstr("1 requests open, its limit"));
    EXPECT_TRUE(client.WaitUntilClosed());
    HttpClient other(port());
    other.Send(Header("POST", "/v1/completions", "blue-key", framing + kExpect));
    EXPECT_EQ(other.ReadHead().status, 100) << "others are asked for theirs";
  }
  ReleaseForwards();
  EXPECT_EQ(Text(running.ReadResponse()), Continuation(6, 4));
  ExpectEverythingBack();
}

TEST_F(GatewayAuthTest, ABodyThatCannotBeReadKeepsNoPlaceOfItsTenant) {
  StartWith({{"acme", {"acme-key"}, R"("max_open_requests": 1)"}});
  HttpClient client(port());
  for (int i = 0; i < 5; ++i) {
    client.Send(Header("POST", "/v1/completions", "acme-key", Length(1)) + "{");
    EXPECT_EQ(client.ReadResponse().status, 400);
  }
  EXPECT_EQ(Complete("acme-key", kFourTokens).status, 200);
}

TEST_F(GatewayAuthTest, ABatchLargerThanTheShareOfItsTenantIsRefusedForGood) {
  router_config_.engine.admission.max_waiting_requests = 4;
  StartWith({{"acme", {"acme-key"}}});
  const HttpResponse refused =
      Complete("acme-key", R"({"prompt": ["a", "b", "c"], "max_tokens": 2})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_FALSE(refused.headers.contains("retry-after"));
  EXPECT_THAT(refused.body, HasSubstr("prompt: 3 prompts, at most 2 may wait"));
  EXPECT_EQ(Complete("acme-key", R"({"prompt": ["a", "b"], "max_tokens": 2})").status, 200);
  ExpectEverythingBack();
}

TEST_F(GatewayAuthTest, EveryPromptOfABatchCounts) {
  StartWith({{"acme", {"acme-key"}, R"("max_open_requests": 2)"}});
  // More than may ever be open: no reason to try again.
  const HttpResponse refused =
      Complete("acme-key", R"({"prompt": ["a", "b", "c"], "max_tokens": 2})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_FALSE(refused.headers.contains("retry-after"));
  EXPECT_THAT(refused.body, HasSubstr("may have 2 requests open"));
  HoldForwards();
  HttpClient running(port());
  running.Send(Header("POST", "/v1/completions", "acme-key", Length(strlen(kFourTokens))) +
               kFourTokens);
  Eventually("it runs", [this] { return router_->engine().replica_status().live_requests == 1; });
  EXPECT_EQ(Complete("acme-key", R"({"prompt": ["a", "b"], "max_tokens": 2})").status, 429);
  ReleaseForwards();
  EXPECT_EQ(running.ReadResponse().status, 200);
  EXPECT_EQ(Complete("acme-key", R"({"prompt": ["a", "b"], "max_tokens": 2})").status, 200);
  EXPECT_EQ(Complete("acme-key", R"({"prompt": ["a", "b"], "max_tokens": 2})").status, 200);
  ExpectEverythingBack();
}

}  // namespace
}  // namespace lockstep::testing
