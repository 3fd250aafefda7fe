#include "router/http/dialects/openai/openai_writer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/status.h"
#include "tests/router/http/dialects/openai/openai_writer_fixture.h"

namespace lockstep::router {
namespace {

TEST_F(AnswerWriterTest, AWholeCompletion) {
  Completion(R"("n": 2)");
  EXPECT_EQ(Add({kPromptInfo, "delta { index: 1 token_ids: 97 text: 'a' }",
                 "finish { index: 1 reason: FINISH_REASON_STOP stop_string: 'b' }",
                 "delta { index: 0 token_ids: 34 text: '\"\\n' }",
                 "finish { index: 0 reason: FINISH_REASON_STOP stop_token_id: 257 }"}),
            "");
  EXPECT_EQ(
      Finish(),
      kCompletionHead +
          std::string(
              R"([{"index":0,"text":"\"\n","token_ids":null,"prompt_token_ids":null,)"
              R"("logprobs":null,"prompt_logprobs":null,)"
              R"("finish_reason":"stop","stop_reason":257},{"index":1,"text":"a",)"
              R"("token_ids":null,"prompt_token_ids":null,"logprobs":null,)"
              R"("prompt_logprobs":null,"finish_reason":"stop","stop_reason":"b"}],"usage":)") +
          kUsage + "}");
}

TEST_F(AnswerWriterTest, UsageHasDraftsIfThereWereAny) {
  Completion(R"("n": 2)");
  Add({kPromptInfo, "delta { index: 0 token_ids: 97 text: 'a' }",
       "finish { index: 0 reason: FINISH_REASON_LENGTH "
       "usage { accepted_draft_tokens: 5 rejected_draft_tokens: 1 } }"});
  Add(
      {"finish { index: 1 reason: FINISH_REASON_LENGTH "
       "usage { accepted_draft_tokens: 0 rejected_draft_tokens: 2 } }"});
  EXPECT_NE(Finish().find(R"("prompt_tokens_details":{"cached_tokens":2},)"
                          R"("completion_tokens_details":{"accepted_prediction_tokens":5,)"
                          R"("rejected_prediction_tokens":3}}})"),
            std::string::npos);
}

TEST_F(AnswerWriterTest, AStreamedCompletionHasNoChunkBeforeTheFirstToken) {
  Completion(R"("stream": true)");
  EXPECT_EQ(Add({kPromptInfo}), "");
  EXPECT_EQ(
      Add({"delta { index: 0 token_ids: 97 text: 'a' }"}),
      Event(
          kCompletionHead +
          std::string(
              R"([{"index":0,"text":"a","token_ids":null,"prompt_token_ids":null,"logprobs":null,)"
              R"("finish_reason":null,"stop_reason":null}]})")));
  EXPECT_EQ(
      Add({"delta { index: 0 token_ids: 98 text: 'b' }", kLength}),
      Event(
          kCompletionHead +
          std::string(
              R"([{"index":0,"text":"b","token_ids":null,"prompt_token_ids":null,"logprobs":null,)"
              R"("finish_reason":"length",)"
              R"("stop_reason":null}]})")));
  // No chunk without a choice unless it was asked for.
  EXPECT_EQ(Finish(), "data: [DONE]\n\n");
}

TEST_F(AnswerWriterTest, UsageComesLastWhenAskedFor) {
  Completion(R"("stream": true, "stream_options": {"include_usage": true})");
  EXPECT_EQ(Add({kPromptInfo, "delta { index: 0 token_ids: [97, 98] text: 'ab' }", kLength}),
            Event(kCompletionHead +
                  std::string(R"([{"index":0,"text":"ab","token_ids":null,"prompt_token_ids":null,)"
                              R"("logprobs":null,"finish_reason":"length",)"
                              R"("stop_reason":null}],"usage":null})")));
  EXPECT_EQ(Finish(), Event(kCompletionHead + std::string(R"([],"usage":)") + kUsage + "}") +
                          "data: [DONE]\n\n");
}

TEST_F(AnswerWriterTest, ContinuousUsageIsCompleteInEveryChunk) {
  Completion(R"("stream": true, "stream_options": {"include_usage": true,
                                  "continuous_usage_stats": true})");
  Add({kPromptInfo, "delta { index: 0 token_ids: 97 text: 'a' }"});
  EXPECT_EQ(
      Add({"delta { index: 0 token_ids: 98 text: 'b' }"}),
      Event(
          kCompletionHead +
          std::string(
              R"([{"index":0,"text":"b","token_ids":null,"prompt_token_ids":null,"logprobs":null,)"
              R"("finish_reason":null,"stop_reason":null}],"usage":)") +
          kUsage + "}"));
}

