#include "router/serving/prompts/tool_calls_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/status.h"

namespace lockstep::router {
namespace {

struct CallsCase {
  const char* json;
  const char* expected;
};

TEST(ToolCallsJsonTest, ArgumentsBecomeObjects) {
  const CallsCase cases[] = {
      {R"([{"id": "c1", "type": "function",
           "function": {"name": "f", "arguments": "{\"b\":1, \"a\": 2}"}}])",
       R"([{"id":"c1","type":"function","function":{"name":"f","arguments":{"b":1,"a":2}}}])"},
      {R"([{"function": {"arguments": "{}", "name": "f"}, "index": 0}])",
       R"([{"type":"function","function":{"name":"f","arguments":{}}}])"},
      {R"([{"function": {"name": "f", "arguments": ""}}, {"function": {"name": "g"}}])",
       R"([{"type":"function","function":{"name":"f","arguments":{}}},)"
       R"({"type":"function","function":{"name":"g","arguments":{}}}])"},
      // No object: the text stays.
      {R"([{"function": {"name": "f", "arguments": "[1]"}}])",
       R"([{"type":"function","function":{"name":"f","arguments":"[1]"}}])"},
      {R"([{"function": {"name": "f", "arguments": "{\"a\""}}])",
       R"([{"type":"function","function":{"name":"f","arguments":"{\"a\""}}])"},
      {R"([{"function": {"name": "f", "arguments": "{\"a\": 1, \"a\": 2}"}}])",
       R"([{"type":"function","function":{"name":"f","arguments":"{\"a\": 1, \"a\": 2}"}}])"},
      {R"([{"function": {"name": "f\"\u00e9", "arguments": "{\"a\": \"\\n\\\"\"}"}}])",
       R"([{"type":"function","function":{"name":"f\"é","arguments":{"a":"\n\""}}}])"},
  };
  for (const CallsCase& entry : cases) {
    SCOPED_TRACE(entry.json);
    const absl::StatusOr<std::string> calls = ToolCallsForTemplate(entry.json, "calls");
    ASSERT_TRUE(calls.ok()) << calls.status();
    EXPECT_EQ(*calls, entry.expected);
  }
}

TEST(ToolCallsJsonTest, WhatIsNoCallIsNamed) {
  const CallsCase cases[] = {
      {"", "calls: "},
      {"[", "calls: byte 1: "},
      {"{}", "calls: expected an array of calls, got {}"},
      {"[]", "calls: expected an array of calls, got []"},
      {"[1]", "calls[0]: expected an object, got 1"},
      {R"([{"type": "function"}])", "calls[0].function: expected an object"},
      {R"([{"function": {}}])",
       "calls[0].function.name: expected the name of a function, got none"},
      {R"([{"function": {"name": 5}}])", "calls[0].function.name: expected a string, got 5"},
      {R"([{"function": {"name": "f"}}, {"function": {"name": "f", "arguments": {}}}])",
       "calls[1].function.arguments: expected a string, got {}"},
      {R"([{"id": 7, "function": {"name": "f"}}])", "calls[0].id: expected a string, got 7"},
      {R"([{"type": "custom", "function": {"name": "f"}}])",
       "calls[0].type: only calls of functions are implemented, got \"custom\""},
  };
  for (const CallsCase& entry : cases) {
    SCOPED_TRACE(entry.json);
    EXPECT_THAT(Message(ToolCallsForTemplate(entry.json, "calls").status()),
                ::testing::StartsWith(entry.expected));
  }
}

TEST(ToolCallsJsonTest, TheirNumberAndDepthAreBounded) {
  std::string many = R"([{"function":{"name":"f"}})";
  for (size_t i = 0; i < kMaxToolCallsPerMessage; ++i) many += R"(,{"function":{"name":"f"}})";
  EXPECT_THAT(Message(ToolCallsForTemplate(many + "]", "calls").status()),
              ::testing::StartsWith("calls: expected at most 1024 calls, got 1025"));
  // Arguments that nest too deeply stay a text.
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  const auto calls = ToolCallsForTemplate(
      R"([{"function":{"name":"f","arguments":"{\"a\":)" + deep + R"(}"}}])", "calls");
  ASSERT_TRUE(calls.ok()) << calls.status();
  EXPECT_THAT(*calls, ::testing::HasSubstr(R"("arguments":"{)"));
}

}  // namespace
}  // namespace lockstep::router
