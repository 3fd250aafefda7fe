// Bodies of chats with tools and reasoning.
#include <gtest/gtest.h>

#include <string>

#include "router/http/dialects/openai/body/openai_request.h"
#include "router/http/dialects/openai/openai_error.h"
#include "router/http/dialects/openai/text_queries.h"
#include "tests/router/http/dialects/openai/openai_request_fixture.h"

namespace lockstep::router {
namespace {

constexpr char kTools[] =
    R"([{"type":"function", "function":{"strict":true,"name":"f","description":"\u00e9"}}])";

std::string ChatBody(const std::string& fields) {
  return R"({"messages": [{"role": "user", "content": "x"}], )" + fields + "}";
}

std::string WithTools(const std::string& fields) {
  return ChatBody(std::string(R"("tools": )") + kTools + ", " + fields);
}

v1::ChatPrompt ChatOf(const std::string& body) {
  const auto request = ParseChatRequest(body);
  EXPECT_TRUE(request.ok()) << body << ": " << request.status();
  return request.ok() ? request->prompts.at(0).chat() : v1::ChatPrompt();
}

TEST(OpenAiToolRequestTest, ToolsKeepTheirText) {
  EXPECT_EQ(ChatOf(WithTools(R"("n": 1)")).tools_json(), kTools);
  EXPECT_EQ(ChatOf(ChatBody(R"("tools": [])")).tools_json(), "");
  EXPECT_EQ(ChatOf(ChatBody(R"("tools": null)")).tools_json(), "");
  const auto query = ParseTokenizeRequest(WithTools(R"("tool_choice": "none")"));
  ASSERT_TRUE(query.ok()) << query.status();
  EXPECT_EQ(query->request.chat().tools_json(), kTools);
  EXPECT_EQ(query->request.chat().tool_choice().mode(), v1::ToolChoice::NONE);
}

struct ChoiceCase {
  const char* fields;
  const char* choice;  // "-": absent
};

TEST(OpenAiToolRequestTest, ChoicesAreRead) {
  const ChoiceCase cases[] = {
      {R"("n": 1)", "-"},
      {R"("tool_choice": null)", "-"},
      {R"("tool_choice": "auto")", ""},
      {R"("tool_choice": "none")", "mode: NONE"},
      {R"("tool_choice": "required")", "mode: REQUIRED"},
      {R"("tool_choice": {"type": "function", "function": {"name": "f"}})",
       "mode: REQUIRED function: 'f'"},
      {R"("parallel_tool_calls": true)", "-"},
      {R"("parallel_tool_calls": false)", "single: true"},
      {R"("parallel_tool_calls": false, "tool_choice": "none")", "mode: NONE single: true"},
  };
  for (const ChoiceCase& entry : cases) {
    SCOPED_TRACE(entry.fields);
    const v1::ChatPrompt chat = ChatOf(WithTools(entry.fields));
    const std::string expected = entry.choice;
    EXPECT_EQ(chat.has_tool_choice(), expected != "-");
    if (expected == "-") continue;
    v1::ToolChoice choice;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(expected, &choice));
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equivalent(chat.tool_choice(), choice))
        << chat.DebugString();
  }
  // Without tools there is nothing to choose.
  for (const std::string fields : {R"("tool_choice": "auto")", R"("tool_choice": "none")",
                                   R"("parallel_tool_calls": false)"}) {
    EXPECT_FALSE(ChatOf(ChatBody(fields)).has_tool_choice()) << fields;
  }
}

