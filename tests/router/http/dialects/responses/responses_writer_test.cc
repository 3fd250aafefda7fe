#include "router/http/dialects/responses/responses_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/router/http/dialects/responses/responses_fixture.h"

namespace lockstep::router {
namespace {

using nlohmann::json;

constexpr char kSomeTools[] =
    R"("tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "patch"}])";

// The data of each event of a stream.
std::vector<json> EventsIn(std::string_view stream) {
  std::vector<json> events;
  while (!stream.empty()) {
    const size_t end = stream.find("\n\n");
    const std::string_view event = stream.substr(0, end);
    const size_t data = event.find("\ndata: ");
    EXPECT_NE(data, std::string_view::npos) << event;
    events.push_back(json::parse(event.substr(data + 7)));
    EXPECT_EQ(event.substr(0, data), "event: " + events.back()["type"].get<std::string>());
    EXPECT_EQ(events.back()["sequence_number"], events.size() - 1);
    stream.remove_prefix(end + 2);
  }
  return events;
}

using ResponsesWriterTest = ResponseWriterTest;

TEST_F(ResponsesWriterTest, AWholeResponse) {
  const std::string answer =
      Answer(kSomeTools, {kResponsePrompt,
                          "delta { token_ids: [1, 2, 3] reasoning: 'hm' text: 'Hi' "
                          "        tool_calls { index: 0 id: 'c1' name: 'f' } "
                          "        tool_calls { index: 0 arguments: '{\"a\":1}' } }",
                          FinishOf("TOOL_CALLS")});
  EXPECT_EQ(answer,
            Response("completed",
                     R"({"id":"rs_r1_0","type":"reasoning","status":"completed","summary":[],)"
                     R"("encrypted_content":null,"content":[{"type":"reasoning_text",)"
                     R"("text":"hm"}]},{"id":"msg_r1_1","type":"message","status":"completed",)"
                     R"("role":"assistant","content":[{"type":"output_text","annotations":[],)"
                     R"("logprobs":[],"text":"Hi"}]},{"id":"fc_r1_2","type":"function_call",)"
                     R"("status":"completed","call_id":"c1","name":"f","arguments":)"
                     R"("{\"a\":1}"})",
                     kUsageJson, "9"));
}

TEST_F(ResponsesWriterTest, NothingIsSentBeforeTheEnd) {
  Ask("");
  EXPECT_EQ(Add({kResponsePrompt, "delta { text: 'Hi' }"}), "");
  std::string failed;
  writer_->Fail(absl::UnavailableError("gone"), failed);
  EXPECT_EQ(failed, "");
}

TEST_F(ResponsesWriterTest, TokensAreCountedWithoutUsage) {
  const json answer =
      json::parse(Answer("", {kResponsePrompt, "delta { token_ids: [1, 2] text: 'Hi' }",
                              "finish { reason: FINISH_REASON_STOP }"}));
  EXPECT_EQ(answer["usage"]["input_tokens"], 3);
  EXPECT_EQ(answer["usage"]["output_tokens"], 2);
  EXPECT_EQ(answer["usage"]["input_tokens_details"]["cached_tokens"], 2);
  EXPECT_EQ(answer["seed"], nullptr);
}

TEST_F(ResponsesWriterTest, AnUnknownFunctionIsAFunction) {
  const json answer = json::parse(Answer(
      kSomeTools,
      {kResponsePrompt, "delta { tool_calls { index: 0 id: 'c1' name: 'x' arguments: '{}' } }",
       FinishOf("TOOL_CALLS")}));
  EXPECT_EQ(answer["output"][0]["type"], "function_call");
  EXPECT_EQ(answer["output"][0]["name"], "x");
}

std::string Logprob(int id, const std::string& part = "TEXT") {
  return "logprobs { token_id: " + std::to_string(id) +
         " logprob: -0.5 rank: 1 top_ids: " + std::to_string(id) +
         " top_logprobs: -0.5 part: TOKEN_PART_" + part + " } token_ids: " + std::to_string(id) +
         " ";
}

std::string Other(int id) { return Logprob(id, "OTHER"); }
std::string Open(int id) { return Logprob(id, "OPEN"); }

std::string TokensOf(const json& logprobs) {
  std::string tokens;
  for (const json& entry : logprobs) tokens += entry["token"].get<std::string>();
  return tokens;
}

constexpr char kAskLogprobs[] = R"("include": ["message.output_text.logprobs"], "top_logprobs": 1)";

