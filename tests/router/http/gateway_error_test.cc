#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/router/http/gateway_fixture.h"
#include "tests/router/http/http_fixture.h"

// What the gateway refuses and how it says so, over a socket, with a whole router and worker behind
// it.
namespace lockstep::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(GatewayTest, WithoutAWorkerItIsAliveButNotReady) {
  router_config_.engine.replica.no_worker_grace = absl::ZeroDuration();
  StartRouter();
  StartHttp();
  EXPECT_EQ(Get("/health").status, 200);
  EXPECT_EQ(Get("/ready").status, 503);
  const HttpResponse refused = Post("/v1/completions", R"({"prompt": "x", "stream": true})");
  ExpectError(refused, 503, nullptr, "worker");
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
}

TEST_F(GatewayTest, BadInputIsNamed) {
  StartAll();
  const std::string path = "/v1/completions";
  ExpectError(Post(path, "not json"), 400, "body", "byte 2");
  ExpectError(Post(path, R"({"prompt": "x", "top_p": 1.5})"), 400, "top_p", "got 1.5");
  ExpectError(Post(path, R"({"prompt": "x", "n": 0})"), 400, "n", "from 1 to 16, got 0");
  ExpectError(Post(path, R"({"prompt": "x", "n": 4294967295, "stream": true})"), 400, "n", "got 4");
  ExpectError(Post(path, R"({"prompt": "x", "model": "y"})"), 404, "model", "got \"y\"");
  ExpectError(Post(path, R"({"prompt": "x", "response_format": {"type": "json_object"}})"), 400,
              "response_format", "this router has no constraint engine");
  const HttpResponse too_long =
      Post(path, R"({"prompt": ")" + std::string(kContextTokens, 'x') + R"("})");
  ExpectError(too_long, 400, "prompt", "maximum context length is 4096 tokens. However, you");
  EXPECT_EQ(Json(too_long)["error"]["code"], "context_length_exceeded");
  ExpectError(Post("/v1/chat/completions", R"({"messages": []})"), 400, "messages", "at least 1");
  ExpectError(Get(path), 405, nullptr, "POST, OPTIONS only");
  ExpectError(Post("/v1/models", ""), 405, nullptr, "GET, HEAD, OPTIONS only");
  ExpectEverythingBack();
}

TEST_F(GatewayTest, ErrorsOfAListNameThePrompt) {
  StartAll();
  const std::string path = "/v1/completions";
  const std::string long_text(kContextTokens, 'x');
  ExpectError(Post(path, R"({"prompt": [[1], [2, 300]]})"), 400, "prompt[1][1]",
              "prompt[1][1]: expected a token id below 259, got 300");
  ExpectError(Post(path, R"({"prompt": [[300]]})"), 400, "prompt[0][0]", "got 300");
  ExpectError(Post(path, R"({"prompt": [[1], []]})"), 400, "prompt[1]", "prompt[1]: expected 1 to");
  const HttpResponse too_long = Post(path, R"({"prompt": ["a", ")" + long_text + R"("]})");
  ExpectError(too_long, 400, "prompt[1]",
              "prompt[1]: This model's maximum context length is 4096 tokens. However, you");
  EXPECT_EQ(Json(too_long)["error"]["code"], "context_length_exceeded");
  EXPECT_THAT(too_long.body, AllOf(HasSubstr("in the prompt"), Not(HasSubstr("messages"))));
  ExpectError(Post(path, R"({"prompt": ["a", "b"], "n": 0})"), 400, "n", "n: expected");
  // One prompt keeps its name.
  ExpectError(Post(path, R"({"prompt": [1, 300]})"), 400, "prompt[1]", "prompt[1]: expected a");
  ExpectError(Post(path, R"({"prompt": ")" + long_text + R"("})"), 400, "prompt",
              "(4097 in the prompt, 16 in the completion)");
  ExpectEverythingBack();
}

TEST_F(GatewayTest, PathsThatAreNotThereAreQuoted) {
  StartAll();
  const struct {
    std::string path;
    std::string words;
  } cases[] = {
      {"/v1/embeddings",
       "there is nothing at \"/v1/embeddings\"; there are /v1/chat/completions, "
       "/v1/completions, /v1/messages, /v1/messages/count_tokens, /v1/models and /v1/responses"},
      {"/v1/responses/resp_1", "there are /v1/chat/completions,"},
      {"/v1", "the APIs are under /v1"},
      {"/v1/", "there are /v1/chat/completions,"},
      {"/chat/completions?a=b", "at \"/chat/completions\"; it is at \"/v1/chat/completions\""},
      {"/models", "it is at \"/v1/models\""},
      {"/v1/v1/chat/completions", "it is at \"/v1/chat/completions\""},
      {"/v1/tokenize", "it is at \"/tokenize\""},
      {"/v1/completions/", "it is at \"/v1/completions\""},
      {"/health/", "it is at \"/health\""},
      {"/embeddings", "the APIs are under /v1"},
      {"/" + std::string(5000, 'x'), "xxx\"... (5001 bytes);"},
  };
  for (const auto& [path, words] : cases) ExpectError(Get(path), 404, nullptr, words);
  ExpectError(Post("/v1/embeddings", "{}"), 404, nullptr, "there are /v1/chat/completions,");
}

