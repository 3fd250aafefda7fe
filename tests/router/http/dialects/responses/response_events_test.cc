#include "router/http/dialects/responses/response_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/router/http/dialects/responses/responses_fixture.h"

namespace lockstep::router {
namespace {

constexpr char kTools[] =
    R"("tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "patch"},
                 {"type": "namespace", "name": "n",
                  "tools": [{"type": "function", "name": "g"}]}])";

// Streams, byte for byte. `Event` numbers the expected events.
class ResponseEventsTest : public ResponseWriterTest {
 protected:
  std::string Event(const std::string& type, const std::string& members) {
    return "event: response." + type + "\ndata: {\"type\":\"response." + type +
           "\",\"sequence_number\":" + std::to_string(num_events_++) + "," + members + "}\n\n";
  }
  std::string ResponseEvent(const std::string& type, const std::string& response) {
    return Event(type, "\"response\":" + response);
  }
  std::string Begin() {
    const std::string response = Response("in_progress", "", "null");
    const std::string created = ResponseEvent("created", response);
    return created + ResponseEvent("in_progress", response);
  }
  std::string Completed(const std::string& items) {
    return ResponseEvent("completed", Response("completed", items, kUsageJson, "9"));
  }
  std::string Incomplete(const std::string& items) {
    return ResponseEvent("incomplete", Response("incomplete", items, kUsageJson, "9", "null",
                                                R"({"reason":"max_output_tokens"})"));
  }
  static std::string Index(int output_index) {
    return "\"output_index\":" + std::to_string(output_index);
  }
  std::string Added(int index, const std::string& item) {
    return Event("output_item.added", Index(index) + ",\"item\":" + item);
  }
  std::string ItemDone(int index, const std::string& item) {
    return Event("output_item.done", Index(index) + ",\"item\":" + item);
  }

  // --- text and reasoning ---
  static std::string Part(const std::string& kind, const std::string& text) {
    if (kind == "rs") return R"({"type":"reasoning_text","text":")" + text + "\"}";
    return R"({"type":"output_text","annotations":[],"logprobs":[],"text":")" + text + "\"}";
  }
  // `text` null: the item is open and has no content yet.
  static std::string TextItem(const std::string& kind, int index, const char* text,
                              const std::string& status = "completed") {
    const std::string type =
        kind == "rs" ? R"("reasoning","status":")" + (text == nullptr ? "in_progress" : status) +
                           R"(","summary":[],"encrypted_content":null)"
                     : R"("message","status":")" + (text == nullptr ? "in_progress" : status) +
                           R"(","role":"assistant")";
    return R"({"id":")" + kind + "_r1_" + std::to_string(index) + R"(","type":)" + type +
           R"(,"content":[)" + (text == nullptr ? "" : Part(kind, text)) + "]}";
  }
  static std::string PartPlace(const std::string& kind, int index) {
    return R"("item_id":")" + kind + "_r1_" + std::to_string(index) + "\"," + Index(index) +
           ",\"content_index\":0";
  }
  std::string OpenText(const std::string& kind, int index) {
    const std::string added = Added(index, TextItem(kind, index, nullptr));
    return added +
           Event("content_part.added", PartPlace(kind, index) + ",\"part\":" + Part(kind, ""));
  }
  std::string TextDelta(const std::string& kind, int index, const std::string& delta) {
    return Event(kind == "rs" ? "reasoning_text.delta" : "output_text.delta",
                 PartPlace(kind, index) + R"(,"delta":")" + delta + "\"" +
                     (kind == "rs" ? "" : ",\"logprobs\":[]"));
  }
  std::string CloseText(const std::string& kind, int index, const char* text,
                        const std::string& status = "completed") {
    std::string events = Event(kind == "rs" ? "reasoning_text.done" : "output_text.done",
                               PartPlace(kind, index) + R"(,"text":")" + text + "\"" +
                                   (kind == "rs" ? "" : ",\"logprobs\":[]"));
    events += Event("content_part.done", PartPlace(kind, index) + ",\"part\":" + Part(kind, text));
    return events + ItemDone(index, TextItem(kind, index, text, status));
  }

  // --- calls ---
  // `more`: members between name and arguments.
  static std::string Call(int index, const std::string& id, const std::string& name,
                          const std::string& arguments, const std::string& status,
                          const std::string& more = "") {
    return R"({"id":"fc_r1_)" + std::to_string(index) + R"(","type":"function_call","status":")" +
           status + R"(","call_id":")" + id + R"(","name":")" + name + "\"" + more +
           R"(,"arguments":")" + arguments + "\"}";
  }
  static std::string CallPlace(int index) {
    return R"("item_id":"fc_r1_)" + std::to_string(index) + "\"," + Index(index);
  }
  std::string OpenCall(int index, const std::string& id, const std::string& name,
                       const std::string& more = "") {
    return Added(index, Call(index, id, name, "", "in_progress", more));
  }
  std::string CallDelta(int index, const std::string& delta) {
    return Event("function_call_arguments.delta",
                 CallPlace(index) + R"(,"delta":")" + delta + "\"");
  }
  std::string CloseCall(int index, const std::string& id, const std::string& name,
                        const std::string& arguments, const std::string& more = "") {
    const std::string done =
        Event("function_call_arguments.done",
              CallPlace(index) + R"(,"name":")" + name + R"(","arguments":")" + arguments + "\"");
    return done + ItemDone(index, Call(index, id, name, arguments, "completed", more));
  }

  int num_events_ = 0;
};