// It tells of no output yet, whatever the other choice has.
TEST_F(AnswerWriterTest, TheRolesChunkHasNoTokens) {
  Chat(R"("stream": true, "n": 2, "stream_options": {"include_usage": true,
                                                     "continuous_usage_stats": true})");
  const std::string first = Add({kPromptInfo, "delta { index: 0 token_ids: [97, 98] text: 'ab' }"});
  const std::string second = Add({"delta { index: 1 token_ids: 97 text: 'a' }"});
  for (const std::string& chunks : {first, second}) {
    const std::string role = chunks.substr(0, chunks.find("\n\n"));
    EXPECT_NE(role.find(R"("role":"assistant")"), std::string::npos) << role;
    EXPECT_NE(role.find(R"("usage":{"prompt_tokens":3,"completion_tokens":0,"total_tokens":3,)"),
              std::string::npos)
        << role;
  }
  EXPECT_NE(first.find(R"("completion_tokens":2,"total_tokens":5,)"), std::string::npos) << first;
  EXPECT_NE(second.find(R"("completion_tokens":3,"total_tokens":6,)"), std::string::npos) << second;
}

TEST_F(AnswerWriterTest, AWholeChat) {
  Chat(R"("logprobs": true, "top_logprobs": 1)");
  Add({kPromptInfo,
       "delta { index: 0 token_ids: [97, 255] text: 'a' "
       "  logprobs { token_id: 97 logprob: -0.5 rank: 1 top_ids: 97 top_logprobs: -0.5 }"
       "  logprobs { token_id: 255 logprob: -inf rank: 9 } }",
       kLength});
  EXPECT_EQ(
      Finish(),
      kChatHead +
          std::string(
              R"([{"index":0,"message":{"role":"assistant","content":"a","refusal":null},)"
              R"("token_ids":null,"logprobs":{"content":[{"token":"a","logprob":-0.5,"bytes":[97],)"
              R"("top_logprobs":[{"token":"a","logprob":-0.5,"bytes":[97]}]},)"
              "{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-9999,\"bytes\":[255],"
              R"("top_logprobs":[]}],"refusal":null},"finish_reason":"length",)"
              R"("stop_reason":null}],"prompt_token_ids":null,"prompt_logprobs":null,"usage":)") +
          kUsage + "}");
}

TEST_F(AnswerWriterTest, AStreamedChatBeginsWithTheRole) {
  Chat(R"("stream": true)");
  EXPECT_EQ(Add({kPromptInfo}), "");
  const std::string role =
      Event(kChunkHead +
            std::string(R"([{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,)"
                        R"("finish_reason":null}],"prompt_token_ids":null})"));
  EXPECT_EQ(
      Add({"delta { index: 0 token_ids: 97 text: 'a' }"}),
      role + Event(kChunkHead +
                   std::string(
                       R"([{"index":0,"delta":{"content":"a"},"token_ids":null,"logprobs":null,)"
                       R"("finish_reason":null,"stop_reason":null}]})")));
  // The end token has no text.
  EXPECT_EQ(
      Add({"delta { index: 0 token_ids: 257 }",
           "finish { index: 0 reason: FINISH_REASON_STOP stop_token_id: 257 }"}),
      Event(kChunkHead +
            std::string(
                R"([{"index":0,"delta":{},"token_ids":null,"logprobs":null,"finish_reason":"stop",)"
                R"("stop_reason":257}]})")));
}

TEST_F(AnswerWriterTest, EchoedLogprobsBeginWithNull) {
  Parse(CompletionFormat(),
        R"({"prompt": [72, 105], "echo": true, "logprobs": 1, "max_tokens": 1})");
  Add(
      {"prompt_info { prompt_tokens: 2 prompt_logprobs { token_id: 72 } "
       "  prompt_logprobs { token_id: 105 logprob: -2 rank: 3 top_ids: 97 top_logprobs: -1 } }",
       "delta { index: 0 token_ids: 98 text: 'b' "
       "  logprobs { token_id: 98 logprob: -1 rank: 1 top_ids: 98 top_logprobs: -1 } }",
       kLength});
  EXPECT_EQ(
      Finish(),
      kCompletionHead +
          std::string(R"([{"index":0,"text":"Hib","token_ids":null,"prompt_token_ids":null,)"
                      R"("logprobs":{"text_offset":[0,1,2],)"
                      R"("token_logprobs":[null,-2,-1],"tokens":["H","i","b"],)"
                      R"("top_logprobs":[null,{"i":-2,"a":-1},{"b":-1}]},"prompt_logprobs":null,)"
                      R"("finish_reason":"length",)"
                      R"("stop_reason":null}],"usage":{"prompt_tokens":2,"completion_tokens":1,)"
                      R"("total_tokens":3,"prompt_tokens_details":{"cached_tokens":0}}})"));
}

