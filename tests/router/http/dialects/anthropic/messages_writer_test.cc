#include "router/http/dialects/anthropic/messages_writer.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/status.h"
#include "router/http/dialects/anthropic/messages_dialect.h"
#include "tests/router/http/dialects/anthropic/messages_writer_fixture.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using nlohmann::json;

constexpr char kStart[] =
    R"({"type":"message_start","message":{"id":"msg_r-1","type":"message","role":"assistant",)"
    R"("model":"tiny","content":[],"stop_reason":null,"stop_sequence":null,)"
    R"("usage":{"input_tokens":9,)"
    R"("cache_creation_input_tokens":0,"cache_read_input_tokens":16,"output_tokens":0}}})";

std::string BlockStart(int index, const std::string& block) {
  return R"({"type":"content_block_start","index":)" + std::to_string(index) +
         R"(,"content_block":)" + block + "}";
}
std::string Delta(int index, const std::string& delta) {
  return R"({"type":"content_block_delta","index":)" + std::to_string(index) + R"(,"delta":)" +
         delta + "}";
}
std::string BlockStop(int index) {
  return R"({"type":"content_block_stop","index":)" + std::to_string(index) + "}";
}
std::string TextDelta(int index, const std::string& text) {
  return Delta(index, R"({"type":"text_delta","text":")" + text + R"("})");
}
std::string PartialJson(int index, const std::string& text) {
  return Delta(index, R"({"type":"input_json_delta","partial_json":")" + text + R"("})");
}
std::string Stop(const std::string& reason, uint32_t num_tokens,
                 const std::string& sequence = "null", const std::string& more = "") {
  return R"({"type":"message_delta","delta":{"stop_reason":")" + reason + R"(","stop_sequence":)" +
         sequence + R"(},"usage":{"input_tokens":9,"cache_creation_input_tokens":0,)" +
         R"("cache_read_input_tokens":16,)" + R"("output_tokens":)" + std::to_string(num_tokens) +
         more + "}}";
}
constexpr char kTextBlock[] = R"({"type":"text","text":""})";
constexpr char kThinkingBlock[] = R"({"type":"thinking","thinking":"","signature":""})";
constexpr char kPing[] = R"({"type":"ping"})";
constexpr char kMessageStop[] = R"({"type":"message_stop"})";

std::string CallBlock(int index, const std::string& name) {
  return R"({"type":"tool_use","id":"call_)" + std::to_string(index) + R"(","name":")" + name +
         R"(","input":{}})";
}

// The whole stream, byte for byte.
void ExpectStream(const std::vector<std::string>& messages, const std::vector<std::string>& middle,
                  const std::string& stop) {
  std::vector<std::string> expected = {kStart, kPing};
  expected.insert(expected.end(), middle.begin(), middle.end());
  expected.push_back(stop);
  expected.emplace_back(kMessageStop);
  std::vector<std::string> all = {kPromptInfo};
  all.insert(all.end(), messages.begin(), messages.end());
  const std::string stream = Write(Responses(all), /*stream=*/true);
  EXPECT_EQ(Events(stream), expected);
  std::string bytes;
  for (const std::string& event : expected) {
    bytes +=
        "event: " + json::parse(event)["type"].get<std::string>() + "\ndata: " + event + "\n\n";
  }
  EXPECT_EQ(stream, bytes);
}

TEST(MessagesWriterTest, Text) {
  ExpectStream(
      {Text("Hel"), Text(""), Text("lo\\n\"\\303\\244"), Finish("STOP", 3)},
      {BlockStart(0, kTextBlock), TextDelta(0, "Hel"), TextDelta(0, "lo\\n\\\"ä"), BlockStop(0)},
      Stop("end_turn", 3));
}

TEST(MessagesWriterTest, ThinkingThenText) {
  ExpectStream(
      {Thought("Let"), "delta { token_ids: 1 reasoning: ' me.' text: 'Yes' }",
       Finish("STOP", 9, "reasoning_tokens: 4")},
      {BlockStart(0, kThinkingBlock), Delta(0, R"({"type":"thinking_delta","thinking":"Let"})"),
       Delta(0, R"({"type":"thinking_delta","thinking":" me."})"),
       Delta(0, R"({"type":"signature_delta","signature":""})"), BlockStop(0),
       BlockStart(1, kTextBlock), TextDelta(1, "Yes"), BlockStop(1)},
      Stop("end_turn", 9, "null", R"(,"output_tokens_details":{"thinking_tokens":4})"));
}