TEST_F(GatewayTest, AnswersListTheFieldsThatWereIgnored) {
  StartAll();
  const std::string header = "x-lockstep-ignored-fields";
  const HttpResponse whole =
      Post("/v1/completions", R"({"prompt": "x", "max_tokens": 1, "foo": 1, "a\r\nb": 2})");
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.headers.at(header), "a%0D%0Ab, foo");
  const HttpResponse streamed =
      Post("/v1/completions", R"({"prompt": "x", "max_tokens": 1, "stream": true, "foo": 1})");
  EXPECT_EQ(streamed.status, 200);
  EXPECT_EQ(streamed.headers.at(header), "foo");
  EXPECT_EQ(Post("/tokenize", R"({"prompt": "x", "foo": 1})").headers.at(header), "foo");
  EXPECT_EQ(Post("/detokenize", R"({"tokens": [72], "foo": 1})").headers.at(header), "foo");
  EXPECT_EQ(Post("/v1/completions", R"({"prompt": "x", "max_tokens": 1})").headers.count(header),
            0u);
}

TEST_F(GatewayTest, StrictFieldsRefusesUnknownOnes) {
  router_config_.api.strict_fields = true;
  StartAll();
  ExpectError(Post("/v1/completions", R"({"prompt": "x", "foo": 1})"), 400, "foo", "not know");
  ExpectError(Post("/tokenize", R"({"prompt": "x", "foo": 1})"), 400, "foo", "not know");
}

TEST_F(GatewayTest, AFullQueueRefusesBeforeAnyHeaderWithAHint) {
  router_config_.engine.admission.max_waiting_requests = 2;
  router_config_.engine.replica.scheduler.max_running_sequences = 1;
  StartAll();
  HoldForwards();
  std::vector<std::thread> clients;
  std::vector<HttpResponse> responses(3);
  const std::string body = R"({"prompt": "Hello", "max_tokens": 5, "stream": true})";
  for (HttpResponse& response : responses) {
    clients.emplace_back([&] { response = Post("/v1/completions", body); });
    const size_t number = clients.size();
    Eventually("one runs and the others wait", [&] {
      const auto counts = router_->engine().admission().counts();
      return counts.open_requests == number && counts.waiting_requests == number - 1;
    });
  }
  const HttpResponse refused = Post("/v1/completions", body);
  ExpectError(refused, 429, nullptr, "the queue is full: 2 requests wait");
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  EXPECT_EQ(refused.headers.at("retry-after-ms"), "1000");
  // To stay in a balancer's list, so that clients learn when to come back.
  EXPECT_EQ(Json(Get("/ready"))["status"], "ready");
  // A batch is taken as a whole or not at all.
  ExpectError(Post("/v1/completions", R"({"prompt": ["a", "b"]})"), 429, nullptr, "queue");
  EXPECT_EQ(router_->engine().admission().counts().open_requests, 3u);
  ReleaseForwards();
  for (std::thread& client : clients) client.join();
  for (const HttpResponse& response : responses) EXPECT_EQ(Text(response), After("Hello", 5));
  ExpectEverythingBack();
}

TEST_F(GatewayTest, WhatFailsMidStreamIsAnErrorInTheStreamAndThenDone) {
  router_config_.api.default_timeout = absl::Milliseconds(300);
  StartAll();
  HoldForwards();
  AllowForwards(3);
  const HttpResponse response =
      Post("/v1/completions", R"({"prompt": "Hello", "max_tokens": 1000, "stream": true})");
  ReleaseForwards();
  EXPECT_EQ(response.status, 200);
  ASSERT_TRUE(response.complete);
  const std::vector<std::string> events = response.Events();
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(json::parse(events[events.size() - 2])["error"]["code"], "deadline_exceeded");
  ExpectEverythingBack();
}

TEST_F(GatewayTest, ADeadlineBeforeTheFirstTokenHasAStatus) {
  router_config_.api.default_timeout = absl::Milliseconds(200);
  router_config_.engine.replica.scheduler.max_running_sequences = 1;
  StartAll();
  HoldForwards();
  std::thread running([this] { Post("/v1/completions", R"({"prompt": "x"})"); });
  Eventually("it runs", [this] { return router_->engine().replica_status().live_requests == 1; });
  const HttpResponse queued = Post("/v1/completions", R"({"prompt": "x", "stream": true})");
  ReleaseForwards();
  running.join();
  EXPECT_EQ(queued.status, 504) << queued.body;
}

TEST_F(GatewayTest, DrainLetsRequestsFinishAndRefusesNewOnes) {
  StartAll();
  HoldForwards();
  AllowForwards(2);
  HttpResponse response;
  std::thread client([&] {
    response = Post("/v1/completions", R"({"prompt": "Hello", "max_tokens": 50, "stream": true})");
  });
  Eventually("it runs", [this] { return router_->engine().replica_status().live_requests == 1; });
  std::thread drain([this] { EXPECT_TRUE(router_->Drain(absl::Seconds(60))); });
  Eventually("it drains", [this] { return router_->engine().draining(); });
  EXPECT_EQ(Get("/health").status, 200);
  EXPECT_EQ(Json(Get("/ready"))["status"], "draining");
  const HttpResponse refused = Post("/v1/completions", R"({"prompt": "x"})");
  ExpectError(refused, 503, nullptr, "");
  EXPECT_EQ(refused.headers.at("connection"), "close");
  ReleaseForwards();
  client.join();
  drain.join();
  EXPECT_EQ(Text(response), After("Hello", 50));
}

}  // namespace
}  // namespace lockstep::testing
