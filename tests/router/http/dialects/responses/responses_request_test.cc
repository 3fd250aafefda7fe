#include "router/http/dialects/responses/responses_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/router/http/dialects/responses/responses_fixture.h"

namespace lockstep::router {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ResponsesRequestTest, ABodyBecomesTheSameRequestAsOverGrpc) {
  const ResponsesRequest request = ReadResponsesBody(R"({
    "model": "tiny", "input": "Once", "max_output_tokens": 9, "temperature": 0.5, "top_p": 0.25,
    "top_logprobs": 3, "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
    "stream": true, "stream_options": {"include_obfuscation": false}, "store": true,
    "prompt_cache_key": "session-1", "user": "someone", "safety_identifier": "s",
    "metadata": {"k": "v"}, "service_tier": "auto", "truncation": "disabled",
    "client_metadata": {"a": 1}, "background": false, "previous_response_id": null,
    "conversation": null, "seed": 5, "top_k": 4, "stop": ["x"], "request_id": "mine",
    "priority": 2, "text": {"format": {"type": "text"}, "verbosity": "medium"}})");
  ASSERT_EQ(request.prompts.size(), 1u);
  ExpectSame(request.prompts[0], R"(
    request_id: "mine" model: "tiny" session_id: "session-1" priority: 2
    chat { messages { role: "user" content: "Once" } }
    sampling { temperature: 0.5 top_p: 0.25 top_k: 4 seed: 5 }
    stop { max_tokens: 9 stop: "x" }
    output { logprobs: 3 })");
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.options.logprobs);
  EXPECT_FALSE(request.lists_prompts);
  EXPECT_EQ(request.ignored_fields, "");
}

TEST(ResponsesRequestTest, DefaultsAreLeftToTheModel) {
  const ResponsesRequest request = ReadResponsesBody(R"({"input": "x"})");
  ExpectSame(request.prompts[0],
             R"(sampling {} stop {} chat { messages { role: "user" content: "x" } })");
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.options.logprobs);
}

TEST(ResponsesRequestTest, UnknownFieldsAreNamed) {
  const std::string body = R"({"input": [{"role": "user", "content": "x", "mood": 1}],
      "max_tool_calls": 3, "temprature": 1, "text": {"colour": 1}, "reasoning": {"depth": 1}})";
  EXPECT_EQ(ReadResponsesBody(body).ignored_fields,
            "input[0].mood, text.colour, reasoning.depth, max_tool_calls, temprature");
  ExpectError(ParseResponsesRequest(body, {.strict_fields = true}).status(),
              absl::StatusCode::kUnimplemented, "input[0].mood: this router does not know");
}

TEST(ResponsesRequestTest, AFormatIsAConstraintWithItsKeysInOrder) {
  const auto sampling = [](const std::string& format) {
    return ReadResponsesBody(R"({"input": "x", "text": {"format": )" + format + "}}")
        .prompts[0]
        .sampling();
  };
  EXPECT_EQ(sampling(R"({"type": "json_schema", "name": "n", "strict": true,
                         "schema": {"type": "object", "properties": {"b": {}, "a": {}}}})")
                .json_schema(),
            R"({"type":"object","properties":{"b":{},"a":{}}})");
  EXPECT_TRUE(sampling(R"({"type": "json_object"})").json_object());
  EXPECT_EQ(sampling(R"({"type": "text"})").constraint_case(),
            v1::SamplingParams::CONSTRAINT_NOT_SET);
}

TEST(ResponsesRequestTest, TheEffortIsAnArgumentOfTheTemplate) {
  const auto arguments = [](const std::string& members) {
    return ChatOfResponse(R"("input": "x", )" + members).template_arguments_json();
  };
  EXPECT_EQ(arguments(R"("reasoning": {"effort": "none"})"), R"({"enable_thinking":false})");
  EXPECT_EQ(arguments(R"("reasoning": {"effort": "high", "summary": "auto"})"),
            R"({"reasoning_effort":"high"})");
  EXPECT_EQ(arguments(R"("reasoning": {"effort": null})"), "");
  EXPECT_EQ(arguments(R"("reasoning": null)"), "");
  EXPECT_EQ(arguments(R"("chat_template_kwargs": {"z": 1, "a": 2})"), R"({"z":1,"a":2})");
  EXPECT_EQ(arguments(R"("reasoning": {"effort": "low"}, "chat_template_kwargs": {"z": 1})"),
            R"({"reasoning_effort":"low","z":1})");
  // The template's own variable counts.
  EXPECT_EQ(arguments(R"("reasoning": {"effort": "none"},
                         "chat_template_kwargs": {"enable_thinking": true})"),
            R"({"enable_thinking":true})");
  EXPECT_EQ(arguments(R"("reasoning": {"effort": "low"}, "chat_template_kwargs": {})"),
            R"({"reasoning_effort":"low"})");
}

