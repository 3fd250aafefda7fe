#include "router/http/dialects/responses/input_items.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/router/http/dialects/responses/responses_fixture.h"

namespace lockstep::router {
namespace {

void ExpectInput(const std::string& items, const std::string& expected) {
  SCOPED_TRACE(items);
  ExpectChat(ChatOfResponse(R"("input": [)" + items + "]"), expected);
}

TEST(InputItemsTest, AStringIsAUsersMessage) {
  ExpectChat(ChatOfResponse(R"("input": "Hi")"), "messages { role: 'user' content: 'Hi' }");
  ExpectChat(ChatOfResponse(R"("input": "Hi", "instructions": "Be kind.")"),
             "messages { role: 'system' content: 'Be kind.' } "
             "messages { role: 'user' content: 'Hi' }");
}

TEST(InputItemsTest, MessagesMayHaveATypeAndParts) {
  ExpectInput(R"({"role": "user", "content": "a"},
                 {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
                  "phase": "final_answer",
                  "content": [{"type": "output_text", "text": "b", "annotations": [],
                               "logprobs": []},
                              {"type": "refusal", "refusal": "c"}]},
                 {"role": "user", "content": [{"type": "input_text", "text": "d"},
                                              {"type": "text", "text": ""}]})",
              "messages { role: 'user' content: 'a' } "
              "messages { role: 'assistant' content: 'b\\nc' } "
              "messages { role: 'user' content: 'd\\n' }");
}

TEST(InputItemsTest, SystemMessagesAtTheBeginningBecomeOne) {
  ExpectChat(ChatOfResponse(R"("instructions": "one", "input": [
      {"role": "developer", "content": "two"}, {"role": "system", "content": "three"},
      {"role": "user", "content": "u"}, {"role": "developer", "content": "four"},
      {"role": "developer", "content": "five"}])"),
             "messages { role: 'system' content: 'one\\n\\ntwo\\n\\nthree' } "
             "messages { role: 'user' content: 'u' } "
             "messages { role: 'system' content: 'four' } "
             "messages { role: 'system' content: 'five' }");
}

constexpr char kCallA[] =
    R"({"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f",
        "arguments": "{\"x\": 1}",
        "status": "completed"})";
constexpr char kCallB[] =
    R"({"type": "function_call", "call_id": "b", "name": "g", "arguments": "{}"})";
constexpr char kOutputA[] = R"({"type": "function_call_output", "call_id": "a", "output": "1"})";
constexpr char kOutputB[] =
    R"({"type": "function_call_output", "id": "o", "call_id": "b", "output":
        [{"type": "input_text", "text": "2"}, {"type": "input_text", "text": "3"}]})";
constexpr char kJsonA[] =
    R"({"id":"a","type":"function","function":{"name":"f","arguments":"{\\"x\\": 1}"}})";
constexpr char kJsonB[] =
    R"({"id":"b","type":"function","function":{"name":"g","arguments":"{}"}})";

TEST(InputItemsTest, ParallelCallsAreInOneMessageWithTheTextBeforeThem) {
  ExpectInput(std::string(R"({"role": "user", "content": "q"},
                             {"role": "assistant", "content": "wait"},)") +
                  kCallA + "," + kCallB + "," + kOutputA + "," + kOutputB,
              std::string("messages { role: 'user' content: 'q' } "
                          "messages { role: 'assistant' content: 'wait' tool_calls_json: '[") +
                  kJsonA + "," + kJsonB +
                  "]' } messages { role: 'tool' tool_call_id: 'a' content: '1' } "
                  "messages { role: 'tool' tool_call_id: 'b' content: '2\\n3' }");
}

TEST(InputItemsTest, CallsAfterAResultAreAnotherMessage) {
  ExpectInput(std::string(kCallA) + "," + kOutputA + "," + kCallB + "," + kOutputB,
              std::string("messages { role: 'assistant' tool_calls_json: '[") + kJsonA +
                  "]' } messages { role: 'tool' tool_call_id: 'a' content: '1' } "
                  "messages { role: 'assistant' tool_calls_json: '[" +
                  kJsonB + "]' } messages { role: 'tool' tool_call_id: 'b' content: '2\\n3' }");
}

TEST(InputItemsTest, TextAfterACallStaysInItsMessage) {
  ExpectInput(std::string(R"({"role": "assistant", "content": "x"},)") + kCallB +
                  R"(,{"role": "assistant", "content": "y"},)" + kOutputB,
              std::string("messages { role: 'assistant' content: 'x\\ny' tool_calls_json: '[") +
                  kJsonB + "]' } messages { role: 'tool' tool_call_id: 'b' content: '2\\n3' }");
  // Without a call they are two messages.
  ExpectInput(R"({"role": "assistant", "content": "x"}, {"role": "assistant", "content": "y"})",
              "messages { role: 'assistant' content: 'x' } "
              "messages { role: 'assistant' content: 'y' }");
}

