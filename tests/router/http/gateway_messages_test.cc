#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/router/http/http_fixture.h"
#include "tests/router/serving/test_tenants.h"

// Anthropic's /v1/messages and /v1/messages/count_tokens, over a socket, with a whole router and
// worker behind them.
namespace lockstep::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kMessages[] = "/v1/messages";
constexpr char kCount[] = "/v1/messages/count_tokens";

class GatewayMessagesTest : public HttpServingTest {
 protected:
  static std::string Body(const std::string& fields) {
    return R"({"messages": [{"role": "user", "content": "Hi"}], )" + fields + "}";
  }
  HttpResponse Ask(const std::string& method, const std::string& path, const std::string& headers,
                   const std::string& body = "") {
    HttpClient client(port());
    client.Send(fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: {}\r\n\r\n{}",
                            method, path, headers, body.size(), body));
    return client.ReadResponse();
  }
  // The payloads of a stream whose events have names.
  static std::vector<json> EventsOf(const HttpResponse& response) {
    std::vector<json> events;
    for (size_t at = 0; at < response.body.size();) {
      const size_t end = response.body.find("\n\n", at);
      const std::string event = response.body.substr(at, end - at);
      const size_t data = event.find("\ndata: ");
      if (end == std::string::npos || data == std::string::npos) {
        ADD_FAILURE() << response.body.substr(at);
        break;
      }
      events.push_back(json::parse(event.substr(data + 7)));
      EXPECT_EQ(event.substr(0, data), "event: " + events.back()["type"].get<std::string>());
      at = end + 2;
    }
    return events;
  }
  void ExpectError(const HttpResponse& response, int status, const std::string& type,
                   const std::string& words) {
    EXPECT_EQ(response.status, status) << response.body;
    const json body = Json(response);
    EXPECT_EQ(body["type"], "error");
    EXPECT_EQ(body["error"]["type"], type) << response.body;
    EXPECT_THAT(body["error"]["message"].get<std::string>(), HasSubstr(words));
    EXPECT_FALSE(body["request_id"].get<std::string>().empty());
    EXPECT_EQ(body["request_id"], response.headers.at("request-id"));
  }

  const TempFolder folder_;
};

constexpr char kJson[] = "Content-Type: application/json\r\n";

TEST_F(GatewayMessagesTest, AnswersWholeAndStreamedAndCounts) {
  StartAll();
  const HttpResponse response = Post(kMessages, Body(R"("max_tokens": 4)"));
  ASSERT_EQ(response.status, 200) << response.body;
  const json whole = Json(response);
  EXPECT_EQ(whole["type"], "message");
  EXPECT_THAT(whole["id"].get<std::string>(), StartsWith("msg_request-"));
  EXPECT_EQ("msg_" + response.headers.at("request-id"), whole["id"]);
  EXPECT_EQ(response.headers.at("request-id"), response.headers.at("x-request-id"));
  EXPECT_EQ(whole["stop_reason"], "max_tokens");
  ASSERT_EQ(whole["content"].size(), 1u);
  const std::string said = whole["content"][0]["text"];
  EXPECT_EQ(said.size(), 4u);
  EXPECT_EQ(whole["usage"]["output_tokens"], 4);

  const HttpResponse count = Post(kCount, Body(R"("model": "bytes")"));
  ASSERT_EQ(count.status, 200) << count.body;
  EXPECT_EQ(Json(count)["input_tokens"], whole["usage"]["input_tokens"].get<int>() +
                                             whole["usage"]["cache_read_input_tokens"].get<int>());
  EXPECT_EQ(Json(count).size(), 1u);
  EXPECT_EQ(count.headers.count("request-id"), 1u);

  const HttpResponse streamed =
      Post(std::string(kMessages) + "?beta=true", Body(R"("max_tokens": 4, "stream": true)"));
  ASSERT_EQ(streamed.status, 200) << streamed.body;
  EXPECT_THAT(streamed.headers.at("content-type"), StartsWith("text/event-stream"));
  EXPECT_EQ(streamed.headers.count("request-id"), 1u);
  ASSERT_TRUE(streamed.complete);
  const std::vector<json> events = EventsOf(streamed);
  ASSERT_GE(events.size(), 7u);
  EXPECT_EQ(events[0]["type"], "message_start");
  EXPECT_EQ(events[1]["type"], "ping");
  EXPECT_EQ(events[2]["content_block"]["type"], "text");
  EXPECT_EQ(events.back()["type"], "message_stop");
  std::string text;
  for (const json& event : events) {
    if (event["type"] == "content_block_delta") text += event["delta"]["text"].get<std::string>();
  }
  EXPECT_EQ(text, said);
  EXPECT_EQ(events[events.size() - 2]["delta"]["stop_reason"], "max_tokens");
  EXPECT_EQ(events[events.size() - 2]["usage"]["output_tokens"], 4);
  ExpectEverythingBack();
}