TEST_F(ResponseEventsTest, Text) {
  Ask(R"("stream": true)");
  EXPECT_EQ(Add({kResponsePrompt}), Begin());
  std::string first = OpenText("msg", 0);
  first += TextDelta("msg", 0, "He");
  EXPECT_EQ(Add({"delta { token_ids: 1 text: 'He' }"}), first);
  // A part of a character has no text.
  EXPECT_EQ(Add({"delta { token_ids: 2 }"}), "");
  std::string last = TextDelta("msg", 0, "y\\n");
  last += CloseText("msg", 0, "Hey\\n");
  EXPECT_EQ(Add({"delta { token_ids: 3 text: 'y\\n' }", FinishOf("STOP")}), last);
  EXPECT_EQ(Finish(), Completed(TextItem("msg", 0, "Hey\\n")));
}

TEST_F(ResponseEventsTest, ReasoningAndText) {
  const std::string answer =
      Answer(R"("stream": true)", {kResponsePrompt, "delta { token_ids: 1 reasoning: 'h' }",
                                   "delta { token_ids: 2 reasoning: 'm' text: 'H' }",
                                   "delta { token_ids: 3 text: 'i' }", FinishOf("STOP")});
  std::string expected = Begin();
  expected += OpenText("rs", 0);
  expected += TextDelta("rs", 0, "h");
  expected += TextDelta("rs", 0, "m");
  expected += CloseText("rs", 0, "hm");
  expected += OpenText("msg", 1);
  expected += TextDelta("msg", 1, "H");
  expected += TextDelta("msg", 1, "i");
  expected += CloseText("msg", 1, "Hi");
  expected += Completed(TextItem("rs", 0, "hm") + "," + TextItem("msg", 1, "Hi"));
  EXPECT_EQ(answer, expected);
}

TEST_F(ResponseEventsTest, OneCall) {
  const std::string answer = Answer(
      std::string(R"("stream": true, )") + kTools,
      {kResponsePrompt, "delta { token_ids: 1 tool_calls { index: 0 id: 'c1' name: 'f' } }",
       "delta { token_ids: 2 tool_calls { index: 0 arguments: '{\"a\"' } }",
       "delta { token_ids: 3 tool_calls { index: 0 arguments: ':1}' } }", FinishOf("TOOL_CALLS")});
  std::string expected = Begin();
  expected += OpenCall(0, "c1", "f");
  expected += CallDelta(0, "{\\\"a\\\"");
  expected += CallDelta(0, ":1}");
  expected += CloseCall(0, "c1", "f", "{\\\"a\\\":1}");
  expected += Completed(Call(0, "c1", "f", "{\\\"a\\\":1}", "completed"));
  EXPECT_EQ(answer, expected);
}

