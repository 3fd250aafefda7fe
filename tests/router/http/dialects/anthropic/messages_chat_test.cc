#include <gtest/gtest.h>

#include <string>

#include "tests/router/http/dialects/anthropic/messages_fixture.h"

// From `system`, `messages`, `tools` and `tool_choice` to a chat.
namespace lockstep::router {
namespace {

const lockstep::v1::ChatPrompt& ChatOf(const MessagesRequest& request) {
  return request.prompts.at(0).chat();
}

void ExpectMessages(const std::string& messages, const std::string& expected) {
  SCOPED_TRACE(messages);
  ExpectChat(ChatOf(ParseGood(MessagesBody("", messages))), expected);
}

TEST(MessagesChatTest, TextsAndBlocksOfText) {
  ExpectMessages(R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"},
                     {"role":"user","content":[{"type":"text","text":"c"},{"type":"text","text":""},
                       {"type":"text","text":"d","cache_control":{"type":"ephemeral"},
                        "citations":null}]}])",
                 R"pb(messages { role: "user" content: "a" }
                      messages { role: "assistant" content: "b" }
                      messages { role: "user" content: "c\nd" })pb");
  ExpectMessages(R"([{"role":"user","content":[]}])", R"pb(messages { role: "user" })pb");
}

TEST(MessagesChatTest, NeighboursOfARoleAreOneMessage) {
  ExpectMessages(R"([{"role":"user","content":"a"},{"role":"user","content":"b"},
                     {"role":"assistant","content":"c"},
                     {"role":"assistant","content":[{"type":"text","text":"d"}]},
                     {"role":"user","content":"e"}])",
                 R"pb(messages { role: "user" content: "a\nb" }
                      messages { role: "assistant" content: "c\nd" }
                      messages { role: "user" content: "e" })pb");
}

TEST(MessagesChatTest, SystemIsTheFirstMessage) {
  const auto expect = [](const std::string& system, const std::string& messages,
                         const std::string& expected) {
    SCOPED_TRACE(system);
    ExpectChat(ChatOf(ParseGood(MessagesBody("\"system\": " + system, messages))), expected);
  };
  const std::string user = R"([{"role":"user","content":"a"}])";
  const std::string only_user = R"pb(messages { role: "user" content: "a" })pb";
  const std::string both = R"pb(messages { role: "system" content: "s\nt" })pb" + only_user;
  expect(R"("s\nt")", user, both);
  expect(R"([{"type":"text","text":"s"},{"type":"text","text":"t"}])", user, both);
  expect(R"("s")", R"([{"role":"system","content":"t"},{"role":"user","content":"a"}])", both);
  expect("null", user, only_user);
  expect("[]", user, only_user);
  expect(R"("")", user, only_user);
  expect(R"("s")", R"([{"role":"user","content":"a"},{"role":"system","content":"t"},
                       {"role":"user","content":"b"}])",
         R"pb(messages { role: "system" content: "s" }
              messages { role: "user" content: "a" }
              messages { role: "system" content: "t" }
              messages { role: "user" content: "b" })pb");
}

// Otherwise two requests of Claude Code would have no common beginning.
TEST(MessagesChatTest, TheBillingBlockIsLeftOut) {
  const std::string billing =
      R"({"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cch=9f3a1;"})";
  const std::string text = R"({"type":"text","text":"You are a tool."})";
  const auto system = [](const std::string& blocks) {
    return ChatOf(ParseGood(MessagesBody("\"system\": [" + blocks + "]"))).DebugString();
  };
  EXPECT_EQ(system(billing + "," + text), system(text));
  EXPECT_EQ(system(billing).find("billing"), std::string::npos);
  EXPECT_NE(system(text + "," + billing).find("billing"), std::string::npos)
      << "only the first block is the one that changes";
}

TEST(MessagesChatTest, CallsAndTheirResults) {
  ExpectMessages(
      R"([{"role":"user","content":"Weather?"},
          {"role":"assistant","content":[
            {"type":"thinking","thinking":"I need it.","signature":"xyz"},
            {"type":"redacted_thinking","data":"aaaa"},
            {"type":"text","text":"Let me look."},
            {"type":"tool_use","id":"toolu_1","name":"get","input":{ "z": 1, "a": [ "x y", 1.50 ]},
             "caller":{"type":"direct"}},
            {"type":"tool_use","id":"toolu_2","name":"now","input":{}}]},
          {"role":"user","content":[
            {"type":"text","text":"And quick."},
            {"type":"tool_result","tool_use_id":"toolu_1","content":"rain"},
            {"type":"tool_result","tool_use_id":"toolu_2","is_error":true,
             "content":[{"type":"text","text":"no"},{"type":"text","text":"clock"}]}]}])",
      R"pb(messages { role: "user" content: "Weather?" }
           messages {
             role: "assistant"
             content: "Let me look."
             reasoning: "I need it."
             tool_calls_json: '[{"id":"toolu_1","type":"function","function":{"name":"get",'
                              '"arguments":"{\\"z\\":1,\\"a\\":[\\"x y\\",1.50]}"}},'
                              '{"id":"toolu_2","type":"function","function":{"name":"now",'
                              '"arguments":"{}"}}]'
           }
           messages { role: "tool" tool_call_id: "toolu_1" content: "rain" }
           messages { role: "tool" tool_call_id: "toolu_2" content: "no\nclock" }
           messages { role: "user" content: "And quick." })pb");
}