TEST_F(GatewayMessagesTest, StopSequencesAndPrefills) {
  StartAll();
  const json whole = Json(Post(kMessages, Body(R"("max_tokens": 20)")));
  const std::string said = whole["content"][0]["text"];
  const json stopped = Json(Post(
      kMessages, Body(R"("max_tokens": 20, "stop_sequences": [")" + said.substr(3, 2) + R"("])")));
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], said.substr(3, 2));
  EXPECT_EQ(stopped["content"][0]["text"], said.substr(0, 3));
  // The output continues the assistant's text. The fake model says what its position decides.
  const HttpResponse prefilled =
      Post(kMessages, R"({"max_tokens": 3, "messages": [{"role": "user", "content": "Hi"},
                          {"role": "assistant", "content": ")" +
                          said.substr(0, 4) + R"("}]})");
  EXPECT_EQ(Json(prefilled)["content"][0]["text"], said.substr(4, 3)) << prefilled.body;
}

// Agents ask for more tokens than small contexts have.
TEST_F(GatewayMessagesTest, MoreTokensThanThereIsRoomForAreFewerTokens) {
  StartAll();
  const json count = Json(Post(kCount, Body(R"("max_tokens": 1)")));
  const json whole = Json(Post(kMessages, Body(R"("max_tokens": 32000)")));
  EXPECT_EQ(whole["stop_reason"], "model_context_window_exceeded") << whole;
  EXPECT_EQ(whole["usage"]["output_tokens"],
            kContextTokens - count["input_tokens"].get<uint32_t>());
  const std::string long_text(kContextTokens, 'x');
  ExpectError(Post(kMessages, R"({"max_tokens": 5, "messages": [{"role": "user", "content": ")" +
                                  long_text + R"("}]})"),
              400, "invalid_request_error", "prompt is too long: ");
  ExpectEverythingBack();
}

TEST_F(GatewayMessagesTest, ErrorsHaveAnthropicsForm) {
  StartAll();
  const std::string good = Body(R"("max_tokens": 4)");
  for (const std::string path : {kMessages, kCount}) {
    ExpectError(Post(path, "not json"), 400, "invalid_request_error", "body: byte 2");
    ExpectError(Post(path, R"({"max_tokens": 4, "messages": [{"role": "user", "content": [
                               {"type": "text", "text": "a"}, {"type": "image"}]}]})"),
                400, "invalid_request_error", "messages[0].content[1].type: blocks of type");
    ExpectError(Post(path, R"({"max_tokens": 4, "messages": []})"), 400, "invalid_request_error",
                "messages: expected at least 1 message");
    ExpectError(Post(path, Body(R"("max_tokens": 4, "model": "other")")), 404, "not_found_error",
                "model: expected");
    ExpectError(Get(path), 405, "invalid_request_error", "POST, OPTIONS only");
    ExpectError(Ask("POST", path, "Content-Type: text/plain\r\n", good), 415,
                "invalid_request_error", "Content-Type: application/json");
    ExpectError(Ask("POST", path, std::string(kJson) + "Content-Encoding: br\r\n", good), 415,
                "invalid_request_error", "Content-Encoding: expected");
  }
  ExpectError(Post(kMessages, Body(R"("max_tokens": 4, "top_p": 1.5)")), 400,
              "invalid_request_error", "top_p: expected");
  ExpectError(Post(kMessages, Body(R"("max_tokens": 4, "stop_sequences": [""])")), 400,
              "invalid_request_error", "stop_sequences[0]: expected");
  ExpectError(Post("/v1/messages/batches", good), 404, "not_found_error", "there is nothing at");
  // Other paths keep theirs.
  EXPECT_EQ(Json(Get("/v1/completions"))["error"]["code"], "method_not_allowed");
  ExpectEverythingBack();
}

