// The output of chats with tools and reasoning, from tokens to messages.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/router/serving/output/tool_output_fixture.h"

namespace lockstep::router {
namespace {

using ::lockstep::testing::Bytes;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

TEST_F(ToolOutputTest, ReasoningContentAndCallsAreToldApart) {
  ReadHermes();
  const Said said =
      Say("<think>\nhm\n</think>\n\nI look.\n" + std::string(kHermesCall) + kOtherHermesCall);
  EXPECT_EQ(said.reasoning, "hm");
  EXPECT_THAT(said.text, MatchesRegex("I look\\.\n?"));
  ASSERT_THAT(said.calls, SizeIs(2));
  EXPECT_EQ(said.calls[0].name, "f");
  EXPECT_EQ(said.calls[0].arguments, "{\"x\": 1}");
  EXPECT_EQ(said.calls[1].name, "g");
  EXPECT_EQ(said.calls[1].arguments, "{}");
  EXPECT_THAT(said.calls[0].id, MatchesRegex("call_[0-9A-Za-z]+"));
  EXPECT_THAT(said.calls[0].id, SizeIs(29));
  EXPECT_NE(said.calls[0].id, said.calls[1].id);
  EXPECT_EQ(said.finish.reason(), lockstep::v1::FINISH_REASON_TOOL_CALLS);
  EXPECT_EQ(builder_->tool_calls().num_whole, 2u);
  EXPECT_EQ(builder_->tool_calls().num_broken, 0u);
  EXPECT_EQ(builder_->end(), absl::OkStatus());
}

// OpenAI's rule: a client that names the function gets no news by "tool_calls".
TEST_F(ToolOutputTest, ACallOfANamedFunctionEndsWithStop) {
  ReadHermes(/*single_call=*/true);
  OutputReading reading = *options_.reading;
  for (const bool named : {false, true}) {
    reading.forced = OutputReading::Forced{.grammar = {.single = true}, .named = named};
    options_.reading = std::make_shared<const OutputReading>(reading);
    const Said said = Say(kHermesCall);
    EXPECT_THAT(said.calls, SizeIs(1));
    EXPECT_EQ(said.finish.reason(),
              named ? lockstep::v1::FINISH_REASON_STOP : lockstep::v1::FINISH_REASON_TOOL_CALLS);
    EXPECT_EQ(Say("<tool_call>\n{\"name\": \"f\", ", FinishReason::kLength).finish.reason(),
              lockstep::v1::FINISH_REASON_LENGTH);
  }
}

TEST_F(ToolOutputTest, HowTokensCameTogetherChangesNothing) {
  ReadHermes();
  options_.stop_strings = {"never", "</tool_call>!"};
  const std::vector<TokenId> tokens = Bytes("<think>\nh\u00e9m\n</think>\n\nI look.\n" +
                                            std::string(kHermesCall) + kOtherHermesCall);
  const Said whole = Say(tokens, {tokens.size()}, FinishReason::kStop, tokenizer_);
  ASSERT_THAT(whole.calls, SizeIs(2));
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<size_t> sizes = {1};
    for (int i = 0; i < round % 5; ++i) sizes.push_back(1 + random() % 20);
    const Said said = Say(tokens, sizes, FinishReason::kStop, tokenizer_);
    EXPECT_EQ(said.reasoning, whole.reasoning);
    EXPECT_EQ(said.text, whole.text);
    EXPECT_EQ(said.calls, whole.calls);
    EXPECT_EQ(said.tokens, tokens);
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(said.finish, whole.finish));
  }
}

TEST_F(ToolOutputTest, LengthAlwaysWins) {
  ReadHermes();
  const std::string text = std::string(kHermesCall) + kOtherHermesCall;
  for (size_t size = 1; size <= text.size(); ++size) {
    SCOPED_TRACE(size);
    const Said said = Say(text.substr(0, size), FinishReason::kLength);
    EXPECT_EQ(said.finish.reason(), lockstep::v1::FINISH_REASON_LENGTH);
    // A call that is cut is not broken.
    EXPECT_EQ(builder_->tool_calls().num_broken, 0u);
  }
}

