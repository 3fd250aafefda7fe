#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "router/serving/calls/response_builder.h"
#include "tests/router/serving/byte_tokenizer.h"

namespace lockstep::router {

inline const Instant kOutputBegun = Instant::After(absl::Seconds(100));
inline constexpr char kOutputTools[] =
    R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},)"
    R"({"type": "function", "function": {"name": "g"}}])";
inline constexpr char kHermesCall[] =
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>";
inline constexpr char kOtherHermesCall[] =
    "\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>";

// All that one sample said.
struct Said {
  struct Call {
    std::string id, name, arguments;
    bool operator==(const Call&) const = default;
  };
  std::string reasoning, text;
  std::vector<Call> calls;
  std::vector<TokenId> tokens;
  size_t num_logprobs = 0;
  lockstep::v1::Finish finish;
};

class ToolOutputTest : public ::testing::Test {
 protected:
  ToolOutputTest() {
    request_->id = "r1";
    request_->arrival = kOutputBegun;
    request_->prompt_tokens = {1, 2, 3};
    request_->sampling.seed = 42;
    request_->sampling.stop_token_ids = {lockstep::testing::ByteTokenizer::kEnd};
  }

  void Read(std::string_view format, OutputParser::Options options, bool single_call = false) {
    options_.reading =
        std::make_shared<const OutputReading>(OutputReading{.format = **FindOutputFormat(format),
                                                            .tools = *ToolList::Parse(kOutputTools),
                                                            .options = options,
                                                            .single_call = single_call});
  }
  void ReadHermes(bool single_call = false) {
    Read("hermes", {.parse_calls = true, .split_reasoning = true}, single_call);
  }

  void Start(const Tokenizer& tokenizer) {
    messages_.clear();
    stopped_.clear();
    builder_ = std::make_unique<ResponseBuilder>(tokenizer, request_, options_);
    RequestOutput output;
    output.start = RequestOutput::Start{.num_cached_tokens = 0, .at = kOutputBegun};
    Consume(std::move(output));
  }
  void Consume(RequestOutput output) {
    builder_->Consume(std::move(output), kOutputBegun + absl::Seconds(9), messages_, stopped_);
  }
  void ConsumeSample(SampleOutput sample) {
    RequestOutput output;
    output.samples.push_back(std::move(sample));
    Consume(std::move(output));
  }
  static SampleOutput Sample(const std::vector<TokenId>& tokens, uint32_t index = 0) {
    SampleOutput sample;
    sample.sample_index = index;
    sample.tokens.assign(tokens.begin(), tokens.end());
    sample.first_token_at = kOutputBegun;
    return sample;
  }
  static SampleOutput WithLogprobs(const std::vector<TokenId>& tokens) {
    SampleOutput sample = Sample(tokens);
    for (const TokenId token : tokens) {
      sample.logprobs.push_back({.token = token, .logprob = -1, .rank = 1, .top = {}});
    }
    return sample;
  }
  // Of all tokens so far.
  std::vector<lockstep::v1::TokenLogprob> Logprobs() const {
    std::vector<lockstep::v1::TokenLogprob> logprobs;
    for (const lockstep::v1::GenerateResponse& message : messages_) {
      const auto& entries = message.delta().logprobs();
      logprobs.insert(logprobs.end(), entries.begin(), entries.end());
    }
    return logprobs;
  }
  void End(FinishReason reason, uint32_t index = 0) {
    SampleOutput sample = Sample({}, index);
    sample.end = SampleEnd{
        .reason = reason, .stop_token = {}, .num_generated_tokens = 0, .at = kOutputBegun};
    ConsumeSample(std::move(sample));
  }

  Said What(uint32_t index = 0) const {
    Said said;
    for (const lockstep::v1::GenerateResponse& message : messages_) {
      if (message.has_finish() && message.finish().index() == index) said.finish = message.finish();
      if (!message.has_delta() || message.delta().index() != index) continue;
      const auto& delta = message.delta();
      EXPECT_TRUE(said.text.empty() || delta.reasoning().empty()) << "reasoning after text";
      said.reasoning += delta.reasoning();
      said.text += delta.text();
      said.tokens.insert(said.tokens.end(), delta.token_ids().begin(), delta.token_ids().end());
      said.num_logprobs += static_cast<size_t>(delta.logprobs_size());
      for (const auto& call : delta.tool_calls()) {
        if (!call.id().empty()) {
          EXPECT_EQ(call.index(), said.calls.size());
          EXPECT_EQ(call.arguments(), "");
          said.calls.emplace_back();
        } else {
          EXPECT_EQ(call.name(), "");
        }
        Said::Call& to = said.calls.at(call.index());
        to.id += call.id();
        to.name += call.name();
        to.arguments += call.arguments();
      }
    }
    return said;
  }
  // The whole output, in pieces of these sizes, again and again.
  Said Say(const std::vector<TokenId>& tokens, const std::vector<size_t>& sizes,
           FinishReason reason, const Tokenizer& tokenizer) {
    Start(tokenizer);
    for (size_t at = 0, i = 0; at < tokens.size(); ++i) {
      const size_t size = std::min(sizes[i % sizes.size()], tokens.size() - at);
      ConsumeSample(Sample({tokens.begin() + static_cast<ptrdiff_t>(at),
                            tokens.begin() + static_cast<ptrdiff_t>(at + size)}));
      at += size;
    }
    End(reason);
    return What();
  }
  Said Say(const std::string& text, FinishReason reason = FinishReason::kStop) {
    return Say(lockstep::testing::Bytes(text), {text.size()}, reason, tokenizer_);
  }

  lockstep::testing::ByteTokenizer tokenizer_;
  std::shared_ptr<Request> request_ = std::make_shared<Request>();
  TextOptions options_;
  std::unique_ptr<ResponseBuilder> builder_;
  std::vector<lockstep::v1::GenerateResponse> messages_;
  std::vector<uint32_t> stopped_;
};

}  // namespace lockstep::router