TEST_F(AnswerWriterTest, AStreamEchoesOnceAndCountsOnFromThere) {
  Completion(R"("stream": true, "echo": true, "logprobs": 0, "return_tokens_as_token_ids": true)");
  Add(
      {"prompt_info { prompt_tokens: 3 prompt_logprobs { token_id: 258 } "
       "  prompt_logprobs { token_id: 72 logprob: -1 rank: 1 }"
       "  prompt_logprobs { token_id: 105 logprob: -2 rank: 1 } }"});
  EXPECT_EQ(
      Add({"delta { index: 0 token_ids: 98 text: 'b' "
           "  logprobs { token_id: 98 logprob: -3 rank: 1 } }"}),
      Event(kCompletionHead +
            std::string(R"([{"index":0,"text":"Hib","token_ids":null,"prompt_token_ids":null,)"
                        R"("logprobs":{"text_offset":[0,0,1,2],)"
                        R"("token_logprobs":[null,-1,-2,-3],)"
                        R"("tokens":["token_id:258","token_id:72","token_id:105","token_id:98"],)"
                        R"("top_logprobs":[null,{"token_id:72":-1},{"token_id:105":-2},)"
                        R"({"token_id:98":-3}]},"finish_reason":null,"stop_reason":null}]})")));
  EXPECT_EQ(Add({"delta { index: 0 token_ids: 99 text: 'c' "
                 "  logprobs { token_id: 99 logprob: -4 rank: 1 } }"}),
            Event(kCompletionHead +
                  std::string(R"([{"index":0,"text":"c","token_ids":null,"prompt_token_ids":null,)"
                              R"("logprobs":{"text_offset":[3],"token_logprobs":[-4],)"
                              R"("tokens":["token_id:99"],"top_logprobs":[{"token_id:99":-4}]},)"
                              R"("finish_reason":null,"stop_reason":null}]})")));
}

// "é", "€" and a byte that never becomes a character, in tokens of one byte.
TEST_F(AnswerWriterTest, OffsetsCountCharactersWhereverTokensEnd) {
  Completion(R"("logprobs": 0, "stream": true)");
  const auto token = [](int id, const std::string& text) {
    return "delta { index: 0 token_ids: " + std::to_string(id) + " text: '" + text +
           "' logprobs { token_id: " + std::to_string(id) + " logprob: -1 rank: 1 } }";
  };
  std::vector<std::string> offsets;
  for (const int id : {0x61, 0xC3, 0xA9, 0xE2, 0x82, 0xAC, 0xFF, 0x62}) {
    const std::string chunk = Add({token(id, "")});
    const size_t at = chunk.find("\"text_offset\":[") + 15;
    offsets.push_back(chunk.substr(at, chunk.find(']', at) - at));
  }
  EXPECT_EQ(offsets, (std::vector<std::string>{"0", "1", "1", "2", "2", "2", "3", "4"}));
}

TEST_F(AnswerWriterTest, AnEchoOfNothingElseLeavesTheTokenOut) {
  Completion(R"("echo": true, "max_tokens": 0)");
  Add({kPromptInfo, "delta { index: 0 token_ids: 98 text: 'b' }", kLength});
  EXPECT_EQ(
      Finish(),
      kCompletionHead +
          std::string(R"([{"index":0,"text":"Hi","token_ids":null,"prompt_token_ids":null,)"
                      R"("logprobs":null,"prompt_logprobs":null,"finish_reason":"length",)"
                      R"("stop_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":0,)"
                      R"("total_tokens":3,"prompt_tokens_details":{"cached_tokens":2}}})"));
}

const char kPromptLogprobs[] =
    "prompt_info { prompt_tokens: 3 prompt_logprobs { token_id: 72 } "
    "  prompt_logprobs { token_id: 105 logprob: -2 rank: 3 top_ids: [97, 98] "
    "                    top_logprobs: [-0.5, -1.5] } "
    "  prompt_logprobs { token_id: 97 logprob: -inf rank: 1 top_ids: [97, 98] "
    "                    top_logprobs: [-1, -2] } }";

