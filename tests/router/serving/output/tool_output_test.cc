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
  ConsumeSample(WithLogprobs(tokens));
  End(FinishReason::kStop);
  EXPECT_EQ(What().tokens, tokens);
  EXPECT_EQ(What().num_logprobs, tokens.size());
}

// Shows a token of the text as it is, another one as "_", and an open one as "?".
TEST_F(ToolOutputTest, LogprobsSayWhichTokensAreText) {
  const std::string output = "<think>abc</think>\n\ndef";
  // What begins like a marker may be text.
  const std::string expected =
      "??????" + std::string(std::string(">abc</think>\n\n").size(), '_') + "def";
  const size_t end = output.size();
  for (const char* const stop : {"", "c</think>\n\nd!", "abc</think>\n\ndefg"}) {
    for (const size_t size : {size_t{1}, size_t{4}, end}) {
      SCOPED_TRACE(fmt::format("{} at once, stop string \"{}\"", size, stop));
      request_->sampling.num_logprobs = 0;
      ReadHermes();
      options_.stop_strings.clear();
      if (*stop != '\0') options_.stop_strings.emplace_back(stop);
      Start(tokenizer_);
      for (size_t at = 0; at < end; at += size) {
        ConsumeSample(WithLogprobs(Bytes(output.substr(at, size))));
      }
      End(FinishReason::kStop);
      std::string shown;
      for (const lockstep::v1::TokenLogprob& entry : Logprobs()) {
        shown += entry.part() == lockstep::v1::TOKEN_PART_OTHER ? '_'
                 : entry.part() == lockstep::v1::TOKEN_PART_OPEN
                     ? '?'
                     : static_cast<char>(entry.token_id());
      }
      EXPECT_EQ(shown, expected);
      EXPECT_EQ(What().reasoning, "abc");
      EXPECT_EQ(What().text, "def");
    }
  }
}

// The tokens of a text are its bytes here, so those that count as text spell it.
TEST_F(ToolOutputTest, TheTokensOfTheTextAreTheText) {
  const std::string call = kHermesCall;
  const std::string coder =
      "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>";
  const std::string final = "<|start|>assistant<|channel|>final<|message|>";
  const std::string preamble = "<|start|>assistant<|channel|>commentary<|message|>";
  const std::string harmony_call =
      "<|start|>assistant<|channel|>commentary to=functions.f<|constrain|>json<|message|>"
      "{\"x\": 1}<|call|>";
  const struct {
    const char* format;
    std::string output;
    std::string text;
  } cases[] = {
      {"hermes", "<think></think>\n\nHi", "Hi"},
      {"hermes", "<think>a</think>  \n Hi <b> you", " Hi <b> you"},
      {"hermes", "h\u00e9 <think", "h\u00e9 <think"},
      {"hermes",
       "<think>\nh\u00e9\n</think>\n\nI \u20ac.\n" + call + "\n" + kOtherHermesCall + "\nSo <tool",
       "I \u20ac.So <tool"},
      {"hermes", "<think>a" + call + "</think>\nb", "b"},
      {"hermes", "<tool_call>\nno\n</tool_call>", "<tool_call>\nno\n</tool_call>"},
      {"qwen3_coder", "<think>a</think>\n\nb\n" + coder + "\nc", "bc"},
      {"harmony", "<|channel|>final<|message|>Hi<|return|>", "Hi"},
      {"harmony", "<|channel|>analysis<|message|>hm<|end|>" + final + "H<|i", "H<|i"},
      {"harmony",
       "<|channel|>analysis<|message|>hm<|end|>" + preamble + "I look.<|end|>" + harmony_call,
       "I look."},
      {"harmony", "<|channel|>commentary<|message|>a<|end|>" + final + "b", "ab"},
  };
  request_->sampling.num_logprobs = 0;
  for (const auto& entry : cases) {
    for (const size_t size : {size_t{1}, size_t{3}, size_t{8}, entry.output.size()}) {
      SCOPED_TRACE(fmt::format("{}, {} at once", entry.output, size));
      Read(entry.format, {.parse_calls = true, .split_reasoning = true});
      Start(tokenizer_);
      for (size_t at = 0; at < entry.output.size(); at += size) {
        ConsumeSample(WithLogprobs(Bytes(entry.output.substr(at, size))));
      }
      End(FinishReason::kStop);
      std::string text, open;
      for (const lockstep::v1::TokenLogprob& logprob : Logprobs()) {
        if (logprob.part() == lockstep::v1::TOKEN_PART_OTHER) {
          open.clear();
          continue;
        }
        open += static_cast<char>(logprob.token_id());
        if (logprob.part() == lockstep::v1::TOKEN_PART_TEXT) text += std::exchange(open, {});
      }
      EXPECT_EQ(text + open, entry.text);
      EXPECT_EQ(What().text, entry.text);
    }
  }
}

TEST_F(ToolOutputTest, ATokenIsInTheMessageOfItsText) {
  ReadHermes();
  request_->sampling.num_logprobs = 0;
  Start(tokenizer_);
  ConsumeSample(WithLogprobs(Bytes("a" + std::string(kHermesCall) + "bc")));
  ASSERT_THAT(messages_, SizeIs(3));  // the prompt, the first text with the call, the second text
  EXPECT_EQ(messages_[1].delta().text(), "a");
  EXPECT_EQ(messages_[2].delta().text(), "bc");
  EXPECT_THAT(messages_[2].delta().token_ids(), ElementsAre('b', 'c'));
  EXPECT_THAT(messages_[2].delta().logprobs(), SizeIs(2));
  EXPECT_EQ(messages_[1].delta().token_ids_size(), messages_[1].delta().logprobs_size());
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
