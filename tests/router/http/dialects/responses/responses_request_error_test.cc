#include <gtest/gtest.h>

#include <string>

#include "tests/router/http/dialects/responses/responses_fixture.h"

namespace lockstep::router {
namespace {

constexpr auto kWrong = absl::StatusCode::kInvalidArgument;
constexpr auto kUnserved = absl::StatusCode::kUnimplemented;

// Members of a body beside `input`, and the beginning of the error they get.
struct BadMembers {
  const char* members;
  absl::StatusCode code;
  const char* words;
};

constexpr BadMembers kBadMembers[] = {
    {R"("instructions": ["a"])", kWrong, R"(instructions: expected a string, got ["a"])"},
    {R"("stream": 1)", kWrong, "stream: expected true or false, got 1"},
    {R"("stream_options": {})", kWrong, "stream_options: expected with \"stream\": true only"},
    {R"("store": "yes")", kWrong, R"(store: expected true or false, got "yes")"},
    {R"("temperature": "hot")", kWrong, R"(temperature: expected a number, got "hot")"},
    {R"("max_output_tokens": 0)", kWrong,
     "max_output_tokens: expected an integer from 1 to 99, got 0"},
    {R"("max_output_tokens": 1.5)", kWrong, "max_output_tokens: expected an integer"},
    {R"("top_logprobs": 21, "include": ["message.output_text.logprobs"])", absl::StatusCode::kOk,
     ""},  // the validator knows the limit
    {R"("top_logprobs": -1)", kWrong, "top_logprobs: expected an integer from 0 to 20, got -1"},
    {R"("top_logprobs": 1)", kWrong,
     R"(top_logprobs: expected with "message.output_text.logprobs" in include only)"},
    {R"("include": "a")", kWrong, R"(include: expected an array of strings, got "a")"},
    {R"("include": ["a", 1])", kWrong, "include[1]: expected a string, got 1"},
    {R"("metadata": [])", kWrong, "metadata: expected an object of strings, got []"},
    {R"("metadata": {"a": 1})", kWrong, "metadata: expected an object of strings"},
    {R"("reasoning": "high")", kWrong, R"(reasoning: expected a JSON object, got "high")"},
    {R"("reasoning": {"effort": "huge"})", kWrong,
     "reasoning.effort: expected one of none, minimal, low, medium, high, xhigh, max, got "
     "\"huge\""},
    {R"("chat_template_kwargs": 1)", kWrong, "chat_template_kwargs: expected an object, got 1"},
    {R"("text": 1)", kWrong, "text: expected a JSON object, got 1"},
    {R"("text": {"format": 1})", kWrong, "text.format: expected a JSON object, got 1"},
    {R"("text": {"format": {"type": "xml"}})", kWrong,
     R"(text.format.type: expected text, json_object or json_schema, got "xml")"},
    {R"("text": {"format": {"type": "json_schema"}})", kWrong,
     "text.format.schema: expected an object, got null"},
    {R"("text": {"verbosity": "low"})", kUnserved, "text.verbosity: not implemented"},
    {R"("prompt_cache_key": 5)", kWrong, "prompt_cache_key: expected a string, got 5"},
    {R"("previous_response_id": "resp_1")", absl::StatusCode::kNotFound,
     "previous_response_id: no answers are kept here, so there is no \"resp_1\""},
    {R"("background": true)", kUnserved, "background: no answers are kept here"},
    {R"("conversation": "conv_1")", kUnserved, "conversation: no conversations are kept here"},
    {R"("prompt": {"id": "pmpt_1"})", kUnserved, "prompt: no prompts are kept here"},
    {R"("truncation": "auto")", kUnserved, "truncation: not implemented"},
    {R"("context_management": [{"type": "compaction"}])", kUnserved, "context_management: not"},
    {R"("messages": [])", kUnserved, "messages: belongs to /v1/chat/completions; this path takes"},
    {R"("max_tokens": 5)", kUnserved, "max_tokens: belongs to /v1/chat/completions; this path"},
    {R"("max_completion_tokens": 5)", kUnserved, "max_completion_tokens: belongs to"},
    {R"("logprobs": true)", kUnserved, "logprobs: belongs to /v1/chat/completions"},
    {R"("reasoning_effort": "low")", kUnserved, "reasoning_effort: belongs to"},
    {R"("n": 2)", kUnserved, "n: not implemented"},
    {R"("return_token_ids": true)", kUnserved, "return_token_ids: not implemented"},
    {R"("prompt_logprobs": 1)", kUnserved, "prompt_logprobs: not implemented"},
    {R"("mirostat": 2)", kUnserved, "mirostat: not implemented"},
    {R"("parallel_tool_calls": 1)", kWrong, "parallel_tool_calls: expected true or false, got 1"},
    {R"("tools": {})", kWrong, "tools: expected an array, got {}"},
    {R"("tools": [1])", kWrong, "tools[0]: expected a JSON object, got 1"},
    {R"("tools": [{}])", kWrong, "tools[0].type: expected a string, got none"},
    {R"("tools": [{"type": "function", "function": {"name": "f"}}])", kWrong,
     "tools[0].name: expected a string, got none"},
    {R"("tools": [{"type": "function", "name": ""}])", kWrong,
     "tools[0].name: expected 1 to 128 characters of [a-zA-Z0-9_.-], got \"\""},
    {R"("tools": [{"type": "function", "name": "a b"}])", kWrong,
     "tools[0].name: expected 1 to 128 characters of [a-zA-Z0-9_.-], got \"a b\""},
    {R"("tools": [{"type": "function", "name": "a:b"}])", kWrong,
     "tools[0].name: expected 1 to 128 characters of [a-zA-Z0-9_.-], got \"a:b\""},
    {R"("tools": [{"type": "web_search"},
         {"type": "namespace", "name": "a:b", "tools": [{"type": "custom", "name": "f"}]}])",
     kWrong, "tools[1].name: expected 1 to 128 characters of [a-zA-Z0-9_.-], got \"a:b\""},
    {R"("tools": [{"type": "function", "name": "f", "parameters": []}])", kWrong,
     "tools[0].parameters: expected an object, got []"},
    {R"("tools": [{"type": "function", "name": "f", "strict": 1}])", kWrong,
     "tools[0].strict: expected true or false, got 1"},
    {R"("tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "f"}])", kWrong,
     "tools[1].name: expected a name that no other tool has, got \"f\""},
    {R"("tools": [{"type": "custom", "name": "f", "format": {"type": "x"}}])", kWrong,
     "tools[0].format.type: expected text or grammar, got \"x\""},
    {R"("tools": [{"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]}])", kWrong,
     "tools[0].tools[0].type: expected function or custom in a namespace, got \"web_search\""},
    {R"("tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function"}]}])", kWrong,
     "tools[0].tools[0].name: expected a string, got none"},
    {R"("tool_choice": "any")", kWrong,
     "tool_choice: expected none, auto, required or an object, got \"any\""},
    {R"("tool_choice": 1)", kWrong, "tool_choice: expected none, auto, required or an object"},
    {R"("tool_choice": "required")", kWrong,
     "tool_choice: \"required\" is expected with functions in tools only"},
    {R"("tool_choice": {"type": "function", "name": "f"})", kWrong,
     "tool_choice.name: expected the name of one of the tools, got \"f\""},
    {R"("tool_choice": {"type": "web_search_preview"})", kUnserved,
     "tool_choice.type: a choice of type \"web_search_preview\" is not implemented"},
    {R"("tools": [{"type": "function", "name": "f"}],
         "tool_choice": {"type": "allowed_tools", "mode": "auto"})",
     kWrong, "tool_choice.tools: expected an array, got null"},
    {R"("tools": [{"type": "function", "name": "f"}],
         "tool_choice": {"type": "allowed_tools", "mode": "auto",
                         "tools": [{"type": "function", "name": "g"}]})",
     kWrong, "tool_choice.tools[0].name: expected the name of one of the tools, got \"g\""},
    {R"("tools": [{"type": "function", "name": "f"}],
         "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []})",
     kWrong, "tool_choice.tools: expected at least one of the functions in tools"},
};