TEST_F(AnswerWriterTest, PromptLogprobsOfACompletionAreInEachChoice) {
  Completion(R"("prompt_logprobs": 2, "n": 2, "return_tokens_as_token_ids": true)");
  Add({kPromptLogprobs, "delta { index: 0 token_ids: 97 text: 'a' }", kLength,
       "delta { index: 1 token_ids: 97 text: 'a' }",
       "finish { index: 1 reason: FINISH_REASON_LENGTH }"});
  const std::string choice =
      R"("text":"a","token_ids":null,"prompt_token_ids":null,"logprobs":null,)"
      R"("prompt_logprobs":[null,)"
      R"({"105":{"logprob":-2,"rank":3,"decoded_token":"i"},)"
      R"("97":{"logprob":-0.5,"rank":1,"decoded_token":"a"},)"
      R"("98":{"logprob":-1.5,"rank":2,"decoded_token":"b"}},)"
      R"({"97":{"logprob":-9999,"rank":1,"decoded_token":"a"},)"
      R"("98":{"logprob":-2,"rank":2,"decoded_token":"b"}}],"finish_reason":"length")";
  const std::string answer = Finish();
  EXPECT_NE(answer.find(R"({"index":0,)" + choice), std::string::npos) << answer;
  EXPECT_NE(answer.find(R"({"index":1,)" + choice), std::string::npos) << answer;
}

TEST_F(AnswerWriterTest, PromptLogprobsOfAChatAreBesideItsChoices) {
  Chat(R"("prompt_logprobs": 0)");
  Add({kPromptLogprobs, "delta { index: 0 token_ids: 97 text: 'a' }", kLength});
  const std::string answer = Finish();
  EXPECT_NE(answer.find(R"(}],"prompt_token_ids":null,"prompt_logprobs":[null,)"
                        R"({"105":{"logprob":-2,"rank":3,"decoded_token":"i"}},)"
                        R"({"97":{"logprob":-9999,"rank":1,"decoded_token":"a"}}],"usage":)"),
            std::string::npos)
      << answer;
}

TEST_F(AnswerWriterTest, AnEchoAndPromptLogprobsHaveTheirOwnNumbers) {
  Completion(R"("prompt_logprobs": 2, "echo": true, "logprobs": 1)");
  Add({kPromptLogprobs,
       "delta { index: 0 token_ids: 97 text: 'a' "
       "  logprobs { token_id: 97 logprob: -1 rank: 1 top_ids: 97 top_logprobs: -1 } }",
       kLength});
  const std::string answer = Finish();
  EXPECT_NE(answer.find(R"("top_logprobs":[null,{"i":-2,"a":-0.5},)"), std::string::npos) << answer;
  EXPECT_NE(answer.find(R"("98":{"logprob":-1.5,"rank":2,)"), std::string::npos) << answer;
}

TEST_F(AnswerWriterTest, PromptLogprobsAreHeldOnceForEachChoice) {
  Completion(R"("prompt_logprobs": 2)");
  Add({kPromptLogprobs});
  const size_t once = writer_->num_held_bytes();
  Completion(R"("prompt_logprobs": 2, "n": 4)");
  Add({kPromptLogprobs});
  EXPECT_EQ(writer_->num_held_bytes(), 4 * once);
}

const char kPromptInfoWithIds[] = "prompt_info { prompt_tokens: 2 prompt_token_ids: [72, 105] }";

TEST_F(AnswerWriterTest, TokenIdsOfACompletionAreInItsChoices) {
  Completion(R"("return_token_ids": true)");
  Add({kPromptInfoWithIds, "delta { index: 0 token_ids: [97, 98] text: 'ab' }"});
  Add({"delta { index: 0 token_ids: 99 text: 'c' }", kLength});
  const std::string whole = Finish();
  EXPECT_NE(
      whole.find(R"("text":"abc","token_ids":[97,98,99],"prompt_token_ids":[72,105],"logprobs":)"),
      std::string::npos)
      << whole;
  Completion(R"("return_token_ids": true, "stream": true)");
  const std::string first = Add({kPromptInfoWithIds, "delta { index: 0 token_ids: 97 text: 'a' }"});
  EXPECT_NE(first.find(R"("token_ids":[97],"prompt_token_ids":[72,105],)"), std::string::npos)
      << first;
  const std::string last = Add({"delta { index: 0 token_ids: 98 text: 'b' }", kLength});
  EXPECT_NE(last.find(R"("token_ids":[98],"prompt_token_ids":null,"logprobs":)"), std::string::npos)
      << last;
}

