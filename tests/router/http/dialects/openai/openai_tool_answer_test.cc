// Answers of chats with calls of tools and reasoning.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/router/http/dialects/openai/openai_writer_fixture.h"

namespace lockstep::router {
namespace {

using AnswerJson = nlohmann::ordered_json;

constexpr char kCalled[] =
    "finish { index: 0 reason: FINISH_REASON_TOOL_CALLS usage { reasoning_tokens: 4 } }";

class ToolAnswerTest : public AnswerWriterTest {
 protected:
  // The chunks among these events.
  static std::vector<AnswerJson> Chunks(const std::string& events) {
    std::vector<AnswerJson> chunks;
    constexpr std::string_view kBegin = "data: ";
    for (size_t at = 0; at < events.size();) {
      const size_t end = events.find("\n\n", at);
      const std::string event = events.substr(at + kBegin.size(), end - at - kBegin.size());
      if (event != "[DONE]") chunks.push_back(AnswerJson::parse(event));
      at = end + 2;
    }
    return chunks;
  }
  static std::string Delta(const AnswerJson& chunk) { return chunk["choices"][0]["delta"].dump(); }
};

TEST_F(ToolAnswerTest, AWholeAnswerHasCallsAndNoContent) {
  Chat(R"("n": 1)");
  Add({kPromptInfo, "delta { token_ids: 1 reasoning: 'I ' }",
       "delta { token_ids: 2 reasoning: 'think' tool_calls { id: 'call_a' name: 'f' } }",
       "delta { tool_calls { arguments: '{\"x\":' } tool_calls { arguments: '1}' }"
       "        tool_calls { index: 1 id: 'call_b' name: 'g' } }",
       "delta { tool_calls { index: 1 arguments: '{}' } }", kCalled});
  const AnswerJson answer = AnswerJson::parse(Finish());
  const AnswerJson& choice = answer["choices"][0];
  EXPECT_EQ(choice["message"].dump(),
            R"({"role":"assistant","content":null,"refusal":null,)"
            R"("reasoning_content":"I think","reasoning":"I think","tool_calls":[)"
            R"({"id":"call_a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},)"
            R"({"id":"call_b","type":"function","function":{"name":"g","arguments":"{}"}}]})");
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 2);
  EXPECT_EQ(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 4);
}

TEST_F(ToolAnswerTest, ContentStaysBesideCalls) {
  Chat(R"("n": 1)");
  Add({kPromptInfo, "delta { text: 'I look.' tool_calls { id: 'c' name: 'f' } }",
       "finish { index: 0 reason: FINISH_REASON_LENGTH }"});
  const AnswerJson answer = AnswerJson::parse(Finish());
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "I look.");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  // Nothing was thought.
  EXPECT_FALSE(answer["choices"][0]["message"].contains("reasoning"));
  EXPECT_FALSE(answer["usage"].contains("completion_tokens_details"));
}

