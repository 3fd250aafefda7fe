#include "router/serving/calls/response_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "tests/router/serving/byte_tokenizer.h"

namespace lockstep::router {
namespace {

using ::lockstep::testing::Bytes;
using ::lockstep::testing::ByteTokenizer;
using lockstep::v1::GenerateResponse;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const Instant kArrival = Instant::After(absl::Seconds(100));

class ResponseBuilderTest : public ::testing::Test {
 protected:
  ResponseBuilderTest() {
    request_->id = "r1";
    request_->arrival = kArrival;
    request_->prompt_tokens = {1, 2, 3};
    request_->sampling.seed = 42;
    request_->sampling.stop_token_ids = {ByteTokenizer::kEnd};
  }

  void Start() {
    builder_ = std::make_unique<ResponseBuilder>(tokenizer_, request_, options_);
    RequestOutput output;
    output.start = RequestOutput::Start{.num_cached_tokens = 2, .at = kArrival + absl::Seconds(1)};
    Consume(std::move(output));
  }

  void Consume(RequestOutput output) {
    builder_->Consume(std::move(output), kArrival + absl::Seconds(9), messages_, stopped_);
  }

  static SampleOutput Sample(const std::vector<TokenId>& tokens, uint32_t index = 0) {
    SampleOutput sample;
    sample.sample_index = index;
    sample.tokens.assign(tokens.begin(), tokens.end());
    sample.first_token_at = kArrival + absl::Seconds(2);
    return sample;
  }
  static SampleOutput Ended(SampleOutput sample, FinishReason reason,
                            std::optional<TokenId> stop_token = std::nullopt) {
    sample.end = SampleEnd{.reason = reason,
                           .stop_token = stop_token,
                           .num_generated_tokens = 0,
                           .at = kArrival + absl::Seconds(5)};
    return sample;
  }
  void ConsumeSample(SampleOutput sample) {
    RequestOutput output;
    output.samples.push_back(std::move(sample));
    Consume(std::move(output));
  }

  std::string TextOf(uint32_t index) const {
    std::string text;
    for (const GenerateResponse& message : messages_) {
      if (message.has_delta() && message.delta().index() == index) text += message.delta().text();
    }
    return text;
  }
  std::vector<TokenId> TokensOf(uint32_t index) const {
    std::vector<TokenId> ids;
    for (const GenerateResponse& message : messages_) {
      if (!message.has_delta() || message.delta().index() != index) continue;
      ids.insert(ids.end(), message.delta().token_ids().begin(), message.delta().token_ids().end());
    }
    return ids;
  }
  const lockstep::v1::Finish* FinishOf(uint32_t index) const {
    for (const GenerateResponse& message : messages_) {
      if (message.has_finish() && message.finish().index() == index) return &message.finish();
    }
    return nullptr;
  }

