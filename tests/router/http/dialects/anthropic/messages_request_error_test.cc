#include <gtest/gtest.h>

#include <string>

#include "tests/router/http/dialects/anthropic/messages_fixture.h"

namespace lockstep::router {
namespace {

void ExpectRefused(const std::string& body, absl::StatusCode code, const std::string& words) {
  SCOPED_TRACE(body);
  const absl::Status status = ParseMessagesRequest(body, {.max_context_tokens = 100}).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(Message(status), ::testing::StartsWith(words));
}

TEST(MessagesRequestErrorTest, WrongBodiesAreNamed) {
  const struct {
    const char* body;
    const char* words;
  } cases[] = {
      {"", "body: byte 0: "},
      {"[]", "body: expected a JSON object, got []"},
      {R"({"messages": [], "messages": []})", "body: key \"messages\" is present twice"},
      {R"({"messages": [{"role": "user", "content": "x"}]})",
       "max_tokens: expected an integer from 1 to 99, got none"},
      {R"({"max_tokens": 1})", "messages: expected at least 1 message, got none"},
      {R"({"max_tokens": 1, "messages": [], "system": "s"})",
       "messages: expected at least 1 message, got none"},
      {R"({"max_tokens": 1, "messages": {}})", "messages: expected an array, got {}"},
      {R"({"max_tokens": 0, "messages": []})",
       "max_tokens: expected an integer from 1 to 99, got 0"},
      {R"({"max_tokens": "1", "messages": []})", "max_tokens: expected an integer"},
  };
  for (const auto& [body, words] : cases) {
    ExpectRefused(body, absl::StatusCode::kInvalidArgument, words);
  }
}

TEST(MessagesRequestErrorTest, WrongMessagesAreNamed) {
  const struct {
    const char* messages;
    const char* words;
  } cases[] = {
      {R"(["hi"])", R"(messages[0]: expected a JSON object, got "hi")"},
      {R"([{"content": "x"}])", "messages[0].role: expected a string, got none"},
      {R"([{"role": "tool", "content": "x"}])",
       R"(messages[0].role: expected user, assistant or system, got "tool")"},
      {R"([{"role": "user"}])",
       "messages[0].content: expected a string or an array of blocks, got"},
      {R"([{"role": "user", "content": 5}])", "messages[0].content: expected a string or an array"},
      {R"([{"role": "user", "content": "x"}, {"role": "user", "content": ["x"]}])",
       R"(messages[1].content[0]: expected a JSON object, got "x")"},
      {R"([{"role": "user", "content": [{"text": "x"}]}])",
       "messages[0].content[0].type: expected a string, got none"},
      {R"([{"role": "user", "content": [{"type": "text"}]}])",
       "messages[0].content[0].text: expected a string, got none"},
      {R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "tool_use"}]}])",
       "messages[0].content[1].type: expected a block that messages of role user have, got "
       "\"tool_use\""},
      {R"([{"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "1"}]}])",
       "messages[0].content[0].type: expected a block that messages of role assistant have"},
      {R"([{"role": "user", "content": [{"type": "tool_result"}]}])",
       "messages[0].content[0].tool_use_id: expected a string, got none"},
      {R"([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [
            {"type": "text", "text": 1}]}]}])",
       "messages[0].content[0].content[0].text: expected a string, got 1"},
      {R"([{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "1", "is_error": 1}]}])",
       "messages[0].content[0].is_error: expected true or false, got 1"},
      {R"([{"role": "assistant", "content": [{"type": "tool_use", "name": "f", "input": {}}]}])",
       "messages[0].content[0].id: expected a string, got none"},
      {R"([{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "input": {}}]}])",
       "messages[0].content[0].name: expected a string, got none"},
      {R"([{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f",
            "input": [1]}]}])",
       "messages[0].content[0].input: expected an object, got [1]"},
      {R"([{"role": "assistant", "content": [{"type": "thinking"}]}])",
       "messages[0].content[0].thinking: expected a string, got none"},
      {R"([{"role": "user", "content": "x"}, {"role": "assistant", "content": [
            {"type": "tool_use", "id": "1", "name": "f", "input": {}}]}])",
       "messages: expected the results of the last message's tool_use blocks"},
  };
  for (const auto& [messages, words] : cases) {
    ExpectRefused(MessagesBody("", messages), absl::StatusCode::kInvalidArgument, words);
  }
}

TEST(MessagesRequestErrorTest, BlocksThatAreNotServedAreNamed) {
  const struct {
    const char* messages;
    const char* words;
  } cases[] = {
      {R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image",
            "source": {"type": "base64", "data": ""}}]}])",
       R"(messages[0].content[1].type: blocks of type "image" are not implemented)"},
      {R"([{"role": "user", "content": [{"type": "document"}]}])",
       R"(messages[0].content[0].type: blocks of type "document" are not implemented)"},
      {R"([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [
            {"type": "image"}]}]}])",
       R"(messages[0].content[0].content[0].type: blocks of type "image" are not implemented)"},
      {R"([{"role": "assistant", "content": [{"type": "server_tool_use"}]}])",
       R"(messages[0].content[0].type: blocks of type "server_tool_use" are not implemented)"},
      {R"([{"role": "system", "content": [{"type": "image"}]}])",
       R"(messages[0].content[0].type: blocks of type "image" are not implemented)"},
  };
  for (const auto& [messages, words] : cases) {
    ExpectRefused(MessagesBody("", messages), absl::StatusCode::kUnimplemented, words);
  }
  ExpectRefused(MessagesBody(R"("system": [{"type": "text", "text": ""}, {"type": "image"}])"),
                absl::StatusCode::kUnimplemented, "system[1].type: blocks of type \"image\"");
}