TEST(OpenAiToolRequestTest, MessagesHaveCallsResultsAndReasoning) {
  const auto request = ParseChatRequest(R"({"messages": [
      {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
        {"index": 0, "type": "function", "id": "call_1",
         "function": {"arguments": "{\"b\": 1,\"a\":\"\\u00e9\"}", "name": "f"}},
        {"id": "call_2", "function": {"name": "g"}}]},
      {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "4"}]},
      {"role": "assistant", "content": "4", "reasoning": "so", "tool_calls": []},
      {"role": "assistant", "content": "", "reasoning": "", "reasoning_content": "old",
       "tool_call_id": null}
      ]})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->ignored_fields, "");
  const v1::ChatPrompt& chat = request->prompts.at(0).chat();
  EXPECT_EQ(chat.messages(0).tool_calls_json(),
            R"([{"id":"call_1","type":"function","function":{"name":"f",)"
            R"("arguments":"{\"b\": 1,\"a\":\"\\u00e9\"}"}},)"
            R"({"id":"call_2","type":"function","function":{"name":"g","arguments":""}}])");
  EXPECT_EQ(chat.messages(0).reasoning(), "hm");
  EXPECT_EQ(chat.messages(0).content(), "");
  EXPECT_EQ(chat.messages(1).tool_call_id(), "call_1");
  EXPECT_EQ(chat.messages(1).content(), "4");
  EXPECT_EQ(chat.messages(2).tool_calls_json(), "");
  EXPECT_EQ(chat.messages(2).reasoning(), "so");
  EXPECT_EQ(chat.messages(3).reasoning(), "old");
}

struct ArgumentsCase {
  const char* fields;
  const char* arguments;
};

TEST(OpenAiToolRequestTest, SwitchesOfReasoningAreArgumentsOfTheTemplate) {
  const ArgumentsCase cases[] = {
      {R"("reasoning_effort": null)", ""},
      {R"("reasoning_effort": "none")", R"({"enable_thinking":false})"},
      {R"("reasoning_effort": "high")", R"({"reasoning_effort":"high"})"},
      {R"("enable_thinking": true)", R"({"enable_thinking":true})"},
      {R"("reasoning": {"effort": "low"})", R"({"reasoning_effort":"low"})"},
      {R"("reasoning": {"enabled": false})", R"({"enable_thinking":false})"},
      {R"("reasoning": {})", ""},
      {R"("thinking": {"type": "disabled"})", R"({"enable_thinking":false})"},
      {R"("thinking": {"type": "enabled"})", R"({"enable_thinking":true})"},
      {R"("enable_thinking": false, "chat_template_kwargs": {"z": 1, "a": [2]})",
       R"({"enable_thinking":false,"z":1,"a":[2]})"},
      // The client's own argument wins.
      {R"("enable_thinking": false, "chat_template_kwargs": {"enable_thinking": true})",
       R"({"enable_thinking":true})"},
      {R"("reasoning_effort": "low", "enable_thinking": true, "chat_template_kwargs": {})",
       R"({"enable_thinking":true,"reasoning_effort":"low"})"},
  };
  for (const ArgumentsCase& entry : cases) {
    SCOPED_TRACE(entry.fields);
    EXPECT_EQ(ChatOf(ChatBody(entry.fields)).template_arguments_json(), entry.arguments);
  }
  const auto hidden = ParseChatRequest(ChatBody(R"("include_reasoning": false)"));
  ASSERT_TRUE(hidden.ok()) << hidden.status();
  EXPECT_FALSE(hidden->options.include_reasoning);
  EXPECT_TRUE(ParseChatRequest(ChatBody(R"("n": 1)"))->options.include_reasoning);
}

struct BadField {
  const char* fields;
  const char* words;
};

TEST(OpenAiToolRequestTest, WrongKindsAreNamed) {
  const BadField cases[] = {
      {R"("tools": {})", "tools: expected an array, got {}"},
      {R"("tool_choice": "required")", "tool_choice: expected with \"tools\" only"},
      {R"("tool_choice": {"type": "function", "function": {"name": "f"}})",
       "tool_choice: expected with \"tools\" only"},
      {R"("tools": [{}], "tool_choice": "any")",
       R"(tool_choice: expected "auto", "none", "required" or an object, got "any")"},
      {R"("tools": [{}], "tool_choice": 5)", "tool_choice: expected \"auto\""},
      {R"("tools": [{}], "tool_choice": {"type": "function"})",
       "tool_choice.function: expected an object, got none"},
      {R"("tools": [{}], "tool_choice": {"type": "function", "function": {}})",
       "tool_choice.function.name: expected a name, got none"},
      {R"("parallel_tool_calls": 1)", "parallel_tool_calls: expected true or false, got 1"},
      {R"("reasoning_effort": "much")", R"(reasoning_effort: expected "none", "minimal")"},
      {R"("reasoning": {"effort": 5})", "reasoning.effort: expected a string, got 5"},
      {R"("thinking": {"type": "maybe"})", "thinking.type: expected \"enabled\" or \"disabled\""},
      {R"("thinking": true)", "thinking: expected a JSON object, got true"},
      {R"("enable_thinking": 1)", "enable_thinking: expected true or false, got 1"},
      {R"("include_reasoning": 1)", "include_reasoning: expected true or false, got 1"},
  };
  for (const BadField& entry : cases) {
    SCOPED_TRACE(entry.fields);
    ExpectError(ParseChatRequest(ChatBody(entry.fields)).status(),
                absl::StatusCode::kInvalidArgument, entry.words);
  }
}