TEST_F(GatewayMessagesTest, TheClientsIdOfARequestIsTheIdInItsError) {
  StartAll();
  const std::string mine = std::string(kJson) + "X-Request-Id: mine-7\r\n";
  for (const std::string path : {kMessages, kCount}) {
    for (const HttpResponse& response :
         {Ask("POST", path, mine, "{}"), Ask("GET", path, "X-Request-Id: mine-7\r\n")}) {
      EXPECT_GE(response.status, 400);
      EXPECT_EQ(Json(response)["request_id"], "mine-7");
      EXPECT_EQ(response.headers.at("request-id"), "mine-7");
    }
  }
  const HttpResponse good = Ask("POST", kMessages, mine, Body(R"("max_tokens": 1)"));
  EXPECT_EQ(good.headers.at("request-id"), "mine-7");
}

TEST_F(GatewayMessagesTest, KeysMayComeInXApiKey) {
  router_config_.tenants_path =
      WriteTenants(folder_, {{"acme", {"acme-key"}}, {"blue", {"blue-key"}}});
  StartAll();
  const std::string good = Body(R"("max_tokens": 1)");
  for (const std::string headers : {"x-api-key: acme-key\r\n", "Authorization: Bearer acme-key\r\n",
                                    "X-Api-Key: acme-key\r\nAuthorization: Bearer acme-key\r\n"}) {
    EXPECT_EQ(Ask("POST", kMessages, kJson + headers, good).status, 200) << headers;
    EXPECT_EQ(Ask("POST", kCount, kJson + headers, good).status, 200) << headers;
    EXPECT_EQ(Ask("GET", "/v1/models", headers).status, 200) << headers;
  }
  for (const std::string headers : {"", "x-api-key: wrong\r\n", "x-api-key: Bearer acme-key\r\n",
                                    "x-api-key: acme-key\r\nx-api-key: acme-key\r\n",
                                    "x-api-key: acme-key\r\nAuthorization: Bearer blue-key\r\n",
                                    "x-api-key: acme-key\r\nAuthorization: Basic acme-key\r\n",
                                    "x-api-key: acme-key\r\nAuthorization: Bearer "
                                    "acme-key\r\nAuthorization: Bearer acme-key\r\n"}) {
    for (const std::string path : {kMessages, kCount}) {
      const HttpResponse refused = Ask("POST", path, kJson + headers, good);
      ExpectError(refused, 401, "authentication_error", "");
      EXPECT_THAT(refused.body, ::testing::Not(HasSubstr("acme-key"))) << headers;
    }
    EXPECT_EQ(Ask("GET", "/v1/models", headers).status, 401) << headers;
  }
}