TEST_F(ToolOutputTest, AnOutputWithoutCallsJustStops) {
  ReadHermes();
  const Said said = Say("Nothing to call.");
  EXPECT_EQ(said.text, "Nothing to call.");
  EXPECT_THAT(said.calls, IsEmpty());
  EXPECT_EQ(said.finish.reason(), lockstep::v1::FINISH_REASON_STOP);
}

TEST_F(ToolOutputTest, WhatIsNoCallIsContent) {
  ReadHermes();
  const Said said = Say("<tool_call>\nnot JSON\n</tool_call>");
  EXPECT_THAT(said.text, ::testing::HasSubstr("not JSON"));
  EXPECT_THAT(said.calls, IsEmpty());
  EXPECT_EQ(said.finish.reason(), lockstep::v1::FINISH_REASON_STOP);
}

TEST_F(ToolOutputTest, ABrokenCallIsCounted) {
  ReadHermes();
  Say("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": oops}}\n</tool_call>");
  EXPECT_EQ(builder_->tool_calls().num_whole, 0u);
  EXPECT_EQ(builder_->tool_calls().num_broken, 1u);
  EXPECT_EQ(What().finish.reason(), lockstep::v1::FINISH_REASON_STOP);
}

TEST_F(ToolOutputTest, OneCallMayBeAllThatIsWanted) {
  ReadHermes(/*single_call=*/true);
  Start(tokenizer_);
  const std::vector<TokenId> tokens = Bytes(std::string(kHermesCall) + kOtherHermesCall);
  ConsumeSample(Sample(tokens));
  const Said said = What();
  ASSERT_THAT(said.calls, SizeIs(1));
  EXPECT_EQ(said.calls[0].arguments, "{\"x\": 1}");
  EXPECT_EQ(said.finish.reason(), lockstep::v1::FINISH_REASON_TOOL_CALLS);
  EXPECT_EQ(said.finish.matched_case(), lockstep::v1::Finish::MATCHED_NOT_SET);
  EXPECT_THAT(stopped_, ElementsAre(0));
  EXPECT_EQ(said.finish.usage().completion_tokens(), said.tokens.size());
  EXPECT_LE(said.tokens.size(), std::string(kHermesCall).size());
  EXPECT_EQ(builder_->end(), absl::OkStatus());
  // What ran ahead is not delivered.
  const size_t num_messages = messages_.size();
  ConsumeSample(Sample(Bytes("more")));
  EXPECT_THAT(messages_, SizeIs(num_messages));
}

TEST_F(ToolOutputTest, StopStringsEndCallsToo) {
  ReadHermes();
  options_.stop_strings = {"\nObserve", "\"g\""};
  const Said said = Say(std::string(kHermesCall) + "\nObserve: 4");
  ASSERT_THAT(said.calls, SizeIs(1));
  EXPECT_EQ(said.finish.reason(), lockstep::v1::FINISH_REASON_TOOL_CALLS);
  EXPECT_EQ(said.finish.stop_string(), "\nObserve");
  EXPECT_THAT(stopped_, ElementsAre(0));
  // In the middle of the second call.
  const Said cut = Say(std::string(kHermesCall) + kOtherHermesCall);
  EXPECT_EQ(cut.calls.at(0).arguments, "{\"x\": 1}");
  EXPECT_EQ(cut.finish.stop_string(), "\"g\"");
  EXPECT_THAT(cut.text, ::testing::Not(::testing::HasSubstr("\"g\"")));
}

TEST_F(ToolOutputTest, LogprobsComeOnceForEachToken) {
  ReadHermes();
  Start(tokenizer_);
  const std::vector<TokenId> tokens =
      Bytes("<think>a</think>b" + std::string(kHermesCall) + kOtherHermesCall);
  SampleOutput sample = Sample(tokens);
  for (const TokenId token : tokens) {
    sample.logprobs.push_back({.token = token, .logprob = -1, .rank = 1, .top = {}});
  }
  ConsumeSample(std::move(sample));
  End(FinishReason::kStop);
  EXPECT_EQ(What().tokens, tokens);
  EXPECT_EQ(What().num_logprobs, tokens.size());
}