std::string ReasoningItem(const std::string& text) {
  return R"({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "s"}],
             "encrypted_content": "opaque", "status": "completed",
             "content": [{"type": "reasoning_text", "text": ")" +
         text + R"("}]})";
}

TEST(InputItemsTest, ReasoningBelongsToTheNextAssistantMessage) {
  ExpectInput(ReasoningItem("hm") + R"(,{"role": "assistant", "content": "x"})",
              "messages { role: 'assistant' reasoning: 'hm' content: 'x' }");
  ExpectInput(ReasoningItem("hm") + "," + kCallB,
              std::string("messages { role: 'assistant' reasoning: 'hm' tool_calls_json: '[") +
                  kJsonB + "]' }");
  ExpectInput(ReasoningItem("one") + "," + ReasoningItem("two") +
                  R"(,{"role": "assistant", "content": "x"},)" + kCallB,
              std::string("messages { role: 'assistant' reasoning: 'one\\ntwo' content: 'x' "
                          "tool_calls_json: '[") +
                  kJsonB + "]' }");
}

TEST(InputItemsTest, ReasoningBetweenParallelCallsStaysInTheirMessage) {
  ExpectInput(
      ReasoningItem("one") + "," + kCallA + "," + ReasoningItem("two") + "," + kCallB,
      std::string("messages { role: 'assistant' reasoning: 'one\\ntwo' tool_calls_json: '[") +
          kJsonA + "," + kJsonB + "]' }");
}

TEST(InputItemsTest, ReasoningAfterTextBeginsAnotherMessage) {
  ExpectInput(R"({"role": "assistant", "content": "x"},)" + ReasoningItem("hm") + "," + kCallB,
              std::string("messages { role: 'assistant' content: 'x' } "
                          "messages { role: 'assistant' reasoning: 'hm' tool_calls_json: '[") +
                  kJsonB + "]' }");
}

TEST(InputItemsTest, ReasoningWithoutAnAnswerIsNotLost) {
  for (const std::string next :
       {R"({"role": "user", "content": "u"})", R"({"role": "developer", "content": "u"})"}) {
    const std::string role = next.find("developer") == std::string::npos ? "user" : "system";
    ExpectInput(ReasoningItem("hm") + "," + next,
                "messages { role: 'assistant' reasoning: 'hm' } messages { role: '" + role +
                    "' content: 'u' }");
  }
  ExpectInput(ReasoningItem("hm"), "messages { role: 'assistant' reasoning: 'hm' }");
}

TEST(InputItemsTest, ReasoningThatOnlyItsMakerCanReadIsIgnored) {
  ExpectInput(R"({"type": "reasoning", "summary": [], "encrypted_content": null},
                 {"role": "user", "content": "u"})",
              "messages { role: 'user' content: 'u' }");
}

TEST(InputItemsTest, ACustomCallIsACallWithOneArgument) {
  ExpectInput(
      R"({"type": "custom_tool_call", "id": "ctc_1", "call_id": "a", "name": "patch",
          "input": "say \"hi\"\n"},
         {"type": "custom_tool_call_output", "call_id": "a", "output": "done"})",
      R"(messages { role: "assistant" tool_calls_json: "[{\"id\":\"a\",\"type\":\"function\",)"
      R"(\"function\":{\"name\":\"patch\",\"arguments\":)"
      R"(\"{\\\"input\\\":\\\"say \\\\\\\"hi\\\\\\\"\\\\n\\\"}\"}}]" })"
      R"(messages { role: "tool" tool_call_id: "a" content: "done" })");
}

TEST(InputItemsTest, ACallOfANamespaceHasTheNameThatTheModelKnows) {
  ExpectInput(R"({"type": "function_call", "call_id": "a", "namespace": "mcp__files__",
                  "name": "read", "arguments": "{}"})",
              R"(messages { role: 'assistant' tool_calls_json: '[{"id":"a","type":"function",)"
              R"("function":{"name":"mcp__files__read","arguments":"{}"}}]' })");
  EXPECT_EQ(FlatToolName("", "read"), "read");
  EXPECT_EQ(FlatToolName("files", "read"), "files__read");
  EXPECT_EQ(FlatToolName("files__", "read"), "files__read");
}

}  // namespace
}  // namespace lockstep::router