TEST_F(ToolAnswerTest, AStreamHasOnePartOfACallInEachChunk) {
  Chat(R"("stream": true, "stream_options": {"include_usage": true})");
  std::string events = Add({kPromptInfo, "delta { token_ids: 1 reasoning: 'hm' }",
                            "delta { token_ids: [2, 3] text: 'I look.'"
                            "        tool_calls { id: 'call_a' name: 'f' }"
                            "        tool_calls { arguments: '{\"x\"' } }",
                            "delta { token_ids: 4 tool_calls { arguments: ':1}' }"
                            "        tool_calls { index: 1 id: 'call_b' name: 'g' } }",
                            kCalled});
  events += Finish();
  const std::vector<AnswerJson> chunks = Chunks(events);
  ASSERT_EQ(chunks.size(), 7u);
  EXPECT_EQ(Delta(chunks[0]), R"({"role":"assistant","content":""})");
  EXPECT_EQ(Delta(chunks[1]), R"({"reasoning_content":"hm","reasoning":"hm"})");
  EXPECT_EQ(Delta(chunks[2]),
            R"({"content":"I look.","tool_calls":[{"index":0,"id":"call_a","type":"function",)"
            R"("function":{"name":"f","arguments":""}}]})");
  EXPECT_EQ(Delta(chunks[3]), R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"x\""}}]})");
  EXPECT_EQ(Delta(chunks[4]), R"({"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]})");
  EXPECT_EQ(Delta(chunks[5]), R"({"tool_calls":[{"index":1,"id":"call_b","type":"function",)"
                              R"("function":{"name":"g","arguments":""}}]})");
  for (size_t i = 0; i < 5; ++i) EXPECT_TRUE(chunks[i]["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(chunks[5]["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_EQ(chunks[6]["usage"]["completion_tokens_details"]["reasoning_tokens"], 4);
  EXPECT_EQ(chunks[6]["usage"]["completion_tokens"], 4);
}

TEST_F(ToolAnswerTest, TokensAndLogprobsComeOnce) {
  Chat(R"("stream": true, "return_token_ids": true, "logprobs": true)");
  const std::vector<AnswerJson> chunks =
      Chunks(Add({kPromptInfo,
                  "delta { token_ids: 97 logprobs { token_id: 97 logprob: -1 rank: 1 }"
                  "        tool_calls { id: 'c' name: 'f' } tool_calls { arguments: '{}' } }"}));
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[1]["choices"][0]["token_ids"].dump(), "[97]");
  EXPECT_EQ(chunks[1]["choices"][0]["logprobs"]["content"].size(), 1u);
  EXPECT_EQ(chunks[2]["choices"][0]["token_ids"].dump(), "[]");
  EXPECT_TRUE(chunks[2]["choices"][0]["logprobs"].is_null());
}

TEST_F(ToolAnswerTest, ReasoningIsLeftOutOnRequest) {
  Chat(R"("include_reasoning": false)");
  Add({kPromptInfo, "delta { token_ids: 1 reasoning: 'hm' }", "delta { token_ids: 2 text: 'yes' }",
       "finish { index: 0 reason: FINISH_REASON_STOP usage { reasoning_tokens: 1 } }"});
  const AnswerJson answer = AnswerJson::parse(Finish());
  EXPECT_EQ(answer["choices"][0]["message"].dump(),
            R"({"role":"assistant","content":"yes","refusal":null})");
  EXPECT_EQ(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 1);

  Chat(R"("include_reasoning": false, "stream": true)");
  EXPECT_EQ(Add({kPromptInfo, "delta { token_ids: 1 reasoning: 'hm' }"}), "");
  const std::vector<AnswerJson> chunks =
      Chunks(Add({"delta { token_ids: 2 reasoning: '.' text: 'y' }"}));
  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_EQ(Delta(chunks[1]), R"({"content":"y"})");
}

TEST_F(ToolAnswerTest, CallsAndReasoningAreCountedAsHeld) {
  Chat(R"("n": 1)");
  const std::string text(1000, 'x');
  Add({kPromptInfo, "delta { reasoning: '" + text + "' }"});
  EXPECT_GE(writer_->num_held_bytes(), 2000u);
  const size_t before = writer_->num_held_bytes();
  Add({"delta { tool_calls { id: 'c' name: 'f' } tool_calls { arguments: '" + text + "' } }"});
  EXPECT_GE(writer_->num_held_bytes(), before + 1000);
}

TEST_F(ToolAnswerTest, ChoicesHaveCallsOfTheirOwn) {
  Chat(R"("n": 2)");
  Add({kPromptInfo, "delta { index: 1 tool_calls { id: 'c' name: 'f' } }",
       "delta { index: 0 text: 'no' }",
       "finish { index: 1 reason: FINISH_REASON_TOOL_CALLS usage { reasoning_tokens: 2 } }",
       "finish { index: 0 reason: FINISH_REASON_STOP usage { reasoning_tokens: 3 } }"});
  const AnswerJson answer = AnswerJson::parse(Finish());
  EXPECT_FALSE(answer["choices"][0]["message"].contains("tool_calls"));
  EXPECT_EQ(answer["choices"][1]["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 5);
}

}  // namespace
}  // namespace lockstep::router