TEST(MessagesChatTest, AResultMayBeEmptyAndAloneInItsMessage) {
  ExpectMessages(
      R"([{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f"}]},
          {"role":"assistant","content":[{"type":"tool_use","id":"2","name":"g"}]},
          {"role":"user","content":[{"type":"tool_result","tool_use_id":"1"}]},
          {"role":"user","content":[{"type":"tool_result","tool_use_id":"2","content":[]}]}])",
      R"pb(messages {
             role: "assistant"
             tool_calls_json: '[{"id":"1","type":"function","function":{"name":"f",'
                              '"arguments":"{}"}},{"id":"2","type":"function","function":'
                              '{"name":"g","arguments":"{}"}}]'
           }
           messages { role: "tool" tool_call_id: "1" }
           messages { role: "tool" tool_call_id: "2" })pb");
}

TEST(MessagesChatTest, AnAssistantsLastMessageIsContinued) {
  ExpectMessages(
      R"([{"role":"user","content":"a"},{"role":"assistant","content":"The answer is ("}])",
      R"pb(messages { role: "user" content: "a" }
           messages { role: "assistant" content: "The answer is (" }
           continue_final_message: true)pb");
}

TEST(MessagesChatTest, ToolsKeepTheOrderOfTheirKeys) {
  const MessagesRequest request = ParseGood(MessagesBody(R"("tools": [
    {"name": "get", "description": "Gets \"it\".", "strict": true,
     "input_schema": {"type": "object", "properties": {
                      "z": {"maxLength": 9007199254740993, "type": "string"},
                      "a": {}}, "additionalProperties": false},
     "cache_control": {"type": "ephemeral"}, "eager_input_streaming": true, "defer_loading": false},
    {"type": "custom", "name": "now", "input_schema": {}}])"));
  EXPECT_EQ(
      ChatOf(request).tools_json(),
      R"([{"type":"function","function":{"name":"get","description":"Gets \"it\".","strict":true,)"
      R"("parameters":{"type":"object","properties":{"z":{"maxLength":9007199254740993,)"
      R"("type":"string"},)"
      R"("a":{}},"additionalProperties":false}}},)"
      R"({"type":"function","function":{"name":"now","parameters":{}}}])");
  EXPECT_FALSE(ChatOf(request).has_tool_choice());
  EXPECT_EQ(request.ignored_fields, "");
}

TEST(MessagesChatTest, ToolsOfAnthropicsServersAreLeftOutByName) {
  const MessagesRequest request = ParseGood(MessagesBody(
      R"("tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
                   {"name": "now", "input_schema": {}},
                   {"type": "bash_20250124", "name": "bash"}])"));
  EXPECT_EQ(ChatOf(request).tools_json(),
            R"([{"type":"function","function":{"name":"now","parameters":{}}}])");
  EXPECT_EQ(request.ignored_fields, "tools[0].web_search_20250305, tools[2].bash_20250124");
  const MessagesRequest none =
      ParseGood(MessagesBody(R"("tools": [{"type": "bash_20250124", "name": "bash"}],
                                "tool_choice": {"type": "auto"})"));
  EXPECT_EQ(ChatOf(none).tools_json(), "");
  EXPECT_FALSE(ChatOf(none).has_tool_choice());
}

TEST(MessagesChatTest, ChoicesOfTools) {
  const struct {
    const char* choice;
    const char* expected;
  } cases[] = {
      {R"({"type": "auto"})", "mode: AUTO"},
      {R"({"type": "auto", "disable_parallel_tool_use": true})", "mode: AUTO single: true"},
      {R"({"type": "any", "disable_parallel_tool_use": false})", "mode: REQUIRED"},
      {R"({"type": "tool", "name": "f"})", "mode: REQUIRED function: 'f'"},
      {R"({"type": "none"})", "mode: NONE"},
  };
  for (const auto& [choice, expected] : cases) {
    SCOPED_TRACE(choice);
    const MessagesRequest request = ParseGood(MessagesBody(
        R"("tools": [{"name": "f", "input_schema": {}}], "tool_choice": )" + std::string(choice)));
    lockstep::v1::ToolChoice wanted;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(expected, &wanted));
    EXPECT_EQ(ChatOf(request).tool_choice().DebugString(), wanted.DebugString());
    EXPECT_EQ(request.names_tool, std::string(expected).find("function") != std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::router