TEST(MessagesWriterTest, ACall) {
  ExpectStream({Text("I look."), CallBegin(0, "get"), Arguments(0, "{\"a\":"), Arguments(0, "1}"),
                Finish("TOOL_CALLS", 7)},
               {BlockStart(0, kTextBlock), TextDelta(0, "I look."), BlockStop(0),
                BlockStart(1, CallBlock(0, "get")), PartialJson(1, ""),
                PartialJson(1, "{\\\"a\\\":"), PartialJson(1, "1}"), BlockStop(1)},
               Stop("tool_use", 7));
}

TEST(MessagesWriterTest, SeveralCallsAndTextBetween) {
  // The first two calls come in one message, and the first has no arguments.
  ExpectStream(
      {"delta { token_ids: 1 tool_calls { index: 0 id: 'call_0' name: 'now' } "
       "tool_calls { index: 1 id: 'call_1' name: 'get' arguments: '{}' } }",
       Text("and"), CallBegin(2, "put"), Arguments(2, "{\"b\":[]}"), Finish("TOOL_CALLS", 4)},
      {BlockStart(0, CallBlock(0, "now")), PartialJson(0, ""), BlockStop(0),
       BlockStart(1, CallBlock(1, "get")), PartialJson(1, ""), PartialJson(1, "{}"), BlockStop(1),
       BlockStart(2, kTextBlock), TextDelta(2, "and"), BlockStop(2),
       BlockStart(3, CallBlock(2, "put")), PartialJson(3, ""), PartialJson(3, "{\\\"b\\\":[]}"),
       BlockStop(3)},
      Stop("tool_use", 4));
}

TEST(MessagesWriterTest, NoOutputAtAll) {
  ExpectStream({Text(""), Finish("STOP", 1)}, {}, Stop("end_turn", 1));
}

TEST(MessagesWriterTest, ReasonsToStop) {
  const MessageFrame any;
  const struct {
    const char* finish;
    uint64_t output_tokens;
    bool names_tool;
    size_t num_calls;
    const char* reason;
    const char* sequence;  // null: none
  } cases[] = {
      {"reason: FINISH_REASON_STOP", 5, false, 0, "end_turn", nullptr},
      {"reason: FINISH_REASON_STOP stop_token_id: 7", 5, false, 0, "end_turn", nullptr},
      {"reason: FINISH_REASON_STOP stop_string: 'END'", 5, false, 0, "stop_sequence", "END"},
      {"reason: FINISH_REASON_STOP stop_string: 'END'", 5, true, 1, "stop_sequence", "END"},
      {"reason: FINISH_REASON_LENGTH", 100, false, 0, "max_tokens", nullptr},
      {"reason: FINISH_REASON_LENGTH", 100, true, 1, "max_tokens", nullptr},
      {"reason: FINISH_REASON_LENGTH", 99, false, 0, "model_context_window_exceeded", nullptr},
      {"reason: FINISH_REASON_TOOL_CALLS", 5, false, 1, "tool_use", nullptr},
      {"reason: FINISH_REASON_STOP", 5, true, 1, "tool_use", nullptr},
      {"reason: FINISH_REASON_STOP", 5, true, 0, "end_turn", nullptr},
      {"reason: FINISH_REASON_STOP", 5, false, 1, "end_turn", nullptr},
      {"reason: FINISH_REASON_ABORT", 5, false, 0, "abort", nullptr},
  };
  for (const auto& test : cases) {
    v1::Finish finish;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(test.finish, &finish));
    MessageFrame frame = Frame();
    frame.names_tool = test.names_tool;
    const MessageStop stop = MessageStopOf(finish, frame, test.output_tokens, test.num_calls);
    EXPECT_EQ(stop.reason, test.reason) << test.finish;
    EXPECT_EQ(stop.sequence.value_or("none"), test.sequence == nullptr ? "none" : test.sequence);
  }
}