TEST(ResponsesRequestErrorTest, WrongMembersAreNamed) {
  for (const BadMembers& bad : kBadMembers) {
    SCOPED_TRACE(bad.members);
    const std::string body = std::string(R"({"input": "x", )") + bad.members + "}";
    ExpectError(ParseResponsesRequest(body, {.max_context_tokens = 100}).status(), bad.code,
                bad.words);
  }
}

// Items of `input`.
constexpr BadMembers kBadItems[] = {
    {R"("hi")", kWrong, R"(input[0]: expected a JSON object, got "hi")"},
    {R"({})", kWrong, "input[0].type: expected a type of item, got none"},
    {R"({"type": 5})", kWrong, "input[0].type: expected a string, got 5"},
    {R"({"role": "user"})", kWrong,
     "input[0].content: expected a string or an array of parts, got none"},
    {R"({"role": "user", "content": 1})", kWrong,
     "input[0].content: expected a string or an array of parts, got 1"},
    {R"({"role": "robot", "content": "x"})", kWrong,
     R"(input[0].role: expected one of user, assistant, system, developer, got "robot")"},
    {R"({"type": "message", "content": "x"})", kWrong, "input[0].role: expected one of"},
    {R"({"role": "user", "content": [1]})", kWrong,
     "input[0].content[0]: expected a JSON object, got 1"},
    {R"({"role": "user", "content": [{"text": "x"}]})", kWrong,
     "input[0].content[0].type: expected a string, got none"},
    {R"({"role": "user", "content": [{"type": "input_text"}]})", kWrong,
     "input[0].content[0].text: expected a string, got none"},
    {R"({"role": "user", "content": [{"type": "input_text", "text": "a"},
                                     {"type": "input_image", "image_url": "u"}]})",
     kUnserved, R"(input[0].content[1].type: parts of type "input_image" are not implemented)"},
    {R"({"role": "user", "content": [{"type": "input_file", "file_id": "f"}]})", kUnserved,
     R"(input[0].content[0].type: parts of type "input_file" are not implemented)"},
    {R"({"type": "item_reference", "id": "msg_1"})", kUnserved,
     "input[0].type: no items are kept here"},
    {R"({"id": "msg_1"})", kUnserved, "input[0].type: no items are kept here"},
    {R"({"type": "web_search_call", "id": "ws_1"})", kUnserved,
     R"(input[0].type: items of type "web_search_call" are not implemented)"},
    {R"({"type": "function_call", "name": "f", "arguments": "{}"})", kWrong,
     "input[0].call_id: expected a string, got none"},
    {R"({"type": "function_call", "call_id": "a", "arguments": "{}"})", kWrong,
     "input[0].name: expected a string, got none"},
    {R"({"type": "function_call", "call_id": "a", "name": "f", "arguments": {}})", kWrong,
     "input[0].arguments: expected a string, got {}"},
    {R"({"type": "custom_tool_call", "call_id": "a", "name": "f"})", kWrong,
     "input[0].input: expected a string, got none"},
    {R"({"type": "function_call_output", "output": "x"})", kWrong,
     "input[0].call_id: expected a string, got none"},
    {R"({"type": "function_call_output", "call_id": "a"})", kWrong,
     "input[0].output: expected a string or an array of parts, got none"},
    {R"({"type": "custom_tool_call_output", "call_id": "a",
         "output": [{"type": "input_image"}]})",
     kUnserved, R"(input[0].output[0].type: parts of type "input_image" are not implemented)"},
    {R"({"type": "reasoning", "content": [{"type": "reasoning_text"}]})", kWrong,
     "input[0].content[0].text: expected a string, got none"},
};