TEST_F(ResponseEventsTest, ParallelCallsOneOfThemOfANamespace) {
  const std::string answer =
      Answer(std::string(R"("stream": true, )") + kTools,
             {kResponsePrompt,
              "delta { tool_calls { index: 0 id: 'c1' name: 'f' } "
              "        tool_calls { index: 0 arguments: '{}' } "
              "        tool_calls { index: 1 id: 'c2' name: 'n__g' arguments: '{}' } }",
              FinishOf("TOOL_CALLS")});
  const std::string more = R"(,"namespace":"n")";
  std::string expected = Begin();
  expected += OpenCall(0, "c1", "f");
  expected += CallDelta(0, "{}");
  expected += CloseCall(0, "c1", "f", "{}");
  expected += OpenCall(1, "c2", "g", more);
  expected += CallDelta(1, "{}");
  expected += CloseCall(1, "c2", "g", "{}", more);
  expected += Completed(Call(0, "c1", "f", "{}", "completed") + "," +
                        Call(1, "c2", "g", "{}", "completed", more));
  EXPECT_EQ(answer, expected);
}

TEST_F(ResponseEventsTest, TextAfterACallIsAnotherMessage) {
  const std::string answer =
      Answer(std::string(R"("stream": true, )") + kTools,
             {kResponsePrompt,
              "delta { text: 'a' tool_calls { index: 0 id: 'c1' name: 'f' arguments: '{}' } }",
              "delta { text: 'b' }", FinishOf("TOOL_CALLS")});
  std::string expected = Begin();
  expected += OpenText("msg", 0);
  expected += TextDelta("msg", 0, "a");
  expected += CloseText("msg", 0, "a");
  expected += OpenCall(1, "c1", "f");
  expected += CallDelta(1, "{}");
  expected += CloseCall(1, "c1", "f", "{}");
  expected += OpenText("msg", 2);
  expected += TextDelta("msg", 2, "b");
  expected += CloseText("msg", 2, "b");
  expected += Completed(TextItem("msg", 0, "a") + "," + Call(1, "c1", "f", "{}", "completed") +
                        "," + TextItem("msg", 2, "b"));
  EXPECT_EQ(answer, expected);
}

TEST_F(ResponseEventsTest, ACustomCall) {
  const std::string answer =
      Answer(std::string(R"("stream": true, )") + kTools,
             {kResponsePrompt, "delta { tool_calls { index: 0 id: 'c1' name: 'patch' } }",
              "delta { tool_calls { index: 0 arguments: '{\"input\": \"a\\\\' } }",
              "delta { tool_calls { index: 0 arguments: 'nb\"}' } }", FinishOf("TOOL_CALLS")});
  const auto item = [](const std::string& status, const std::string& input) {
    return R"({"id":"ctc_r1_0","type":"custom_tool_call","status":")" + status +
           R"(","call_id":"c1","name":"patch","input":")" + input + "\"}";
  };
  const std::string place = R"("item_id":"ctc_r1_0","output_index":0)";
  std::string expected = Begin();
  expected += Added(0, item("in_progress", ""));
  expected += Event("custom_tool_call_input.delta", place + R"(,"delta":"a")");
  expected += Event("custom_tool_call_input.delta", place + R"(,"delta":"\nb")");
  expected += Event("custom_tool_call_input.done", place + R"(,"name":"patch","input":"a\nb")");
  expected += ItemDone(0, item("completed", "a\\nb"));
  expected += Completed(item("completed", "a\\nb"));
  EXPECT_EQ(answer, expected);
}

TEST_F(ResponseEventsTest, TextAtTheLimit) {
  const std::string answer =
      Answer(R"("stream": true)", {kResponsePrompt, "delta { text: 'He' }", FinishOf("LENGTH")});
  std::string expected = Begin();
  expected += OpenText("msg", 0);
  expected += TextDelta("msg", 0, "He");
  expected += CloseText("msg", 0, "He", "incomplete");
  expected += Incomplete(TextItem("msg", 0, "He", "incomplete"));
  EXPECT_EQ(answer, expected);
}

