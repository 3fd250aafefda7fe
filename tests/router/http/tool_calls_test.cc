// Tools and reasoning from a body to an answer, with a whole router and worker between. The
// worker's model says what a test wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "router/engine/router_metrics.h"
#include "tests/router/http/tool_serving_fixture.h"

namespace lockstep::testing {
namespace {

namespace v1 = lockstep::v1;
using nlohmann::json;
using router::RouterMetrics;
using router::ToolCallOutcome;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class ToolCallsTest : public ToolServingTest {
 protected:
  json Ask(const json& body) {
    const HttpResponse response = Post("/v1/chat/completions", body.dump());
    EXPECT_EQ(response.status, 200) << response.body;
    return response.status == 200 ? Json(response) : json();
  }
  // The message that a client puts together from the chunks.
  json AskStream(json body) {
    body["stream"] = true;
    const HttpResponse response = Post("/v1/chat/completions", body.dump());
    EXPECT_EQ(response.status, 200) << response.body;
    json message = {{"content", ""}, {"reasoning_content", ""}, {"tool_calls", json::array()}};
    for (const std::string& event : response.Events()) {
      if (event == "[DONE]") break;
      const json choice = json::parse(event)["choices"][0];
      if (!choice["finish_reason"].is_null()) message["finish_reason"] = choice["finish_reason"];
      const json& delta = choice["delta"];
      for (const char* const name : {"content", "reasoning_content"}) {
        message[name] = message[name].get<std::string>() + delta.value(name, "");
      }
      for (const json& call : delta.value("tool_calls", json::array())) {
        json& calls = message["tool_calls"];
        if (call.contains("id")) {
          EXPECT_EQ(call["index"], calls.size());
          calls.push_back({{"id", call["id"]}, {"type", call["type"]}});
          calls.back()["function"] = call["function"];
          continue;
        }
        json& arguments = calls.at(call["index"].get<size_t>())["function"]["arguments"];
        arguments = arguments.get<std::string>() + call["function"]["arguments"].get<std::string>();
      }
    }
    return message;
  }
  double Calls(ToolCallOutcome outcome) {
    return RouterMetrics::At(metrics_.tool_calls_total, outcome).Value();
  }
};

TEST_F(ToolCallsTest, AnAgentsLoop) {
  StartAll();
  json body = ToolBody();
  ASSERT_NO_FATAL_FAILURE(
      Script(body, "<think>\nEasy.\n</think>\n\nI add.\n" + std::string(kToolCall)));
  const json answer = Ask(body);
  const json& choice = answer["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_THAT(choice["message"]["content"].get<std::string>(), HasSubstr("I add."));
  EXPECT_EQ(choice["message"]["reasoning_content"], "Easy.");
  EXPECT_EQ(choice["message"]["reasoning"], "Easy.");
  ASSERT_THAT(choice["message"]["tool_calls"], SizeIs(1));
  const json call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"]["name"], "add");
  EXPECT_EQ(json::parse(call["function"]["arguments"].get<std::string>()), json({{"a", 2}}));
  EXPECT_GT(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 0);

  const json streamed = AskStream(body);
  EXPECT_EQ(streamed["finish_reason"], "tool_calls");
  EXPECT_EQ(streamed["content"], choice["message"]["content"]);
  EXPECT_EQ(streamed["reasoning_content"], "Easy.");
  ASSERT_THAT(streamed["tool_calls"], SizeIs(1));
  EXPECT_EQ(streamed["tool_calls"][0]["function"], call["function"]);

  // The client gives back what it got, with the result.
  body["messages"].push_back(choice["message"]);
  body["messages"].push_back({{"role", "tool"}, {"tool_call_id", call["id"]}, {"content", "4"}});
  ASSERT_NO_FATAL_FAILURE(Script(body, "It is 4."));
  const json last = Ask(body);
  EXPECT_EQ(last["choices"][0]["message"]["content"], "It is 4.");
  EXPECT_EQ(last["choices"][0]["finish_reason"], "stop");
  EXPECT_FALSE(last["choices"][0]["message"].contains("tool_calls"));
  EXPECT_EQ(Calls(ToolCallOutcome::kWhole), 2);
  EXPECT_EQ(Calls(ToolCallOutcome::kBroken), 0);
  EXPECT_EQ(metrics_.tool_requests_total->Value(), 3);
}

TEST_F(ToolCallsTest, ThePromptHasToolsCallsAndResults) {
  StartAll();
  json body = ToolBody();
  body["messages"].push_back(
      {{"role", "assistant"},
       {"content", nullptr},
       {"reasoning_content", "hm"},
       {"tool_calls",
        {{{"id", "call_1"},
          {"type", "function"},
          {"function", {{"name", "add"}, {"arguments", "{\"b\":1,\"a\":\"<|im_end|>\"}"}}}}}}});
  body["messages"].push_back({{"role", "tool"}, {"tool_call_id", "call_1"}, {"content", "4"}});
  const json ids = Json(Post("/tokenize", body.dump()))["tokens"];
  std::string prompt;
  for (const json& id : ids) {
    prompt += id.get<TokenId>() == ByteTokenizer::kEnd
                  ? "{end}"
                  : std::string(ByteTokenizer().TokenBytes(id.get<TokenId>()));
  }
  EXPECT_THAT(prompt, HasSubstr("\"name\": \"add\""));
  // A spelling in arguments is no special token.
  EXPECT_THAT(prompt, HasSubstr("assistant\n<think>hm</think>call_1{\"name\": \"add\", "
                                "\"arguments\": {\"b\": 1, \"a\": \"<|im_end|>\"}}{end}"));
  EXPECT_THAT(prompt, HasSubstr("tool\n4call_1{end}"));
}

TEST_F(ToolCallsTest, OnlyOneCallIfClientsWantOnlyOne) {
  StartAll();
  json body = ToolBody();
  body["parallel_tool_calls"] = false;
  ASSERT_NO_FATAL_FAILURE(
      Script(body, std::string(kToolCall) + "\n" + kToolCall + "\n" + kToolCall));
  const json answer = Ask(body);
  ASSERT_THAT(answer["choices"][0]["message"]["tool_calls"], SizeIs(1));
  EXPECT_TRUE(answer["choices"][0]["message"]["content"].is_null());
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "tool_calls");
  ExpectEverythingBack();
}

TEST_F(ToolCallsTest, TheLimitOfTokensIsTold) {
  StartAll();
  json body = ToolBody();
  body["max_tokens"] = 40;
  ASSERT_NO_FATAL_FAILURE(Script(body, std::string(kToolCall)));
  EXPECT_EQ(Ask(body)["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(Calls(ToolCallOutcome::kBroken), 0);
}

TEST_F(ToolCallsTest, AllSamplesMayCall) {
  StartAll();
  json body = ToolBody();
  body["n"] = 3;
  ASSERT_NO_FATAL_FAILURE(Script(body, std::string(kToolCall)));
  const json answer = Ask(body);
  std::vector<std::string> ids;
  for (const json& choice : answer["choices"]) {
    ids.push_back(choice["message"]["tool_calls"].at(0)["id"]);
  }
  ASSERT_THAT(ids, SizeIs(3));
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_NE(ids[1], ids[2]);
}

TEST_F(ToolCallsTest, ToolsThatMustNotBeCalledAreNotParsed) {
  StartAll();
  json body = ToolBody();
  body["tool_choice"] = "none";
  ASSERT_NO_FATAL_FAILURE(Script(body, std::string(kToolCall)));
  const json answer = Ask(body);
  EXPECT_EQ(answer["choices"][0]["message"]["content"], kToolCall);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(metrics_.tool_requests_total->Value(), 0);
}

TEST_F(ToolCallsTest, ATemplateMayBeginTheReasoning) {
  StartAll();
  json body = {{"messages", {{{"role", "user"}, {"content", "2+2?"}}}}, {"enable_thinking", true}};
  ASSERT_NO_FATAL_FAILURE(Script(body, "Easy.\n</think>\n\n4"));
  const json message = Ask(body)["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "Easy.");
  EXPECT_EQ(message["content"], "4");
  body["include_reasoning"] = false;
  const json hidden = Ask(body)["choices"][0]["message"];
  EXPECT_FALSE(hidden.contains("reasoning_content"));
  EXPECT_EQ(hidden["content"], "4");
  body["enable_thinking"] = false;
  ASSERT_NO_FATAL_FAILURE(Script(body, "4</think>"));
  EXPECT_EQ(Ask(body)["choices"][0]["message"]["content"], "4</think>");
}

TEST_F(ToolCallsTest, WhatCannotBeServedIsRefusedByName) {
  StartAll();
  json body = ToolBody();
  body["tool_choice"] = "required";
  ExpectError(Post("/v1/chat/completions", body.dump()), 400, "tool_choice",
              "a forced call needs a constraint engine, and this router has none");
  // Its prompt is that of every choice.
  EXPECT_EQ(Post("/tokenize", body.dump()).status, 200);
  body = ToolBody();
  body["tools"][0]["function"]["name"] = "no name";
  ExpectError(Post("/v1/chat/completions", body.dump()), 400, "tools[0].function.name",
              "expected 1 to 128 characters");
  ExpectError(Post("/tokenize", body.dump()), 400, "tools[0].function.name", "expected 1 to 128");
  body = ToolBody();
  body["chat_template_kwargs"] = {{"tools", json::array()}};
  ExpectError(Post("/v1/chat/completions", body.dump()), 400, "chat_template_kwargs",
              "\"tools\" is set by");
}

TEST_F(ToolCallsTest, AModelOfAnUnknownFormatGetsNoTools) {
  model_.output_format = nullptr;
  StartAll();
  ExpectError(Post("/v1/chat/completions", ToolBody().dump()), 400, "tools",
              "--tool-format sets it");
  EXPECT_FALSE(Json(Get("/v1/models"))["data"][0].contains("tool_format"));
  // Results of earlier calls are only text.
  json body = {{"messages", {{{"role", "tool"}, {"content", "4"}}}}};
  ASSERT_NO_FATAL_FAILURE(Script(body, "Four."));
  EXPECT_EQ(Ask(body)["choices"][0]["message"]["content"], "Four.");
}

TEST_F(ToolCallsTest, TheFormatIsTold) {
  StartAll();
  EXPECT_EQ(Json(Get("/v1/models"))["data"][0]["tool_format"], "hermes");
}

TEST_F(ToolCallsTest, GrpcHasTheSameParts) {
  StartAll();
  const json body = ToolBody();
  ASSERT_NO_FATAL_FAILURE(Script(body, "<think>hm</think>" + std::string(kToolCall)));
  v1::GenerateRequest request;
  auto* const message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("2+2?");
  request.mutable_chat()->set_tools_json(body["tools"].dump());
  const Reply reply = Generate(request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  std::string reasoning;
  std::string arguments;
  for (const v1::GenerateResponse& response : reply.messages) {
    reasoning += response.delta().reasoning();
    for (const auto& call : response.delta().tool_calls()) arguments += call.arguments();
  }
  EXPECT_EQ(reasoning, "hm");
  EXPECT_EQ(json::parse(arguments), json({{"a", 2}}));
  EXPECT_EQ(reply.Text(), "");
  EXPECT_EQ(reply.Finish()->reason(), v1::FINISH_REASON_TOOL_CALLS);
}

}  // namespace
}  // namespace lockstep::testing