  ByteTokenizer tokenizer_;
  std::shared_ptr<Request> request_ = std::make_shared<Request>();
  TextOptions options_;
  std::unique_ptr<ResponseBuilder> builder_;
  std::vector<GenerateResponse> messages_;
  std::vector<uint32_t> stopped_;
};

TEST_F(ResponseBuilderTest, ThePromptsTokensAreToldWhenAskedFor) {
  Start();
  EXPECT_EQ(messages_.at(0).prompt_info().prompt_token_ids_size(), 0);
  messages_.clear();
  options_.prompt_token_ids = true;
  Start();
  const auto& ids = messages_.at(0).prompt_info().prompt_token_ids();
  EXPECT_EQ(std::vector<TokenId>(ids.begin(), ids.end()), (std::vector<TokenId>{1, 2, 3}));
}

TEST_F(ResponseBuilderTest, DraftsAreAddedUp) {
  Start();
  SampleOutput sample = Sample({'a', 'b', 'c'});
  sample.num_drafted = 4;
  sample.num_accepted_drafts = 2;
  ConsumeSample(sample);
  sample = Sample({'d'});
  sample.num_drafted = 1;
  ConsumeSample(Ended(sample, FinishReason::kLength));
  ASSERT_NE(FinishOf(0), nullptr);
  EXPECT_EQ(FinishOf(0)->usage().accepted_draft_tokens(), 2u);
  EXPECT_EQ(FinishOf(0)->usage().rejected_draft_tokens(), 3u);
}

TEST_F(ResponseBuilderTest, RightDraftsBehindAStopStringAreNotAccepted) {
  options_.stop_strings = {"b"};
  Start();
  SampleOutput sample = Sample({'a', 'b', 'c', 'd', 'e'});
  sample.num_drafted = 4;
  sample.num_accepted_drafts = 4;
  ConsumeSample(sample);
  ASSERT_NE(FinishOf(0), nullptr);
  EXPECT_EQ(FinishOf(0)->usage().completion_tokens(), 2u);
  EXPECT_EQ(FinishOf(0)->usage().accepted_draft_tokens(), 2u);
  EXPECT_EQ(FinishOf(0)->usage().rejected_draft_tokens(), 2u);
}

TEST_F(ResponseBuilderTest, PromptInfoThenTextThenFinish) {
  Start();
  ASSERT_THAT(messages_, SizeIs(1));
  EXPECT_EQ(messages_[0].prompt_info().request_id(), "r1");
  EXPECT_EQ(messages_[0].prompt_info().prompt_tokens(), 3u);
  EXPECT_EQ(messages_[0].prompt_info().cached_tokens(), 2u);
  ConsumeSample(Sample(Bytes("Hel")));
  EXPECT_EQ(messages_.back().delta().text(), "Hel");
  ConsumeSample(Ended(Sample(Bytes("lo")), FinishReason::kLength));
  EXPECT_EQ(TextOf(0), "Hello");
  EXPECT_THAT(TokensOf(0), ElementsAreArray(Bytes("Hello")));
  ASSERT_TRUE(messages_.back().has_finish());
  const lockstep::v1::Finish& finish = messages_.back().finish();
  EXPECT_EQ(finish.reason(), lockstep::v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(finish.matched_case(), lockstep::v1::Finish::MATCHED_NOT_SET);
  EXPECT_EQ(finish.usage().prompt_tokens(), 3u);
  EXPECT_EQ(finish.usage().completion_tokens(), 5u);
  EXPECT_EQ(finish.usage().cached_tokens(), 2u);
  EXPECT_EQ(finish.usage().seed(), 42u);
  EXPECT_DOUBLE_EQ(finish.timings().queue_seconds(), 1);
  EXPECT_DOUBLE_EQ(finish.timings().time_to_first_token_seconds(), 2);
  EXPECT_DOUBLE_EQ(finish.timings().total_seconds(), 5);
  EXPECT_EQ(builder_->end(), absl::OkStatus());
}

TEST_F(ResponseBuilderTest, DeltasNeverEndInsideACharacter) {
  Start();
  const std::string text = "a\u00e9\U0001F600";  // one, two and four bytes
  for (const TokenId token : Bytes(text)) ConsumeSample(Sample({token}));
  for (const GenerateResponse& message : messages_) {
    const std::string& piece = message.delta().text();
    EXPECT_TRUE(piece.empty() || piece == "a" || piece == "\u00e9" || piece == "\U0001F600")
        << piece;
  }
  EXPECT_EQ(TextOf(0), text);
}

TEST_F(ResponseBuilderTest, HalfACharacterAtTheEndBecomesAReplacement) {
  Start();
  ConsumeSample(Ended(Sample({'a', 0xe2, 0x82}), FinishReason::kLength));
  EXPECT_EQ(TextOf(0), "a\ufffd");
  EXPECT_THAT(TokensOf(0), SizeIs(3));
}

TEST_F(ResponseBuilderTest, StopStringAcrossTokensCutsTextAndUsage) {
  options_.stop_strings = {"never", "END"};
  Start();
  ConsumeSample(Sample(Bytes("abcE")));
  EXPECT_EQ(TextOf(0), "abc");  // "E" may become a stop string
  ConsumeSample(Sample(Bytes("NDxyz")));
  EXPECT_EQ(TextOf(0), "abc");
  EXPECT_THAT(TokensOf(0), ElementsAreArray(Bytes("abcEND")));
  ASSERT_NE(FinishOf(0), nullptr);
  EXPECT_EQ(FinishOf(0)->reason(), lockstep::v1::FINISH_REASON_STOP);
  EXPECT_EQ(FinishOf(0)->stop_string(), "END");
  EXPECT_EQ(FinishOf(0)->usage().completion_tokens(), 6u);
  EXPECT_DOUBLE_EQ(FinishOf(0)->timings().total_seconds(), 9);
  EXPECT_THAT(stopped_, ElementsAre(0));
  EXPECT_EQ(builder_->end(), absl::OkStatus());
  // What ran ahead is not delivered.
  const size_t num_messages = messages_.size();
  ConsumeSample(Ended(Sample(Bytes("more")), FinishReason::kStop));
  EXPECT_THAT(messages_, SizeIs(num_messages));
}

TEST_F(ResponseBuilderTest, IncludeStopKeepsTheStopString) {
  options_.stop_strings = {"END"};
  options_.include_stop = true;
  Start();
  ConsumeSample(Sample(Bytes("abENDc")));
  EXPECT_EQ(TextOf(0), "abEND");
}

TEST_F(ResponseBuilderTest, HeldBackTextComesWithTheEnd) {
  options_.stop_strings = {"END"};
  Start();
  ConsumeSample(Sample(Bytes("abEN")));
  EXPECT_EQ(TextOf(0), "ab");
  ConsumeSample(Ended(Sample({}), FinishReason::kLength));
  EXPECT_EQ(TextOf(0), "abEN");
  EXPECT_EQ(FinishOf(0)->reason(), lockstep::v1::FINISH_REASON_LENGTH);
  EXPECT_THAT(stopped_, IsEmpty());
}

TEST_F(ResponseBuilderTest, TextOfStopTokensIsLeftOut) {
  request_->sampling.stop_token_ids = {'!', ByteTokenizer::kEnd};
  Start();
  ConsumeSample(Ended(Sample(Bytes("hi!")), FinishReason::kStop, '!'));
  EXPECT_EQ(TextOf(0), "hi");
  EXPECT_THAT(TokensOf(0), ElementsAreArray(Bytes("hi!")));
  EXPECT_EQ(FinishOf(0)->stop_token_id(), static_cast<uint32_t>('!'));
  EXPECT_EQ(FinishOf(0)->usage().completion_tokens(), 3u);
}

TEST_F(ResponseBuilderTest, SpecialTokensShowWhenAskedFor) {
  options_.skip_special_tokens = false;
  options_.include_stop = true;
  Start();
  ConsumeSample(Ended(Sample({'a', ByteTokenizer::kStart, ByteTokenizer::kEnd}),
                      FinishReason::kStop, ByteTokenizer::kEnd));
  EXPECT_EQ(TextOf(0), "a<|im_start|><|im_end|>");
}

TEST_F(ResponseBuilderTest, SamplesAreIndependent) {
  request_->num_samples = 2;
  options_.stop_strings = {"b"};
  Start();
  RequestOutput output;
  output.samples.push_back(Sample(Bytes("ab"), 0));
  output.samples.push_back(Sample(Bytes("xy"), 1));
  Consume(std::move(output));
  EXPECT_THAT(stopped_, ElementsAre(0));
  EXPECT_FALSE(builder_->end().has_value());
  ConsumeSample(Ended(Sample(Bytes("z"), 1), FinishReason::kLength));
  EXPECT_EQ(TextOf(0), "a");
  EXPECT_EQ(TextOf(1), "xyz");
  EXPECT_EQ(builder_->end(), absl::OkStatus());
}

TEST_F(ResponseBuilderTest, LogprobsGoWithTheirTokens) {
  request_->sampling.num_logprobs = 1;
  Start();
  SampleOutput sample = Sample(Bytes("ab"));
  sample.logprobs = {{.token = 'a', .logprob = -0.5f, .rank = 2, .top = {{'q', -0.25f}}},
                     {.token = 'b', .logprob = -1.5f, .rank = 1, .top = {{'b', -1.5f}}}};
  ConsumeSample(std::move(sample));
  const lockstep::v1::OutputDelta& delta = messages_.back().delta();
  ASSERT_EQ(delta.logprobs_size(), 2);
  EXPECT_EQ(delta.logprobs(0).token_id(), static_cast<uint32_t>('a'));
  EXPECT_EQ(delta.logprobs(0).logprob(), -0.5f);
  EXPECT_EQ(delta.logprobs(0).rank(), 2u);
  EXPECT_EQ(delta.logprobs(0).top_ids(0), static_cast<uint32_t>('q'));
  EXPECT_EQ(delta.logprobs(0).top_logprobs(0), -0.25f);
}

TEST_F(ResponseBuilderTest, PromptInfoWaitsForPromptLogprobs) {
  request_->sampling.num_prompt_logprobs = 0;
  Start();
  EXPECT_THAT(messages_, IsEmpty());
  RequestOutput output;
  output.prompt_logprobs =
      std::vector<TokenLogprobs>{{.token = 2, .logprob = -1, .rank = 1, .top = {}},
                                 {.token = 3, .logprob = -2, .rank = 4, .top = {}}};
  output.samples.push_back(Sample(Bytes("a")));
  Consume(std::move(output));
  ASSERT_THAT(messages_, SizeIs(2));
  const lockstep::v1::PromptInfo& info = messages_[0].prompt_info();
  ASSERT_EQ(info.prompt_logprobs_size(), 3);
  EXPECT_EQ(info.prompt_logprobs(0).token_id(), 1u);
  EXPECT_EQ(info.prompt_logprobs(0).rank(), 0u);
  EXPECT_EQ(info.prompt_logprobs(2).rank(), 4u);
  EXPECT_TRUE(messages_[1].has_delta());
}

TEST_F(ResponseBuilderTest, MuchThatCameAtOnceIsCutIntoMessages) {
  Start();
  ConsumeSample(Sample(std::vector<TokenId>(2500, 'x')));
  ASSERT_THAT(messages_, SizeIs(4));
  EXPECT_EQ(messages_[1].delta().token_ids_size(), 1024);
  EXPECT_EQ(messages_[3].delta().token_ids_size(), 452);
}

struct MinTokensCase {
  const char* text;  // a token for each byte
  const char* stop;
  uint32_t min_tokens;
  const char* shown;
  bool stops;
};

// As vLLM does since its change 22014.
TEST_F(ResponseBuilderTest, StopStringsAreLookedForAfterTheFirstTokens) {
  const MinTokensCase cases[] = {
      {"abcabcxx", "c", 0, "ab", true},
      {"abcabcxx", "c", 2, "ab", true},
      {"abcabcxx", "c", 3, "abcab", true},
      {"abcabcxx", "c", 5, "abcab", true},
      {"abcabcxx", "c", 6, "abcabcxx", false},
      {"abcabcxx", "ca", 3, "ab", true},  // it ends after them
      {"abcabcxx", "ca", 4, "abcabcxx", false},
      {"abcabcxx", "bc", 3, "abca", true},
      {"abababab", "bab", 4, "aba", true},
      {"abababab", "bab", 3, "a", true},
      {"aaaa", "aa", 1, "", true},
      {"aaaa", "aa", 3, "aa", true},
      {"aaaa", "aa", 4, "aaaa", false},
      {"abc", "c", 9, "abc", false},
      {"ab\xC3\xA9", "\xC3\xA9", 3, "ab", true},
      {"ab\xC3\xA9", "\xC3\xA9", 4, "ab\xC3\xA9", false},
      {"ab\xC3", "\xEF\xBF\xBD", 2, "ab", true},  // the end of half a character
      {"ab\xC3", "\xEF\xBF\xBD", 3, "ab\xEF\xBF\xBD", false},
  };
  for (const MinTokensCase& entry : cases) {
    for (const bool together : {false, true}) {
      SCOPED_TRACE(std::string(entry.text) + " " + entry.stop + (together ? " together" : ""));
      request_->sampling.min_new_tokens = entry.min_tokens;
      options_.stop_strings = {entry.stop};
      messages_.clear();
      stopped_.clear();
      Start();
      const std::vector<TokenId> tokens = Bytes(entry.text);
      if (together) {
        ConsumeSample(Ended(Sample(tokens), FinishReason::kLength));
      } else {
        for (const TokenId token : tokens) ConsumeSample(Sample({token}));
        ConsumeSample(Ended(Sample({}), FinishReason::kLength));
      }
      EXPECT_EQ(TextOf(0), entry.shown);
      ASSERT_NE(FinishOf(0), nullptr);
      EXPECT_EQ(FinishOf(0)->reason(), entry.stops ? lockstep::v1::FINISH_REASON_STOP
                                                   : lockstep::v1::FINISH_REASON_LENGTH);
    }
  }
}

TEST_F(ResponseBuilderTest, AnErrorEndsTheCall) {
  Start();
  RequestOutput output;
  output.samples.push_back(Sample(Bytes("a")));
  output.end = absl::DeadlineExceededError("too late");
  Consume(std::move(output));
  EXPECT_EQ(TextOf(0), "a");
  EXPECT_EQ(FinishOf(0), nullptr);
  EXPECT_EQ(builder_->end(), absl::DeadlineExceededError("too late"));
}

TEST_F(ResponseBuilderTest, AnAbortWaitsForItsReason) {
  builder_ = std::make_unique<ResponseBuilder>(tokenizer_, request_, options_);
  ConsumeSample(Ended(Sample({}), FinishReason::kAborted));
  ASSERT_THAT(messages_, SizeIs(2));  // even before admission
  EXPECT_TRUE(messages_[0].has_prompt_info());
  EXPECT_EQ(FinishOf(0)->reason(), lockstep::v1::FINISH_REASON_ABORT);
  EXPECT_FALSE(builder_->end().has_value());
  RequestOutput output;
  output.end = absl::UnavailableError("shutting down");
  Consume(std::move(output));
  EXPECT_EQ(builder_->end(), absl::UnavailableError("shutting down"));
}

}  // namespace
}  // namespace lockstep::router