TEST(ResponsesRequestTest, ACacheKeyIsTheSession) {
  const auto session = [](const std::string& members) {
    return ReadResponsesBody(R"({"input": "x", )" + members + "}").prompts[0].session_id();
  };
  EXPECT_EQ(session(R"("prompt_cache_key": "a-1")"), "a-1");
  EXPECT_EQ(session(R"("prompt_cache_key": "a", "session_id": "b")"), "b");
  // An id has no spaces, but a key may have them.
  const std::string hashed = session(R"("prompt_cache_key": "a key")");
  EXPECT_THAT(hashed, ::testing::MatchesRegex("key-[0-9a-f]+"));
  EXPECT_EQ(session(R"("prompt_cache_key": "a key")"), hashed);
  EXPECT_NE(session(R"("prompt_cache_key": "b key")"), hashed);
}

TEST(ResponsesRequestTest, TheAnswerRepeatsTheRequest) {
  EXPECT_EQ(
      ReadResponsesBody(R"({"input": "x"})").echo,
      R"("background":false,"store":false,"previous_response_id":null,"truncation":"disabled",)"
      R"("service_tier":"default","instructions":null,"max_output_tokens":null,)"
      R"("max_tool_calls":null,"temperature":null,"top_p":null,"presence_penalty":null,)"
      R"("frequency_penalty":null,"prompt_cache_key":null,"safety_identifier":null,"user":null,)"
      R"("top_logprobs":0,"parallel_tool_calls":true,"reasoning":{"effort":null,"summary":null},)"
      R"("text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"metadata":{})");
  EXPECT_EQ(
      ReadResponsesBody(R"({"input": "x", "instructions": "be \"kind\"", "max_output_tokens": 9,
         "temperature": 0.7, "top_p": 1, "store": true, "parallel_tool_calls": false,
         "reasoning": {"effort": "low"}, "text": {"format": {"type": "json_object"}},
         "tools": [{"type": "function", "name": "f", "parameters": {"z": 1, "a": 2}}],
         "tool_choice": {"type": "function", "name": "f"}, "metadata": {"z": "1", "a": "2"},
         "user": "u", "max_tool_calls": 3, "top_logprobs": 2, "prompt_cache_key": "k",
         "include": ["message.output_text.logprobs"]})")
          .echo,
      R"("background":false,"store":false,"previous_response_id":null,"truncation":"disabled",)"
      R"("service_tier":"default","instructions":"be \"kind\"","max_output_tokens":9,)"
      R"("max_tool_calls":3,"temperature":0.7,"top_p":1,"presence_penalty":null,)"
      R"("frequency_penalty":null,"prompt_cache_key":"k","safety_identifier":null,"user":"u",)"
      R"("top_logprobs":2,"parallel_tool_calls":false,)"
      R"("reasoning":{"effort":"low","summary":null},"text":{"format":{"type":"json_object"}},)"
      R"("tool_choice":{"type":"function","name":"f"},)"
      R"("tools":[{"type":"function","name":"f","parameters":{"z":1,"a":2}}],)"
      R"("metadata":{"z":"1","a":"2"})");
}

TEST(ResponsesRequestTest, TheEchoIsJsonWhateverTheBodyHas) {
  for (const std::string members :
       {R"("max_tool_calls": {"a": [1]}, "safety_identifier": 5, "user": ["x"])",
        R"("max_tool_calls": -1e300, "reasoning": {"summary": {"a": 1}})",
        R"("tools": null, "text": null, "metadata": null, "tool_choice": null)",
        R"("instructions": "\u0000\ud83d\ude00")"}) {
    const ResponsesRequest request = ReadResponsesBody(R"({"input": "x", )" + members + "}");
    EXPECT_TRUE(nlohmann::json::accept("{" + request.echo + "}")) << request.echo;
  }
}