TEST(MessagesRequestErrorTest, WrongFieldsAreNamed) {
  const struct {
    const char* fields;
    const char* words;
  } cases[] = {
      {R"("system": 1)", "system: expected a string or an array of blocks, got 1"},
      {R"("system": ["a"])", R"(system[0]: expected a JSON object, got "a")"},
      {R"("system": [{"type": "text", "text": "x-anthropic-billing-header: 1"}, {"type": "text"}])",
       "system[1].text: expected a string, got none"},
      {R"("stream": "yes")", "stream: expected true or false"},
      {R"("temperature": "hot")", "temperature: expected a number"},
      {R"("top_p": true)", "top_p: expected a number"},
      {R"("top_k": 1.5)", "top_k: expected an integer"},
      {R"("stop_sequences": "x")", "stop_sequences: expected an array of strings, got \"x\""},
      {R"("stop_sequences": ["x", 2])", "stop_sequences[1]: expected a string, got 2"},
      {R"("tools": {})", "tools: expected an array, got {}"},
      {R"("tools": [1])", "tools[0]: expected a JSON object, got 1"},
      {R"("tools": [{"input_schema": {}}])", "tools[0].name: expected a name, got none"},
      {R"("tools": [{"name": "a b", "input_schema": {}}])", "tools[0].name: expected"},
      {R"("tools": [{"type": "web_search_20250305"}, {"name": "a:b", "input_schema": {}}])",
       R"(tools[1].name: expected 1 to 128 characters of [a-zA-Z0-9_.-], got "a:b")"},
      {R"("tools": [{"name": "a"}])", "tools[0].input_schema: expected an object, got none"},
      {R"("tools": [{"name": "a", "input_schema": "x"}])",
       R"(tools[0].input_schema: expected an object, got "x")"},
      {R"("tools": [{"name": "a", "input_schema": {}}, {"name": "a", "input_schema": {}}])",
       R"(tools[1].name: expected a name of its own, got "a" again)"},
      {R"("tools": [{"name": "a", "input_schema": {}, "description": 1}])",
       "tools[0].description: expected a string, got 1"},
      {R"("tools": [{"type": 1}])", "tools[0].type: expected a string, got 1"},
      {R"("tool_choice": {"type": "any"})", "tool_choice: expected with tools only"},
      {R"("tools": [{"name": "a", "input_schema": {}}], "tool_choice": "auto")",
       R"(tool_choice: expected a JSON object, got "auto")"},
      {R"("tools": [{"name": "a", "input_schema": {}}], "tool_choice": {"type": "all"})",
       R"(tool_choice.type: expected auto, any, tool or none, got "all")"},
      {R"("tools": [{"name": "a", "input_schema": {}}], "tool_choice": {"type": "tool"})",
       "tool_choice.name: expected the name of a tool, got none"},
      {R"("tools": [{"name": "a", "input_schema": {}}],
          "tool_choice": {"type": "tool", "name": "b"})",
       R"(tool_choice.name: expected the name of a tool, got "b")"},
      {R"("thinking": {"type": "on"})",
       R"(thinking.type: expected enabled, disabled or adaptive, got "on")"},
      {R"("thinking": true)", "thinking: expected a JSON object, got true"},
      {R"("output_config": {"effort": 1})", "output_config.effort: expected a string, got 1"},
      {R"("output_config": {"format": {"type": "text"}})",
       R"(output_config.format.type: expected json_schema, got "text")"},
      {R"("output_config": {"format": {"type": "json_schema"}})",
       "output_config.format.schema: expected an object, got none"},
      {R"("output_format": {"type": "json_schema", "schema": 1})",
       "output_format.schema: expected an object, got 1"},
  };
  for (const auto& [fields, words] : cases) {
    ExpectRefused(MessagesBody(fields), absl::StatusCode::kInvalidArgument, words);
  }
}

// Before any other error, as the rest of such a body makes no sense by itself.
TEST(MessagesRequestErrorTest, NoThreadCanBeContinued) {
  const std::string thread = R"("thread": {"type": "continue", "previous_message_id": "msg_1"})";
  const std::string words = R"(thread.previous_message_id: no messages are kept here, so there is )"
                            R"(no "msg_1"; send the whole conversation in messages)";
  ExpectRefused(MessagesBody(thread), absl::StatusCode::kNotFound, words);
  ExpectRefused(MessagesBody(thread + R"(, "tool_choice": {"type": "tool", "name": "f"})", "[]"),
                absl::StatusCode::kNotFound, words);
  EXPECT_EQ(ParseCountTokensRequest(MessagesBody(thread), {}).status().code(),
            absl::StatusCode::kNotFound);
  ExpectRefused(MessagesBody(R"("thread": {"type": "fork"})"), absl::StatusCode::kInvalidArgument,
                R"(thread.type: expected create or continue, got "fork")");
  ExpectRefused(MessagesBody(R"("thread": true)"), absl::StatusCode::kInvalidArgument,
                "thread: expected a JSON object, got true");
}

TEST(MessagesRequestErrorTest, ReadingIsMetered) {
  const std::string body = MessagesBody("\"system\": \"" + std::string(1 << 20, 'x') + "\"");
  const BodyReading reading{.meter = [](size_t) { return false; }};
  EXPECT_EQ(ParseMessagesRequest(body, reading).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ParseCountTokensRequest(body, reading).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace lockstep::router
