#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/router/http/gateway_fixture.h"

// POST /v1/responses over a socket, with a whole router and worker behind it.
namespace lockstep::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kResponsesPath[] = "/v1/responses";

// The events of a stream, each with its name checked.
std::vector<json> NamedEvents(const HttpResponse& response) {
  std::vector<json> events;
  for (size_t at = 0; at < response.body.size();) {
    const size_t data = response.body.find("\ndata: ", at);
    const size_t end = response.body.find("\n\n", at);
    EXPECT_LT(data, end) << response.body.substr(at);
    if (data >= end || end == std::string::npos) break;
    events.push_back(json::parse(response.body.substr(data + 7, end - data - 7)));
    EXPECT_EQ(response.body.substr(at, data - at),
              "event: " + events.back()["type"].get<std::string>());
    at = end + 2;
  }
  return events;
}

std::string TextOf(const json& response) { return response["output"][0]["content"][0]["text"]; }

TEST_F(GatewayTest, AResponseSaysWhatAChatSays) {
  StartAll();
  const json chat = Json(Post("/v1/chat/completions", R"({"max_completion_tokens": 6, "messages":
      [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]})"));
  const HttpResponse response =
      Post(kResponsesPath,
           R"({"max_output_tokens": 6, "instructions": "Be kind.", "input": "Hi", "tone": 1,
                 "tools": [{"type": "web_search"}]})");
  ASSERT_EQ(response.status, 200) << response.body;
  const json answer = Json(response);
  EXPECT_EQ(TextOf(answer), chat["choices"][0]["message"]["content"]);
  EXPECT_THAT(answer["id"].get<std::string>(), StartsWith("resp_"));
  EXPECT_EQ(answer["status"], "incomplete");
  EXPECT_EQ(answer["model"], "bytes");
  EXPECT_EQ(answer["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
  EXPECT_EQ(answer["usage"]["output_tokens"], 6);
  EXPECT_EQ(answer["system_fingerprint"], chat["system_fingerprint"]);
  EXPECT_EQ(response.headers.at("x-lockstep-ignored-fields"), "tools[0].web_search, tone");
  ExpectEverythingBack();
}

TEST_F(GatewayTest, AStreamedResponseHasNamedEvents) {
  StartAll();
  const std::string fields = R"("input": "Hi", "max_output_tokens": 30, "request_id": "r")";
  const HttpResponse streamed = Post(kResponsesPath, "{\"stream\": true, " + fields + "}");
  ASSERT_EQ(streamed.status, 200);
  EXPECT_THAT(streamed.headers.at("content-type"), StartsWith("text/event-stream"));
  ASSERT_TRUE(streamed.complete);
  const std::vector<json> events = NamedEvents(streamed);
  ASSERT_GE(events.size(), 9u);
  EXPECT_EQ(events.front()["type"], "response.created");
  EXPECT_EQ(events.back()["type"], "response.incomplete");
  std::string text;
  for (const json& event : events) {
    if (event["type"] == "response.output_text.delta") text += event["delta"];
  }
  const json whole = Json(Post(kResponsesPath, "{" + fields + "}"));
  EXPECT_EQ(text, TextOf(whole));
  EXPECT_EQ(events.back()["response"]["output"], whole["output"]);
  ExpectEverythingBack();
}

TEST_F(GatewayTest, ErrorsOfResponsesAreOpenAis) {
  StartAll();
  ExpectError(Post(kResponsesPath, "{}"), 400, "input",
              "input: expected a string or an array of items");
  ExpectError(Post(kResponsesPath, R"({"input": []})"), 400, "input",
              "expected at least 1 message");
  ExpectError(Post(kResponsesPath, R"({"input": "x", "top_p": 2})"), 400, "top_p",
              "top_p: expected");
  ExpectError(
      Post(kResponsesPath, R"({"input": "x", "text": {"format": {"type": "json_object"}}})"), 400,
      "text.format", "text.format: this router has no constraint engine");
  ExpectError(Post(kResponsesPath, R"({"input": "x", "model": "other"})"), 404, "model",
              "expected");
  ExpectError(Post(kResponsesPath, R"({"input": "x", "previous_response_id": "resp_1"})"), 404,
              "previous_response_id", "no answers are kept here");
  const HttpResponse kept = Get("/v1/responses/resp_1");
  ExpectError(kept, 404, nullptr, "there is nothing at \"/v1/responses/resp_1\"");
  ExpectError(Get(kResponsesPath), 405, nullptr, "POST");
  ExpectEverythingBack();
}

}  // namespace
}  // namespace lockstep::testing