// Each token with its log-probability; "_" for the tokens of reasoning.
TEST_F(ToolOutputTest, LogprobsSayWhichTokensAreReasoning) {
  const std::string output = "<think>abc</think>def";
  // Those of the opening marker are no reasoning before it is whole.
  const std::string expected =
      "<think" + std::string(std::string(">abc</think>").size(), '_') + "def";
  const size_t end = output.size();
  for (const char* const stop : {"", "c</think>d!", "abc</think>defg"}) {
    for (const size_t size : {size_t{1}, size_t{4}, end}) {
      SCOPED_TRACE(fmt::format("{} at once, stop string \"{}\"", size, stop));
      request_->sampling.num_logprobs = 0;
      ReadHermes();
      options_.stop_strings.clear();
      if (*stop != '\0') options_.stop_strings.emplace_back(stop);
      Start(tokenizer_);
      for (size_t at = 0; at < end; at += size) {
        SampleOutput sample = Sample(Bytes(output.substr(at, size)));
        for (const TokenId token : sample.tokens) {
          sample.logprobs.push_back({.token = token, .logprob = -1, .rank = 1, .top = {}});
        }
        ConsumeSample(std::move(sample));
      }
      End(FinishReason::kStop);
      std::string shown;
      for (const lockstep::v1::GenerateResponse& message : messages_) {
        for (const lockstep::v1::TokenLogprob& entry : message.delta().logprobs()) {
          shown += entry.reasoning() ? '_' : static_cast<char>(entry.token_id());
        }
      }
      EXPECT_EQ(shown, expected);
      EXPECT_EQ(What().reasoning, "abc");
      EXPECT_EQ(What().text, "def");
    }
  }
}

TEST_F(ToolOutputTest, SamplesHaveCallsOfTheirOwn) {
  request_->num_samples = 2;
  ReadHermes();
  Start(tokenizer_);
  const std::vector<TokenId> tokens = Bytes(kHermesCall);
  for (const TokenId token : tokens) {
    RequestOutput output;
    output.samples.push_back(Sample({token}, 0));
    output.samples.push_back(Sample({token}, 1));
    Consume(std::move(output));
  }
  End(FinishReason::kStop, 0);
  End(FinishReason::kLength, 1);
  EXPECT_EQ(What(0).calls.at(0).arguments, "{\"x\": 1}");
  EXPECT_EQ(What(1).calls.at(0).arguments, "{\"x\": 1}");
  EXPECT_NE(What(0).calls.at(0).id, What(1).calls.at(0).id);
  EXPECT_EQ(What(0).finish.reason(), lockstep::v1::FINISH_REASON_TOOL_CALLS);
  EXPECT_EQ(What(1).finish.reason(), lockstep::v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(builder_->tool_calls().num_whole, 2u);
}

TEST_F(ToolOutputTest, TokensOfReasoningAreCounted) {
  ReadHermes();
  const std::string thought = "<think>abc</think>";
  const Said said = Say(thought + "def");
  EXPECT_EQ(said.reasoning, "abc");
  // Those of the opening marker are no reasoning before it is whole.
  EXPECT_EQ(said.finish.usage().reasoning_tokens(), thought.size() - std::string("<think").size());
  EXPECT_EQ(said.finish.usage().completion_tokens(), thought.size() + 3);
  Read("hermes", {.split_reasoning = true, .begins_in_reasoning = true});
  const Said begun = Say("abc</think>def");
  EXPECT_EQ(begun.reasoning, "abc");
  EXPECT_EQ(begun.text, "def");
  EXPECT_EQ(begun.finish.usage().reasoning_tokens(), std::string("abc</think>").size());
}

TEST_F(ToolOutputTest, ReasoningStaysInTheTextIfItIsNotSplitOff) {
  Read("hermes", {.parse_calls = true});
  const Said said = Say("<think>abc</think>def");
  EXPECT_EQ(said.text, "<think>abc</think>def");
  EXPECT_EQ(said.reasoning, "");
}

}  // namespace
}  // namespace lockstep::router