TEST_F(ResponsesWriterTest, TextHasItsLogprobs) {
  const std::vector<std::string> messages = {
      kResponsePrompt,
      "delta { " + Other('r') + "reasoning: 'r' }",
      "delta { " + Logprob('a') + "text: 'a' }",
      "delta { " + Logprob('b') + "}",  // its text comes with the next token
      "delta { " + Logprob('c') + "text: 'bc' }",
      "delta { " + Logprob('d') + "}",  // it has no text
      FinishOf("STOP")};
  const json whole = json::parse(Answer(kAskLogprobs, messages));
  const json& part = whole["output"][1]["content"][0];
  EXPECT_EQ(TokensOf(part["logprobs"]), "abcd");
  EXPECT_EQ(part["logprobs"][0].dump(),
            R"({"bytes":[97],"logprob":-0.5,"token":"a","top_logprobs":)"
            R"([{"bytes":[97],"logprob":-0.5,"token":"a"}]})");
  std::vector<std::string> deltas;
  for (const json& event :
       EventsIn(Answer(std::string(R"("stream": true, )") + kAskLogprobs, messages))) {
    if (event["type"] == "response.output_text.delta") {
      deltas.push_back(event["delta"].get<std::string>() + ":" + TokensOf(event["logprobs"]));
    }
    if (event["type"] == "response.output_text.done") {
      EXPECT_EQ(event["logprobs"], part["logprobs"]);
    }
  }
  EXPECT_THAT(deltas, ::testing::ElementsAre("a:a", "bc:bc", ":d"));
}

TEST_F(ResponsesWriterTest, TextHasTheLogprobsOfItsOwnTokens) {
  const std::string call = "tool_calls { index: 0 id: 'c1' name: 'f' arguments: '{}' }";
  const struct {
    const char* name;
    std::vector<std::string> deltas;
    std::string logprobs;  // of the messages, with "," behind each
  } cases[] = {
      {"all in one delta",
       {Open('<') + Other('r') + Other('>') + Logprob('a') + "reasoning: 'r' text: 'a'"},
       "a,"},
      {"the marker has a delta of its own",
       {Open('<'), Other('r') + "reasoning: 'r'", Other('>'), Logprob('a') + "text: 'a'"},
       "a,"},
      {"the first token of the text is in the delta of the reasoning",
       {Other('r') + Logprob('a') + "reasoning: 'r'", Logprob('b') + "text: 'ab'"},
       "ab,"},
      {"the text of the reasoning comes late",
       {Other('r'), Logprob('a') + "reasoning: 'r' text: 'a'"},
       "a,"},
      {"no reasoning between its markers",
       {Open('<'), Other('>'), Other('/'), Logprob('a') + "text: 'a'"},
       "a,"},
      {"a header before the text",
       {Other('r') + "reasoning: 'r'", Other('|'), Other('h'), Logprob('a') + "text: 'a'"},
       "a,"},
      {"reasoning between two texts",
       {Logprob('a') + Open('<') + Other('r') + "text: 'a'", Other('>') + "reasoning: 'r'",
        Logprob('b') + "text: 'b'"},
       "a,b,"},
      {"text and a call in one delta",
       {Logprob('a') + Open('<') + Open('{') + Other('}') + "text: 'a' " + call},
       "a,"},
      {"a call between two texts",
       {Logprob('a') + "text: 'a'", Open('<'), Other('}') + call, Open('<'), Other('>'),
        Logprob('b') + "text: 'b'"},
       "a,b,"},
      {"what looked like a marker",
       {Logprob('a') + "text: 'a'", Open('<'), Logprob('b') + "text: '<b'"},
       "a<b,"},
      {"what looked like a marker to the end",
       {Logprob('a') + "text: 'a'", Open('<'), "text: '<'"},
       "a<,"},
  };
  for (const auto& entry : cases) {
    SCOPED_TRACE(entry.name);
    std::vector<std::string> messages = {kResponsePrompt};
    for (const std::string& delta : entry.deltas) messages.push_back("delta { " + delta + " }");
    messages.push_back(FinishOf("STOP"));
    std::string logprobs;
    const json answer = json::parse(Answer(kAskLogprobs, messages));
    for (const json& item : answer["output"]) {
      if (item["type"] == "message") logprobs += TokensOf(item["content"][0]["logprobs"]) + ",";
      if (item["type"] == "reasoning") {
        EXPECT_FALSE(item["content"][0].contains("logprobs"));
      }
    }
    EXPECT_EQ(logprobs, entry.logprobs);
  }
}

TEST_F(ResponsesWriterTest, LogprobsThatNobodyAskedForAreNotKept) {
  const json answer = json::parse(
      Answer("", {kResponsePrompt, "delta { " + Logprob('a') + "text: 'a' }", FinishOf("STOP")}));
  EXPECT_EQ(answer["output"][0]["content"][0]["logprobs"], json::array());
}