TEST(ResponsesRequestTest, TheEchoCountsAsMemory) {
  const std::string text(100'000, 'x');
  const ResponsesRequest request =
      ReadResponsesBody(R"({"input": "x", "metadata": {"a": ")" + text + R"("}})");
  EXPECT_GT(request.NumHeldBytes(), text.size());
}

// The shape of a request of Codex, with the kinds of tools that it has.
constexpr char kCodexBody[] = R"({
  "model": "tiny",
  "instructions": "You are a coding agent.",
  "input": [
    {"type": "message", "role": "developer",
     "content": [{"type": "input_text", "text": "<permissions>"}]},
    {"type": "message", "role": "user",
     "content": [{"type": "input_text", "text": "<environment>"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Mend it."}]},
    {"type": "reasoning", "summary": [], "content": null, "encrypted_content": null},
    {"type": "message", "role": "assistant",
     "content": [{"type": "output_text", "text": "I look."}]},
    {"type": "function_call", "name": "exec_command", "arguments": "{\"cmd\":\"ls\"}",
     "call_id": "call_1"},
    {"type": "custom_tool_call", "status": "completed", "call_id": "call_2", "name": "apply_patch",
     "input": "*** Begin Patch\n*** End Patch"},
    {"type": "function_call_output", "call_id": "call_1", "output": "a.c\n"},
    {"type": "custom_tool_call_output", "call_id": "call_2", "output": "{\"output\":\"ok\"}"}
  ],
  "tools": [
    {"type": "function", "name": "exec_command", "description": "Runs.", "strict": false,
     "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}},
       "required": ["cmd"],
       "additionalProperties": false}},
    {"type": "function", "name": "write_stdin", "description": "Writes.", "strict": false,
     "parameters": {"type": "object", "properties": {"session_id": {"type": "number"}}}},
    {"type": "function", "name": "update_plan", "description": "Plans.", "strict": false,
     "parameters": {"type": "object", "properties": {"plan": {"type": "array", "items": {}}}}},
    {"type": "function", "name": "request_user_input", "description": "Asks.", "strict": false,
     "parameters": {"type": "object", "properties": {}}},
    {"type": "custom", "name": "apply_patch", "description": "Edits files.",
     "format": {"type": "grammar", "syntax": "lark",
                "definition": "start: begin_patch hunk+ end_patch"}},
    {"type": "web_search", "external_web_access": true},
    {"type": "function", "name": "view_image", "description": "Shows.", "strict": false,
     "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},
    {"type": "namespace", "name": "multi_agent_v1", "description": "Agents.", "tools": [
      {"type": "function", "name": "spawn_agent", "description": "Starts.", "strict": false,
       "parameters": {"type": "object", "properties": {}}},
      {"type": "function", "name": "wait_agent", "description": "Waits.", "strict": false,
       "parameters": {"type": "object", "properties": {}}}]},
    {"type": "tool_search", "execution": "client", "description": "Finds.", "parameters": {}},
    {"type": "image_generation", "output_format": "png"}
  ],
  "tool_choice": "auto",
  "parallel_tool_calls": true,
  "reasoning": {"effort": "medium", "summary": "auto"},
  "store": false,
  "stream": true,
  "include": ["reasoning.encrypted_content"],
  "prompt_cache_key": "019a0b1c-1111-7222-8333-444455556666",
  "client_metadata": {"x-codex-installation-id": "i"}
})";

TEST(ResponsesRequestTest, ARequestOfCodexIsRead) {
  const ResponsesRequest request = ReadResponsesBody(kCodexBody);
  ASSERT_EQ(request.prompts.size(), 1u);
  const v1::GenerateRequest& prompt = request.prompts[0];
  EXPECT_EQ(prompt.session_id(), "019a0b1c-1111-7222-8333-444455556666");
  EXPECT_FALSE(prompt.stop().has_max_tokens());
  EXPECT_TRUE(request.stream);
  const v1::ChatPrompt& chat = prompt.chat();
  ASSERT_EQ(chat.messages_size(), 6);
  EXPECT_EQ(chat.messages(0).content(), "You are a coding agent.\n\n<permissions>");
  EXPECT_EQ(chat.messages(3).role(), "assistant");
  EXPECT_EQ(chat.messages(3).content(), "I look.");
  const auto calls = nlohmann::json::parse(chat.messages(3).tool_calls_json());
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[1]["function"]["name"], "apply_patch");
  EXPECT_EQ(chat.messages(5).tool_call_id(), "call_2");
  const auto tools = nlohmann::json::parse(chat.tools_json());
  EXPECT_EQ(tools.size(), 8u);
  EXPECT_THAT(chat.tools_json(), HasSubstr("start: begin_patch hunk+ end_patch"));
  EXPECT_THAT(chat.tools_json(), HasSubstr("multi_agent_v1__spawn_agent"));
  EXPECT_THAT(chat.tools_json(), Not(HasSubstr("web_search")));
  EXPECT_EQ(chat.tool_choice().mode(), v1::ToolChoice::AUTO);
  EXPECT_EQ(chat.template_arguments_json(), R"({"reasoning_effort":"medium"})");
  EXPECT_EQ(request.ignored_fields,
            "tools[5].web_search, tools[8].tool_search, tools[9].image_generation");
}

}  // namespace
}  // namespace lockstep::router