TEST(ResponsesRequestErrorTest, WrongItemsAreNamed) {
  for (const BadMembers& bad : kBadItems) {
    SCOPED_TRACE(bad.members);
    ExpectError(ParseResponsesRequest(std::string(R"({"input": [)") + bad.members + "]}").status(),
                bad.code, bad.words);
  }
  ExpectError(
      ParseResponsesRequest(R"({"input": [{"role": "user", "content": "x"}, {}]})").status(),
      kWrong, "input[1].type: expected");
}

TEST(ResponsesRequestErrorTest, WrongBodiesAreNamed) {
  ExpectError(ParseResponsesRequest("[]").status(), kWrong, "body: expected a JSON object, got []");
  ExpectError(ParseResponsesRequest("{}").status(), kWrong,
              "input: expected a string or an array of items, got none");
  ExpectError(ParseResponsesRequest(R"({"input": {}})").status(), kWrong,
              "input: expected a string or an array of items, got {}");
  std::string tools;
  for (int i = 0; i < 1025; ++i) {
    tools += (i > 0 ? "," : "") + (R"({"type":"function","name":"f)" + std::to_string(i)) + "\"}";
  }
  ExpectError(ParseResponsesRequest(R"({"input": "x", "tools": [)" + tools + "]}").status(), kWrong,
              "tools: expected at most 1024 tools, got 1025");
}

// The JSON of an error that a later check made.
std::string ErrorBody(const absl::Status& status, int http_status) {
  std::string body;
  const HttpHead head =
      ResponsesDialect().WriteError(status, {.retry_after = absl::Seconds(1)}, body);
  EXPECT_EQ(head.status, http_status) << status;
  return body;
}

TEST(ResponsesRequestErrorTest, ErrorsHaveOpenAisFormAndTheBodysNames) {
  EXPECT_EQ(
      ErrorBody(ParseResponsesRequest(R"({"input": "x", "previous_response_id": "r"})").status(),
                404),
      R"({"error":{"message":"previous_response_id: no answers are kept here, so there is )"
      R"(no \"r\"; send the whole conversation in input","type":"invalid_request_error",)"
      R"("param":"previous_response_id","code":"previous_response_not_found"}})");
  EXPECT_EQ(ErrorBody(NotFound("model: expected \"tiny\""), 404),
            R"({"error":{"message":"model: expected \"tiny\"","type":"invalid_request_error",)"
            R"("param":"model","code":"model_not_found"}})");
  struct Case {
    const char* message;
    const char* param;
  };
  for (const Case& named :
       {Case{"stop.max_tokens: x", "max_output_tokens"}, Case{"sampling.top_p: x", "top_p"},
        Case{"sampling.json_schema: x", "text.format.schema"},
        Case{"sampling.json_object: x", "text.format"}, Case{"output.logprobs: x", "top_logprobs"},
        Case{"chat.tools_json: x", "tools"},
        Case{"chat.tools_json[2].function.name: x", "tools[2].function.name"},
        Case{"chat.tool_choice: x", "tool_choice"},
        Case{"chat.template_arguments_json: x", "chat_template_kwargs"},
        Case{"chat.messages: x", "input"}, Case{"chat.messages[3].role: x", "input"},
        Case{"chat: x", "input"}}) {
    const std::string body = ErrorBody(InvalidArgument("{}", named.message), 400);
    EXPECT_NE(body.find(std::string(R"("param":")") + named.param + "\""), std::string::npos)
        << body;
  }
  EXPECT_NE(ErrorBody(InvalidArgument("chat.messages[3].role: x"), 400)
                .find("\"input: chat.messages[3].role: x\""),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::router
