#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "common/instant.h"
#include "common/runtime/clock.h"
#include "tests/router/http/http_fixture.h"
#include "tests/router/serving/test_tenants.h"

// GET /status.json, over a socket, with a whole router and worker behind it.
namespace lockstep::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class StatusJsonTest : public HttpServingTest {
 protected:
  json Status(const std::string& key = "") {
    HttpClient client(port());
    const std::string authorization = key.empty() ? "" : "Authorization: Bearer " + key + "\r\n";
    client.Send("GET /status.json HTTP/1.1\r\nHost: localhost\r\n" + authorization + "\r\n");
    const HttpResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.headers.at("content-type"), "application/json");
    return Json(response);
  }
  // A sample is taken every second; asks until one says what is expected.
  json StatusOnce(const std::function<bool(const json&)>& holds, const std::string& key = "") {
    json status;
    for (const Instant start = MonotonicNow(); MonotonicNow() - start < absl::Seconds(30);) {
      status = Status(key);
      if (holds(status)) return status;
    }
    ADD_FAILURE() << status;
    return status;
  }

  const TempFolder folder_;
};

TEST_F(StatusJsonTest, ShowsReplicasSamplesAndRequestsButNoText) {
  StartAll();
  ASSERT_EQ(Post("/v1/completions", R"({"prompt": "secret", "max_tokens": 5})").status, 200);
  const json status = StatusOnce([](const json& seen) {
    return !seen["requests"].empty() && !seen["replicas"].empty() &&
           seen["replicas"][0]["state"] == "ready";
  });
  EXPECT_EQ(status["scope"], "fleet");
  EXPECT_EQ(status["model"], "bytes");
  ASSERT_EQ(status["replicas"].size(), 1u);
  EXPECT_EQ(status["num_replicas"], 1);
  EXPECT_GT(status["replicas"][0]["kv_blocks"]["free"], 0);
  const json& samples = status["samples"];
  EXPECT_EQ(samples["interval_ms"], 1000);
  for (const char* series : {"running", "waiting", "prefill_tokens", "decode_tokens", "kv_used",
                             "kv_cached", "kv_total"}) {
    EXPECT_EQ(samples[series].size(), samples["running"].size()) << series;
  }
  ASSERT_EQ(status["requests"].size(), 1u);
  const json& request = status["requests"][0];
  EXPECT_EQ(request["state"], "done");
  EXPECT_EQ(request["prompt_tokens"], 7);
  EXPECT_EQ(request["output_tokens"], 5);
  EXPECT_GE(request["age_ms"], request["first_token_ms"]);
  EXPECT_THAT(status.dump(), Not(HasSubstr("secret")));
}

TEST_F(StatusJsonTest, CountsTheTokensOfSteps) {
  StartAll();
  ASSERT_EQ(Post("/v1/completions", R"({"prompt": "abcdef", "max_tokens": 5})").status, 200);
  const auto sum = [](const json& values) {
    int64_t total = 0;
    for (const json& value : values) total += value.get<int64_t>();
    return total;
  };
  const json status =
      StatusOnce([&](const json& seen) { return sum(seen["samples"]["prefill_tokens"]) > 0; });
  EXPECT_EQ(sum(status["samples"]["prefill_tokens"]), 7);
  EXPECT_GE(sum(status["samples"]["decode_tokens"]), 4);
}

TEST_F(StatusJsonTest, ATenantSeesItsOwnRequestsAndNothingOfTheFleet) {
  router_config_.tenants_path = WriteTenants(
      folder_, {{.name = "acme", .keys = {"acme-key"}}, {.name = "other", .keys = {"other-key"}}});
  StartAll();
  EXPECT_EQ(Get("/status.json").status, 401);
  HttpClient client(port());
  const std::string body = R"({"prompt": "abc", "max_tokens": 2})";
  client.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer acme-key\r\n"
      "Content-Type: application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  ASSERT_EQ(client.ReadResponse().status, 200);
  const json own =
      StatusOnce([](const json& seen) { return !seen["requests"].empty(); }, "acme-key");
  EXPECT_EQ(own["scope"], "tenant");
  EXPECT_FALSE(own.contains("replicas"));
  EXPECT_FALSE(own.contains("samples"));
  EXPECT_TRUE(Status("other-key")["requests"].empty());
}

TEST_F(StatusJsonTest, IsTheSameUntilTheNextSample) {
  StartAll();
  StatusOnce([](const json& seen) { return !seen["samples"]["running"].empty(); });
  // Of three answers in a row two belong to one sample, or a sample takes no time.
  const std::string first = Get("/status.json").body;
  const std::string second = Get("/status.json").body;
  const std::string third = Get("/status.json").body;
  EXPECT_TRUE(first == second || second == third);
}

}  // namespace
}  // namespace lockstep::testing
