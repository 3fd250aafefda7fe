#include "router/client/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

lockstep::v1::GenerateResponse Delta(uint32_t index, const std::string& text, uint32_t token) {
  lockstep::v1::GenerateResponse response;
  response.mutable_delta()->set_index(index);
  response.mutable_delta()->set_text(text);
  response.mutable_delta()->add_token_ids(token);
  lockstep::v1::TokenLogprob* const logprob = response.mutable_delta()->add_logprobs();
  logprob->set_token_id(token);
  logprob->set_logprob(-0.5f);
  logprob->set_rank(2);
  logprob->add_top_ids(9);
  logprob->add_top_logprobs(-0.25f);
  return response;
}

lockstep::v1::GenerateResponse Finish(uint32_t index) {
  lockstep::v1::GenerateResponse response;
  lockstep::v1::Finish* const finish = response.mutable_finish();
  finish->set_index(index);
  finish->set_reason(lockstep::v1::FINISH_REASON_STOP);
  finish->set_stop_string("END");
  finish->mutable_usage()->set_prompt_tokens(3);
  finish->mutable_usage()->set_completion_tokens(2);
  finish->mutable_usage()->set_seed(18446744073709551615u);
  finish->mutable_timings()->set_time_to_first_token_seconds(0.5);
  finish->mutable_timings()->set_total_seconds(1.0);
  return response;
}

// Two outputs whose messages came interleaved, the second one first.
Answer TwoOutputs() {
  Answer answer;
  lockstep::v1::GenerateResponse info;
  info.mutable_prompt_info()->set_request_id("r");
  info.mutable_prompt_info()->set_prompt_tokens(3);
  EXPECT_TRUE(answer.Add(info, 2).ok());
  EXPECT_TRUE(answer.Add(Delta(1, "x", 20), 2).ok());
  EXPECT_TRUE(answer.Add(Delta(0, "a", 10), 2).ok());
  EXPECT_TRUE(answer.Add(Delta(1, "y", 21), 2).ok());
  EXPECT_TRUE(answer.Add(Finish(1), 2).ok());
  return answer;
}

TEST(AnswerTest, ReasoningHasAMemberOfItsOwn) {
  Answer answer;
  lockstep::v1::GenerateResponse delta = Delta(0, "", 10);
  delta.mutable_delta()->set_reasoning("hm");
  EXPECT_TRUE(answer.Add(delta, 1).ok());
  EXPECT_TRUE(answer.Add(Delta(0, "yes", 11), 1).ok());
  lockstep::v1::GenerateResponse finish = Finish(0);
  finish.mutable_finish()->set_reason(lockstep::v1::FINISH_REASON_TOOL_CALLS);
  finish.mutable_finish()->mutable_usage()->set_reasoning_tokens(1);
  EXPECT_TRUE(answer.Add(finish, 1).ok());
  const auto output = nlohmann::json::parse(answer.ToJson("m"))["outputs"][0];
  EXPECT_EQ(output["reasoning"], "hm");
  EXPECT_EQ(output["text"], "yes");
  EXPECT_EQ(output["finish_reason"], "tool_calls");
  EXPECT_EQ(output["usage"]["reasoning_tokens"], 1);
}

lockstep::v1::GenerateResponse CallDelta(uint32_t call, const std::string& id,
                                         const std::string& name, const std::string& arguments) {
  lockstep::v1::GenerateResponse response;
  lockstep::v1::ToolCallDelta* const delta = response.mutable_delta()->add_tool_calls();
  delta->set_index(call);
  delta->set_id(id);
  delta->set_name(name);
  delta->set_arguments(arguments);
  return response;
}