// Clients run a call when its item is done.
TEST_F(ResponseEventsTest, ACallThatTheLimitCutIsNeverDone) {
  const std::string answer =
      Answer(std::string(R"("stream": true, )") + kTools,
             {kResponsePrompt,
              "delta { tool_calls { index: 0 id: 'c1' name: 'f' arguments: '{\"a\":\"rm /' } }",
              FinishOf("LENGTH")});
  std::string expected = Begin();
  expected += OpenCall(0, "c1", "f");
  expected += CallDelta(0, "{\\\"a\\\":\\\"rm /");
  expected += Incomplete(Call(0, "c1", "f", "{\\\"a\\\":\\\"rm /", "incomplete"));
  EXPECT_EQ(answer, expected);

  const std::string custom = Answer(
      std::string(R"("stream": true, )") + kTools,
      {kResponsePrompt,
       "delta { tool_calls { index: 0 id: 'c1' name: 'patch' arguments: '{\"input\":\"rm /' } }",
       FinishOf("LENGTH")});
  EXPECT_THAT(custom, ::testing::Not(::testing::HasSubstr(".done")));
  EXPECT_THAT(custom, ::testing::HasSubstr(
                          R"("status":"incomplete","call_id":"c1","name":"patch","input":"rm /")"));
}

TEST_F(ResponseEventsTest, AWholeCallBeforeTheLimitIsDone) {
  const std::string answer =
      Answer(std::string(R"("stream": true, )") + kTools,
             {kResponsePrompt,
              "delta { tool_calls { index: 0 id: 'c1' name: 'f' arguments: '{\"a\":1}' } }",
              FinishOf("LENGTH")});
  std::string expected = Begin();
  expected += OpenCall(0, "c1", "f");
  expected += CallDelta(0, "{\\\"a\\\":1}");
  expected += CloseCall(0, "c1", "f", "{\\\"a\\\":1}");
  expected += Incomplete(Call(0, "c1", "f", "{\\\"a\\\":1}", "completed"));
  EXPECT_EQ(answer, expected);
}

TEST_F(ResponseEventsTest, AFailureInMidStream) {
  struct Case {
    absl::Status status;
    std::string code;
  };
  for (const Case& failure : {Case{absl::UnavailableError("gone"), "server_error"},
                              Case{absl::ResourceExhaustedError("gone"), "rate_limit_exceeded"},
                              Case{absl::InvalidArgumentError("gone"), "invalid_prompt"}}) {
    num_events_ = 0;
    Ask(R"("stream": true)");
    const std::string begin = Add({kResponsePrompt, "delta { text: 'He' }"});
    std::string failed;
    writer_->Fail(failure.status, failed);
    std::string expected = Begin();
    expected += OpenText("msg", 0);
    expected += TextDelta("msg", 0, "He");
    EXPECT_EQ(begin, expected);
    EXPECT_EQ(failed, ResponseEvent(
                          "failed",
                          Response("failed", TextItem("msg", 0, "He", "incomplete"), "null", "null",
                                   R"({"code":")" + failure.code + R"(","message":"gone"})")));
  }
}

TEST_F(ResponseEventsTest, AnAbortIsAFailure) {
  const std::string answer =
      Answer(R"("stream": true)", {kResponsePrompt, "delta { text: 'He' }", FinishOf("ABORT")});
  std::string expected = Begin();
  expected += OpenText("msg", 0);
  expected += TextDelta("msg", 0, "He");
  expected += CloseText("msg", 0, "He", "incomplete");
  expected += ResponseEvent(
      "failed", Response("failed", TextItem("msg", 0, "He", "incomplete"), kUsageJson, "9",
                         R"({"code":"server_error","message":"the request was aborted"})"));
  EXPECT_EQ(answer, expected);
}

TEST_F(ResponseEventsTest, NoOutputIsNoItem) {
  const std::string answer = Answer(R"("stream": true)", {kResponsePrompt, FinishOf("STOP")});
  std::string expected = Begin();
  expected += Completed("");
  EXPECT_EQ(answer, expected);
}

}  // namespace
}  // namespace lockstep::router