TEST_F(GatewayMessagesTest, AFullQueueSaysWhenToComeBack) {
  router_config_.engine.admission.max_open_requests = 1;
  StartAll();
  HoldForwards();
  HttpResponse running;
  std::thread client([&] { running = Post(kMessages, Body(R"("max_tokens": 2)")); });
  Eventually("it runs", [this] { return router_->engine().replica_status().live_requests == 1; });
  const HttpResponse refused = Post(kMessages, Body(R"("max_tokens": 2, "stream": true)"));
  ExpectError(refused, 429, "rate_limit_error", "");
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  ReleaseForwards();
  client.join();
  EXPECT_EQ(running.status, 200);
  ExpectEverythingBack();
}

TEST_F(GatewayMessagesTest, WithoutAWorkerItIsOverloaded) {
  router_config_.engine.replica.no_worker_grace = absl::ZeroDuration();
  StartRouter();
  StartHttp();
  const HttpResponse refused = Post(kMessages, Body(R"("max_tokens": 2)"));
  ExpectError(refused, 503, "overloaded_error", "worker");
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
}

TEST_F(GatewayMessagesTest, WhatFailsMidStreamIsTheLastEvent) {
  router_config_.api.default_timeout = absl::Milliseconds(300);
  StartAll();
  HoldForwards();
  AllowForwards(3);
  const HttpResponse response = Post(kMessages, Body(R"("max_tokens": 1000, "stream": true)"));
  ReleaseForwards();
  ASSERT_EQ(response.status, 200);
  ASSERT_TRUE(response.complete);
  const std::vector<json> events = EventsOf(response);
  EXPECT_EQ(events.front()["type"], "message_start");
  EXPECT_EQ(events.back()["type"], "error");
  EXPECT_EQ(events.back()["error"]["type"], "timeout_error");
  EXPECT_EQ(events.back()["request_id"], response.headers.at("request-id"));
  ExpectEverythingBack();
}

TEST_F(GatewayMessagesTest, AliasesAreNamesOfTheModel) {
  model_.aliases = {"claude-opus-4-8", "gpt-5"};
  StartAll();
  for (const std::string name : {"claude-opus-4-8", "gpt-5"}) {
    const std::string fields = R"("max_tokens": 1, "model": ")" + name + "\"";
    EXPECT_EQ(Json(Post(kMessages, Body(fields)))["model"], model_.id) << name;
    EXPECT_EQ(Post(kCount, Body(fields)).status, 200);
    EXPECT_EQ(Post("/v1/chat/completions", Body(fields)).status, 200);
    EXPECT_EQ(Json(Get("/v1/models/" + name))["id"], name);
    EXPECT_EQ(Json(Get("/v1/models/" + name))["root"], model_.id);
  }
  ExpectError(Post(kMessages, Body(R"("max_tokens": 1, "model": "claude")")), 404,
              "not_found_error", "got \"claude\"");
  EXPECT_EQ(Get("/v1/models/claude").status, 404);
  const json list = Json(Get("/v1/models"));
  ASSERT_EQ(list["data"].size(), 3u);
  EXPECT_EQ(list["data"][0]["id"], model_.id);
  EXPECT_EQ(list["data"][2]["id"], "gpt-5");
}

TEST_F(GatewayMessagesTest, AStarStandsForEveryName) {
  model_.aliases = {"*"};
  StartAll();
  EXPECT_EQ(Post(kMessages, Body(R"("max_tokens": 1, "model": "what ever")")).status, 200);
  EXPECT_EQ(Post("/v1/chat/completions", Body(R"("max_tokens": 1, "model": "x")")).status, 200);
  EXPECT_EQ(Json(Get("/v1/models"))["data"].size(), 1u);
}

TEST_F(GatewayMessagesTest, TheFieldsThatWereIgnoredAreListed) {
  StartAll();
  const std::string fields = R"("max_tokens": 1, "metadata": {"user_id": "u"}, "foo": 1)";
  for (const std::string path : {kMessages, kCount}) {
    EXPECT_EQ(Post(path, Body(fields)).headers.at("x-lockstep-ignored-fields"), "foo") << path;
  }
}

}  // namespace
}  // namespace lockstep::testing