TEST(AnswerTest, CallsArePutTogether) {
  Answer answer;
  EXPECT_TRUE(answer.Add(Delta(0, "I look.", 10), 1).ok());
  EXPECT_EQ(answer.outputs[0].CallLines(), "");
  for (const auto& delta :
       {CallDelta(0, "c1", "get_weather", ""), CallDelta(0, "", "", R"({"city": )"),
        CallDelta(0, "", "", R"("Paris"})"), CallDelta(1, "c2", "now", "{}"), Finish(0)}) {
    EXPECT_TRUE(answer.Add(delta, 1).ok());
  }
  EXPECT_EQ(answer.outputs[0].CallLines(), "call get_weather {\"city\": \"Paris\"}\ncall now {}\n");
  const auto output = nlohmann::json::parse(answer.ToJson("m"))["outputs"][0];
  EXPECT_EQ(output["text"], "I look.");
  EXPECT_EQ(output["tool_calls"].dump(),
            R"([{"arguments":"{\"city\": \"Paris\"}","id":"c1","name":"get_weather"},)"
            R"({"arguments":"{}","id":"c2","name":"now"}])");
  // A call that nobody began: a server must not make the client allocate.
  EXPECT_EQ(answer.Add(CallDelta(4'000'000'000u, "c", "f", ""), 1).code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(answer.outputs[0].tool_calls.size(), 2u);
}

TEST(AnswerTest, PutsDeltasTogetherByIndex) {
  Answer answer = TwoOutputs();
  ASSERT_EQ(answer.outputs.size(), 2u);
  EXPECT_EQ(answer.outputs[1].text, "xy");
  EXPECT_THAT(answer.outputs[1].token_ids, ElementsAre(20, 21));
  EXPECT_EQ(answer.outputs[0].text, "a");
  EXPECT_FALSE(answer.complete());
  EXPECT_TRUE(answer.Add(Finish(0), 2).ok());
  EXPECT_TRUE(answer.complete());
  EXPECT_FALSE(Answer().complete());
}

TEST(AnswerTest, JsonHoldsEverything) {
  Answer answer = TwoOutputs();
  EXPECT_TRUE(answer.Add(Finish(0), 2).ok());
  const auto json = nlohmann::json::parse(answer.ToJson("tiny"));
  EXPECT_EQ(json["model"], "tiny");
  EXPECT_EQ(json["request_id"], "r");
  EXPECT_EQ(json["prompt_tokens"], 3);
  EXPECT_FALSE(json.contains("prompt_logprobs"));
  const auto& output = json["outputs"][1];
  EXPECT_EQ(output["index"], 1);
  EXPECT_EQ(output["text"], "xy");
  EXPECT_EQ(output["token_ids"], (nlohmann::json{20, 21}));
  EXPECT_EQ(output["finish_reason"], "stop");
  EXPECT_EQ(output["stop_string"], "END");
  EXPECT_FALSE(output.contains("stop_token_id"));
  EXPECT_EQ(output["usage"]["seed"], 18446744073709551615u);
  EXPECT_EQ(output["timings"]["total_seconds"], 1.0);
  EXPECT_EQ(output["logprobs"][0]["rank"], 2);
  EXPECT_EQ(output["logprobs"][0]["top"][0]["token_id"], 9);
}

TEST(AnswerTest, JsonHasTokenIdsOnOneLine) {
  Answer answer = TwoOutputs();
  EXPECT_TRUE(answer.Add(Finish(0), 2).ok());
  const std::string text = answer.ToJson("tiny \"model\"");
  EXPECT_THAT(text,
              HasSubstr("{\n  \"request_id\": \"r\",\n  \"model\": \"tiny \\\"model\\\"\",\n"));
  EXPECT_THAT(text, HasSubstr("\n      \"token_ids\": [20,21],\n"));
  EXPECT_THAT(text, HasSubstr("\n          \"top\": [\n            {\n"));
}

TEST(AnswerTest, RefusesOutputsThatNobodyAskedFor) {
  Answer answer;
  for (const uint32_t index : {2u, 4'000'000'000u}) {
    EXPECT_EQ(answer.Add(Delta(index, "x", 1), 2).code(), absl::StatusCode::kInternal);
    EXPECT_EQ(answer.Add(Finish(index), 2).code(), absl::StatusCode::kInternal);
  }
  EXPECT_TRUE(answer.outputs.empty());
}

TEST(AnswerTest, StatsCountDecodedTokensOverDecodingTime) {
  Answer answer = TwoOutputs();
  EXPECT_TRUE(answer.Add(Finish(0), 2).ok());
  // Three tokens of two outputs: one was decoded after a first token, in half a second.
  EXPECT_THAT(answer.StatsLine(), HasSubstr("3 tokens, 2.0 tokens/s, first token after 0.500 s"));
  EXPECT_THAT(Answer().StatsLine(), HasSubstr("0 tokens, 0.0 tokens/s"));
}

}  // namespace
}  // namespace lockstep::router