TEST_F(AnswerWriterTest, TokenIdsOfAChatsPromptAreBesideItsChoices) {
  Chat(R"("return_token_ids": true)");
  Add({kPromptInfoWithIds, "delta { index: 0 token_ids: 97 text: 'a' }", kLength});
  const std::string whole = Finish();
  EXPECT_NE(whole.find(R"("token_ids":[97],"logprobs":)"), std::string::npos) << whole;
  EXPECT_NE(whole.find(R"(}],"prompt_token_ids":[72,105],"prompt_logprobs":null,"usage":)"),
            std::string::npos)
      << whole;
  Chat(R"("return_token_ids": true, "stream": true)");
  const std::string chunks =
      Add({kPromptInfoWithIds, "delta { index: 0 token_ids: 97 text: 'a' }"});
  EXPECT_NE(chunks.find(R"("finish_reason":null}],"prompt_token_ids":[72,105]})"),
            std::string::npos)
      << chunks;
  EXPECT_NE(chunks.find(R"("token_ids":[97],)"), std::string::npos) << chunks;
}

TEST_F(AnswerWriterTest, TheSeedThatWasUsedIsWithTheEndOfItsChoice) {
  Completion(R"("stream": true)");
  const std::string out = Add(
      {kPromptInfo, "delta { index: 0 token_ids: 98 text: 'b' }",
       "finish { index: 0 reason: FINISH_REASON_LENGTH usage { seed: 18446744073709551615 } }"});
  EXPECT_NE(out.find(R"("stop_reason":null,"seed":-1})"), std::string::npos) << out;
}

TEST_F(AnswerWriterTest, WhereNoTokensAreAskedForTheOneThatIsMadeEndsNothing) {
  Completion(R"("max_tokens": 0)");
  Add({kPromptInfo, "delta { index: 0 token_ids: 98 text: 'b' }",
       "finish { index: 0 reason: FINISH_REASON_STOP stop_token_id: 98 }"});
  EXPECT_EQ(
      Finish(),
      kCompletionHead +
          std::string(R"([{"index":0,"text":"","token_ids":null,"prompt_token_ids":null,)"
                      R"("logprobs":null,"prompt_logprobs":null,"finish_reason":"length",)"
                      R"("stop_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":0,)"
                      R"("total_tokens":3,"prompt_tokens_details":{"cached_tokens":2}}})"));
}

TEST_F(AnswerWriterTest, ChoicesOfABatchAreInTheOrderOfThePrompts) {
  Parse(CompletionFormat(), R"({"prompt": ["a", "b"], "n": 2})");
  for (const uint32_t prompt : {1, 0}) {
    for (const uint32_t sample : {1, 0}) {
      const std::string index = fmt::format("index: {}", sample);
      Add({fmt::format("delta {{ {} token_ids: 97 text: '{}.{}' }}", index, prompt, sample),
           "finish { " + index + " reason: FINISH_REASON_LENGTH }"},
          prompt);
    }
  }
  const std::string answer = Finish();
  size_t at = 0;
  for (const std::string choice : {R"("index":0,"text":"0.0")", R"("index":1,"text":"0.1")",
                                   R"("index":2,"text":"1.0")", R"("index":3,"text":"1.1")"}) {
    at = answer.find(choice, at);
    ASSERT_NE(at, std::string::npos) << choice << " in " << answer;
  }
}

TEST_F(AnswerWriterTest, AFailedStreamEndsWithTheErrorAndDone) {
  Completion(R"("stream": true)");
  std::string out;
  writer_->Fail(Internal("the worker is lost"), out);
  EXPECT_EQ(out, Event(R"({"error":{"message":"the worker is lost","type":"server_error",)"
                       R"("param":null,"code":null}})") +
                     "data: [DONE]\n\n");
}

TEST_F(AnswerWriterTest, AnAbortIsSaid) {
  Completion(R"("stream": false)");
  Add({"finish { index: 0 reason: FINISH_REASON_ABORT }"});
  EXPECT_NE(Finish().find(R"("finish_reason":"abort")"), std::string::npos);
}

TEST(JsonWriterTest, EscapesWhatJsonDoesNotAllow) {
  std::string out;
  AppendJsonString(std::string_view("a\"\\\b\x01\x7f\0\xc3\xa9\xff\xe2\x82z", 13), out);
  EXPECT_EQ(out, "\"a\\\"\\\\\\u0008\\u0001\\u007f\\u0000\xc3\xa9\xEF\xBF\xBD\xEF\xBF\xBDz\"");
}

}  // namespace
}  // namespace lockstep::router