TEST(OpenAiToolRequestTest, WrongCallsAreNamed) {
  const BadField cases[] = {
      {R"({"role": "assistant", "tool_calls": {}})",
       "messages[0].tool_calls: expected an array of calls, got {}"},
      {R"({"role": "user", "content": "", "tool_calls": [{}]})",
       "messages[0].tool_calls: expected with role \"assistant\" only"},
      {R"({"role": "assistant", "tool_calls": [5]})",
       "messages[0].tool_calls[0]: expected a JSON object, got 5"},
      {R"({"role": "assistant", "tool_calls": [{"id": "5"}]})",
       "messages[0].tool_calls[0].function: expected an object, got none"},
      {R"({"role": "assistant", "tool_calls": [{"id": 5, "function": {"name": "f"}}]})",
       "messages[0].tool_calls[0].id: expected a string, got 5"},
      {R"({"role": "assistant", "tool_calls": [{"function": {}}]})",
       "messages[0].tool_calls[0].function.name: expected the name of a function, got none"},
      {R"({"role": "assistant", "tool_calls": [{"function": {"name": "f"}},
          {"function": {"name": "f", "arguments": {}}}]})",
       "messages[0].tool_calls[1].function.arguments: expected a string, got {}"},
      {R"({"role": "assistant", "reasoning": 5})", "messages[0].reasoning: expected a string"},
      {R"({"role": "tool", "content": "", "tool_call_id": 5})",
       "messages[0].tool_call_id: expected a string, got 5"},
      {R"({"role": "tool", "tool_call_id": "c"})", "messages[0].content: expected a string"},
  };
  for (const BadField& entry : cases) {
    SCOPED_TRACE(entry.fields);
    const auto request = ParseChatRequest(std::string(R"({"messages": [)") + entry.fields + "]}");
    EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(request.status()), ::testing::StartsWith(entry.words));
  }
}

TEST(OpenAiToolRequestTest, WhatIsNotServedIsRefusedByName) {
  const BadField cases[] = {
      {R"("tools": [{}], "tool_choice": {"type": "allowed_tools", "allowed_tools": {}})",
       "tool_choice.type: \"allowed_tools\" is not implemented"},
      {R"("reasoning": {"max_tokens": 5})", "reasoning.max_tokens: not implemented"},
      {R"("reasoning": {"exclude": true})", "reasoning.exclude: not implemented"},
      {R"("thinking": {"type": "enabled", "budget_tokens": 5})",
       "thinking.budget_tokens: not implemented"},
      {R"("thinking_token_budget": 5)", "thinking_token_budget: not implemented"},
  };
  for (const BadField& entry : cases) {
    SCOPED_TRACE(entry.fields);
    ExpectError(ParseChatRequest(ChatBody(entry.fields)).status(), absl::StatusCode::kUnimplemented,
                entry.words);
  }
  ExpectError(ParseChatRequest(R"({"messages": [{"role": "assistant",
                  "tool_calls": [{"type": "custom", "custom": {"name": "f"}}]}]})")
                  .status(),
              absl::StatusCode::kUnimplemented,
              "messages[0].tool_calls[0].type: only calls of functions are implemented");
}

TEST(OpenAiToolRequestTest, ErrorsOfTheRequestHaveTheNamesOfTheBody) {
  EXPECT_EQ(WithJsonFieldName("chat.tools_json[2].function.name: x", ChatFieldNames()),
            "tools[2].function.name: x");
  EXPECT_EQ(WithJsonFieldName("chat.tools_json: x", ChatFieldNames()), "tools: x");
  EXPECT_EQ(WithJsonFieldName("chat.tool_choice: x", ChatFieldNames()), "tool_choice: x");
}

}  // namespace
}  // namespace lockstep::router