TEST(MessagesWriterTest, AStopSequenceIsNamed) {
  ExpectStream({Text("a"),
                "finish { reason: FINISH_REASON_STOP stop_string: '\\n\"' "
                "usage { completion_tokens: 2 } }"},
               {BlockStart(0, kTextBlock), TextDelta(0, "a"), BlockStop(0)},
               Stop("stop_sequence", 2, R"("\n\"")"));
}

TEST(MessagesWriterTest, AFailureInTheMiddleIsAnEventAndTheLastOne) {
  const auto writer = MakeMessageWriter(Frame(), /*stream=*/true);
  std::string out;
  writer->Add(0, Responses({kPromptInfo, Text("a")}), out);
  out.clear();
  writer->Fail(absl::UnavailableError("the worker is \"lost\""), out);
  EXPECT_EQ(out,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
            "\"message\":\"the worker is \\\"lost\\\"\"},\"request_id\":\"r-1\"}\n\n");
}

TEST(MessagesWriterTest, AWholeMessage) {
  const auto messages =
      Responses({kPromptInfo, Thought("Hm"), Text("I"), Text(" look."), CallBegin(0, "get"),
                 Arguments(0, "{\"z\": 1, "), Arguments(0, "\"a\": 2}"), CallBegin(1, "now"),
                 Finish("TOOL_CALLS", 8, "reasoning_tokens: 1")});
  EXPECT_EQ(
      Write(messages, /*stream=*/false),
      R"({"id":"msg_r-1","type":"message","role":"assistant","model":"tiny","content":[)"
      R"({"type":"thinking","thinking":"Hm","signature":""},{"type":"text","text":"I look."},)"
      R"({"type":"tool_use","id":"call_0","name":"get","input":{"z":1,"a":2}},)"
      R"({"type":"tool_use","id":"call_1","name":"now","input":{}}],"stop_reason":"tool_use",)"
      R"("stop_sequence":null,"usage":{"input_tokens":9,"cache_creation_input_tokens":0,)"
      R"("cache_read_input_tokens":16,"output_tokens":8,)"
      R"("output_tokens_details":{"thinking_tokens":1}}})");
  EXPECT_EQ(json::parse(Write(Responses({kPromptInfo, Finish("STOP", 1)}), false))["content"],
            json::array());
}

// The output ended in the arguments, so they are no JSON. The message is JSON all the same.
TEST(MessagesWriterTest, ArgumentsThatAreCutOffAreNoInput) {
  for (const std::string cut : {"{", "{\"a\":", "{\"a\":1", "[1]", "x", "{}}"}) {
    const json message = json::parse(Write(
        Responses({kPromptInfo, CallBegin(0, "get"), Arguments(0, cut), Finish("LENGTH", 100)}),
        /*stream=*/false));
    EXPECT_EQ(message["content"][0]["input"], json::object()) << cut;
    EXPECT_EQ(message["stop_reason"], "max_tokens");
  }
}

// The model ended the answer, so a client would run the call.
TEST(MessagesWriterTest, ABrokenCallIsLeftOutOfAnAnswerThatWasNotCut) {
  for (const std::string broken : {"{", "{\"a\":1", "[1]"}) {
    const json message = json::parse(Write(Responses({kPromptInfo, Text("x"), CallBegin(0, "get"),
                                                      Arguments(0, broken), Finish("STOP", 9)}),
                                           /*stream=*/false));
    ASSERT_EQ(message["content"].size(), 1u) << broken;
    EXPECT_EQ(message["content"][0]["type"], "text");
    EXPECT_EQ(message["stop_reason"], "end_turn");
  }
}

TEST(MessagesWriterTest, TokensAreCountedWithoutAUsage) {
  const json message =
      json::parse(Write(Responses({kPromptInfo, "delta { token_ids: [1, 2, 3] text: 'a' }",
                                   "finish { reason: FINISH_REASON_STOP }"}),
                        /*stream=*/false));
  EXPECT_EQ(message["usage"]["output_tokens"], 3);
}

TEST(MessagesWriterTest, OnlyAWholeMessageHoldsItsText) {
  const auto messages = Responses({kPromptInfo, Text(std::string(500, 'x')), CallBegin(0, "get"),
                                   Arguments(0, std::string(300, 'y'))});
  std::string out;
  const auto whole = MakeMessageWriter(Frame(), /*stream=*/false);
  whole->Add(0, messages, out);
  EXPECT_TRUE(out.empty());
  EXPECT_GE(whole->num_held_bytes(), 800u);
  EXPECT_LE(whole->num_held_bytes(), 1200u);
  const auto stream = MakeMessageWriter(Frame(), /*stream=*/true);
  stream->Add(0, messages, out);
  EXPECT_EQ(stream->num_held_bytes(), 0u);
}

TEST(MessagesWriterTest, TheDialectTakesTheFrameFromItsRequest) {
  auto request = MessagesDialect().ReadBody(
      R"({"max_tokens": 7, "messages": [{"role": "user", "content": "x"}]})", {});
  ASSERT_TRUE(request.ok()) << request.status();
  (*request)->SetRequestId("r-9");
  const auto writer = MessagesDialect().MakeWriter({.model = "tiny"}, **request);
  std::string out;
  writer->Add(0, Responses({kPromptInfo, Text("a"), Finish("LENGTH", 7)}), out);
  writer->Finish(out);
  const json message = json::parse(out);
  EXPECT_EQ(message["id"], "msg_r-9");
  EXPECT_EQ(message["model"], "tiny");
  EXPECT_EQ(message["stop_reason"], "max_tokens");
}

}  // namespace
}  // namespace lockstep::router