TEST_F(ResponsesWriterTest, TheAnswerCountsItsMemory) {
  Ask(R"("metadata": {"a": "b"})");
  const size_t before = writer_->num_held_bytes();
  EXPECT_GE(before, request_.echo.size());
  Add({kResponsePrompt, "delta { text: '" + std::string(5000, 'x') + "' }",
       "delta { tool_calls { index: 0 id: 'c' name: 'f' arguments: '" + std::string(3000, ' ') +
           "' } }"});
  EXPECT_GE(writer_->num_held_bytes(), before + 8000);
}

// Cuts the pieces of an output into deltas at random.
class RandomOutput {
 public:
  explicit RandomOutput(uint32_t seed) : random_(seed) {}

  std::vector<std::string> Messages(const std::string& reason) {
    std::vector<std::string> messages = {kResponsePrompt};
    Text("reasoning", "I think, therefore I call.", messages);
    Text("text", "Hello 'there' and so on", messages);
    Call(0, "f", R"({"a": [1, 2, {"b": "c"}]})", messages);
    Call(1, "patch", R"({"input": "*** Begin\n+ \"ä\" \ud83d\ude00 \\ end"})", messages);
    Text("text", " and more", messages);
    Call(2, "f", "{}", messages);
    messages.push_back(FinishOf(reason));
    return messages;
  }

 private:
  std::vector<std::string> Cut(std::string_view text) {
    std::vector<std::string> pieces;
    while (!text.empty()) {
      size_t size = 1 + random_() % 9;
      // Never inside a character.
      while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) ++size;
      pieces.emplace_back(text.substr(0, size));
      text.remove_prefix(std::min(size, text.size()));
    }
    return pieces;
  }
  static std::string Escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
      if (c == '\'' || c == '\\') out += '\\';
      out += c;
    }
    return "'" + out + "'";
  }
  void Text(const std::string& field, const std::string& text, std::vector<std::string>& messages) {
    for (const std::string& piece : Cut(text)) {
      messages.push_back("delta { " + field + ": " + Escaped(piece) + " }");
    }
  }
  void Call(int index, const std::string& name, const std::string& arguments,
            std::vector<std::string>& messages) {
    const std::string number = std::to_string(index);
    messages.push_back("delta { tool_calls { index: " + number + " id: 'c" + number + "' name: '" +
                       name + "' } }");
    for (const std::string& piece : Cut(arguments)) {
      messages.push_back("delta { tool_calls { index: " + number + " arguments: " + Escaped(piece) +
                         " } }");
    }
  }

  std::mt19937 random_;
};

// What a client has at the end that only joins deltas, by item.
std::map<std::string, std::string> Joined(const std::vector<json>& events) {
  std::map<std::string, std::string> texts;
  for (const json& event : events) {
    if (event.contains("delta")) texts[event["item_id"]] += event["delta"].get<std::string>();
  }
  return texts;
}

std::string TextOf(const json& item) {
  if (item.contains("arguments")) return item["arguments"];
  if (item.contains("input")) return item["input"];
  return item["content"][0]["text"];
}

TEST_F(ResponsesWriterTest, AStreamSaysTheSameHoweverItWasCut) {
  const std::string stream = std::string(R"("stream": true, )") + kSomeTools;
  for (const std::string reason : {"TOOL_CALLS", "LENGTH", "ABORT"}) {
    const json whole = json::parse(Answer(kSomeTools, RandomOutput(0).Messages(reason)));
    ASSERT_EQ(whole["output"].size(), 6u);
    EXPECT_EQ(TextOf(whole["output"][3]), "*** Begin\n+ \"ä\" 😀 \\ end");
    for (uint32_t seed = 0; seed < 50; ++seed) {
      SCOPED_TRACE(seed);
      const std::vector<json> events =
          EventsIn(Answer(stream, RandomOutput(seed).Messages(reason)));
      // The end of a stream is the whole answer.
      EXPECT_EQ(events.back()["response"], whole);
      const std::map<std::string, std::string> joined = Joined(events);
      EXPECT_EQ(joined.size(), 6u);
      size_t num_done = 0;
      for (const json& event : events) {
        if (event["type"] != "response.output_item.done") continue;
        EXPECT_EQ(event["item"], whole["output"][event["output_index"].get<size_t>()]);
        ++num_done;
      }
      EXPECT_EQ(num_done, 6u);
      for (const json& item : whole["output"]) {
        EXPECT_EQ(joined.at(item["id"]), TextOf(item));
      }
    }
  }
}

TEST_F(ResponsesWriterTest, TheBytesOfTheWholeAnswerAreThoseOfTheLastEvent) {
  const std::vector<std::string> messages = {kResponsePrompt, "delta { text: 'Hi' }",
                                             FinishOf("STOP")};
  const std::string whole = Answer("", messages);
  const std::string stream = Answer(R"("stream": true)", messages);
  EXPECT_THAT(stream, ::testing::EndsWith(R"("response":)" + whole + "}\n\n"));
}

}  // namespace
}  // namespace lockstep::router
