#include "router/serving/validation/build_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "common/status.h"
#include "router/serving/validation/context_overflow.h"
#include "router/serving/validation/request_validator.h"
#include "tests/router/serving/small_requests.h"

// From a request that passed its checks to what the engine gets; and the defaults that fill the
// gaps.
namespace lockstep::router {
namespace {

using ::lockstep::testing::AddMessage;
using ::lockstep::testing::SmallLimits;
using ::lockstep::testing::SmallModel;
using ::lockstep::testing::SmallRequest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

using Wire = lockstep::v1::GenerateRequest;
using absl::StatusCode;

RequestContext Context() {
  RequestContext context;
  context.key = 17;
  context.made_up_id = "made-up";
  context.drawn_seed = 1234;
  context.now = Instant::After(absl::Seconds(1000));
  return context;
}

absl::StatusOr<Request> Build(const Wire& wire, std::vector<TokenId> prompt) {
  return BuildRequest(wire, std::move(prompt), SmallLimits(), SmallModel(), Context());
}

absl::StatusOr<Request> BuildWithout(const std::vector<TokenId>& forbidden, const Wire& wire) {
  RequestContext context = Context();
  context.forbidden_tokens = forbidden;
  return BuildRequest(wire, {5}, SmallLimits(), SmallModel(), context);
}

// A tokenizer may have more tokens than its model. 100 is the first that the model has not.
TEST(BuildRequestTest, ATokenThatTheModelHasNotIsRefusedIfItIsUsed) {
  EXPECT_TRUE(Build(SmallRequest(), {5, 99}).ok());
  Wire chat = SmallRequest();
  AddMessage(chat, "user", "x");
  const std::pair<Wire, const char*> cases[] = {
      {SmallRequest(),
       "text: it has token 100 of the tokenizer, but the model has only the tokens "
       "below 100"},
      {chat, "chat.messages: it has token 100"},
  };
  for (const auto& [wire, expected] : cases) {
    const absl::StatusOr<Request> request = Build(wire, {5, 100, 7});
    EXPECT_EQ(request.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(request.status()), HasSubstr(expected));
  }
  const absl::StatusOr<Request> request = BuildWithout({99, 100, 4000}, SmallRequest());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(request->sampling.logit_bias,
              ElementsAre(Pair(99, std::numeric_limits<float>::lowest())));
}

constexpr float kLowest = std::numeric_limits<float>::lowest();

TEST(BuildRequestTest, ForbiddenTokensHaveTheLowestScoreWhateverTheirBias) {
  Wire wire = SmallRequest();
  wire.mutable_sampling()->mutable_logit_bias()->insert({{9, 100.0f}, {10, 1.0f}});
  const absl::StatusOr<Request> request = BuildWithout({3, 9}, wire);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(request->sampling.logit_bias,
              ElementsAre(Pair(3, kLowest), Pair(9, kLowest), Pair(10, 1.0f)));
}

TEST(BuildRequestTest, AnAllowedTokenMustBeLeft) {
  Wire wire = SmallRequest();
  for (const TokenId id : {3u, 4u}) wire.mutable_sampling()->add_allowed_token_ids(id);
  EXPECT_TRUE(BuildWithout({3, 9}, wire).ok());
  wire.mutable_stop()->add_stop_token_ids(4);
  EXPECT_TRUE(BuildWithout({3, 9}, wire).ok());
  wire.mutable_stop()->set_min_tokens(1);
  EXPECT_EQ(BuildWithout({3, 9}, wire).status().code(), StatusCode::kInvalidArgument);
  wire.mutable_stop()->Clear();
  const absl::Status status = BuildWithout({3, 4, 9}, wire).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status),
              HasSubstr("sampling.bad_words: expected an id of allowed_token_ids"));
}

TEST(BuildRequestTest, DefaultsOfServerAndModel) {
  ModelFacts model = SmallModel();
  model.defaults.temperature = 0.6f;
  model.defaults.top_k = 20;
  const absl::StatusOr<Request> request =
      BuildRequest(SmallRequest(), {5, 6, 7}, SmallLimits(), model, Context());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->key, 17u);
  EXPECT_EQ(request->id, "made-up");
  EXPECT_EQ(request->arrival, Context().now);
  EXPECT_EQ(request->deadline, Instant::InfiniteFuture());
  EXPECT_EQ(request->num_samples, 1u);
  EXPECT_THAT(request->prompt_tokens, ElementsAre(5, 6, 7));
  EXPECT_FALSE(request->bypass_prefix_cache);
  const SamplingParams& sampling = request->sampling;
  EXPECT_EQ(sampling.temperature, 0.6f);
  EXPECT_EQ(sampling.top_k, 20u);
  EXPECT_EQ(sampling.top_p, 1.0f);
  EXPECT_EQ(sampling.repetition_penalty, 1.0f);
  EXPECT_EQ(sampling.seed, 1234u);
  EXPECT_THAT(sampling.stop_token_ids, ElementsAre(2, 7));
  EXPECT_EQ(sampling.min_new_tokens, 0u);
  EXPECT_EQ(sampling.max_new_tokens, 29u);
  EXPECT_EQ(sampling.num_logprobs, -1);
  EXPECT_EQ(sampling.num_prompt_logprobs, -1);
}

TEST(BuildRequestTest, WhatTheClientSaysWins) {
  Wire wire = SmallRequest();
  wire.set_request_id("mine");
  wire.set_tenant("t");
  wire.set_cache_salt("salt");
  wire.set_priority(-3);
  wire.set_bypass_prefix_cache(true);
  auto* const sampling = wire.mutable_sampling();
  sampling->set_temperature(0);
  sampling->set_top_p(0.5f);
  sampling->set_top_k(0);
  sampling->set_min_p(0.1f);
  sampling->set_presence_penalty(1);
  sampling->set_frequency_penalty(-1);
  sampling->set_repetition_penalty(1.5f);
  sampling->set_seed(0);
  sampling->set_n(3);
  (*sampling->mutable_logit_bias())[9] = -1;
  (*sampling->mutable_logit_bias())[3] = 2;
  for (const TokenId id : {9u, 3u, 9u}) sampling->add_allowed_token_ids(id);
  wire.mutable_stop()->set_max_tokens(6);
  wire.mutable_stop()->set_min_tokens(2);
  for (const TokenId id : {9u, 2u}) wire.mutable_stop()->add_stop_token_ids(id);
  wire.mutable_output()->set_logprobs(0);
  wire.mutable_output()->set_prompt_logprobs(2);

  const absl::StatusOr<Request> request = Build(wire, {5});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->id, "mine");
  EXPECT_EQ(request->tenant, "t");
  EXPECT_EQ(request->prefix_root.salt, "salt");
  EXPECT_EQ(request->priority, -3);
  EXPECT_TRUE(request->bypass_prefix_cache);
  EXPECT_EQ(request->num_samples, 3u);
  const SamplingParams& out = request->sampling;
  EXPECT_EQ(out.temperature, 0.0f);
  EXPECT_EQ(out.top_p, 0.5f);
  EXPECT_EQ(out.min_p, 0.1f);
  EXPECT_EQ(out.presence_penalty, 1.0f);
  EXPECT_EQ(out.frequency_penalty, -1.0f);
  EXPECT_EQ(out.repetition_penalty, 1.5f);
  EXPECT_EQ(out.seed, 0u);
  EXPECT_THAT(out.logit_bias, ElementsAre(Pair(3, 2.0f), Pair(9, -1.0f)));
  EXPECT_THAT(out.allowed_token_ids, ElementsAre(3, 9));
  EXPECT_THAT(out.stop_token_ids, ElementsAre(2, 7, 9));
  EXPECT_EQ(out.min_new_tokens, 2u);
  EXPECT_EQ(out.max_new_tokens, 6u);
  EXPECT_EQ(out.num_logprobs, 0);
  EXPECT_EQ(out.num_prompt_logprobs, 2);
}

TEST(BuildRequestTest, MinTokensMasksEndIdsUnlessTheyAreIgnored) {
  // What masks is what stops: ignored end ids are tokens like any other, before min_tokens and
  // after.
  Wire wire = SmallRequest();
  wire.mutable_stop()->set_min_tokens(3);
  wire.mutable_stop()->add_stop_token_ids(4);
  EXPECT_THAT(Build(wire, {5})->sampling.stop_token_ids, ElementsAre(2, 4, 7));
  wire.mutable_stop()->set_ignore_eos(true);
  EXPECT_THAT(Build(wire, {5})->sampling.stop_token_ids, ElementsAre(4));
  EXPECT_EQ(Build(wire, {5})->sampling.min_new_tokens, 3u);
}

TEST(BuildRequestTest, IgnoreEosLeavesTheClientsStopIds) {
  Wire wire = SmallRequest();
  wire.mutable_stop()->set_ignore_eos(true);
  EXPECT_THAT(Build(wire, {5})->sampling.stop_token_ids, IsEmpty());
  wire.mutable_stop()->add_stop_token_ids(4);
  EXPECT_THAT(Build(wire, {5})->sampling.stop_token_ids, ElementsAre(4));
}

TEST(BuildRequestTest, TruncationKeepsTheEnd) {
  Wire wire = SmallRequest();
  wire.set_truncate_prompt_tokens(2);
  EXPECT_THAT(Build(wire, {5, 6, 7, 8})->prompt_tokens, ElementsAre(7, 8));
  EXPECT_THAT(Build(wire, {5})->prompt_tokens, ElementsAre(5));
}

// The context has 32 tokens.
TEST(BuildRequestTest, TruncationMayLeaveRoomForTheOutput) {
  const struct {
    uint32_t max_tokens;  // 0: not given
    size_t num_prompt_tokens;
    size_t num_kept;
  } cases[] = {{0, 31, 31},  {0, 100, 31}, {1, 100, 31}, {20, 100, 12},
               {20, 12, 12}, {20, 5, 5},   {31, 100, 1}};
  for (const auto& [max_tokens, num_prompt_tokens, num_kept] : cases) {
    Wire wire = SmallRequest();
    wire.set_truncate_prompt_tokens(kAllThatFits);
    if (max_tokens > 0) wire.mutable_stop()->set_max_tokens(max_tokens);
    std::vector<TokenId> prompt(num_prompt_tokens, 1);
    prompt.back() = 7;
    const absl::StatusOr<Request> request = Build(wire, std::move(prompt));
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(request->prompt_tokens.size(), num_kept) << max_tokens << " " << num_prompt_tokens;
    EXPECT_EQ(request->prompt_tokens.back(), 7u);
  }
  Wire wire = SmallRequest();
  wire.set_truncate_prompt_tokens(kAllThatFits);
  wire.mutable_stop()->set_max_tokens(32);
  EXPECT_THAT(Message(Build(wire, std::vector<TokenId>(100, 1)).status()),
              HasSubstr("(1 in the prompt, 32 in the completion)"));
}

std::string BuildError(const Wire& wire, size_t num_prompt_tokens) {
  const absl::StatusOr<Request> request = Build(wire, std::vector<TokenId>(num_prompt_tokens, 1));
  EXPECT_EQ(request.status().code(), StatusCode::kInvalidArgument);
  return Message(request.status());
}

TEST(BuildRequestTest, PromptAndNewTokensFitTheContext) {
  Wire wire = SmallRequest();
  EXPECT_THAT(BuildError(wire, 0), HasSubstr("text: expected 1 to 31 tokens (context 32), got 0"));
  EXPECT_TRUE(Build(wire, std::vector<TokenId>(31, 1)).ok());
  // One token at least is generated.
  EXPECT_THAT(BuildError(wire, 32), HasSubstr("you requested 33 tokens (32 in the prompt, 1 in"));
  wire.mutable_stop()->set_max_tokens(20);
  EXPECT_TRUE(Build(wire, std::vector<TokenId>(12, 1)).ok());
  EXPECT_THAT(
      BuildError(wire, 13),
      HasSubstr(
          "This model's maximum context length is 32 tokens. However, you requested 33 tokens "
          "(13 in the prompt, 20 in the completion)."));
  wire.mutable_chat();
  EXPECT_THAT(BuildError(wire, 13), HasSubstr("(13 in the messages, 20 in the completion)."));
}

TEST(BuildRequestTest, MaxTokensThatMayFitAreLoweredToTheRoomThereIs) {
  Wire wire = SmallRequest();
  wire.mutable_stop()->set_fit_max_tokens(true);
  const struct {
    uint32_t max_tokens;  // 0: not given
    size_t num_prompt_tokens;
    uint32_t expected;
  } cases[] = {{20, 12, 20}, {20, 13, 19}, {0xffffffff, 31, 1}, {5, 1, 5}, {0, 2, 30}};
  for (const auto& [max_tokens, num_prompt_tokens, expected] : cases) {
    wire.mutable_stop()->clear_max_tokens();
    if (max_tokens > 0) wire.mutable_stop()->set_max_tokens(max_tokens);
    const auto request = Build(wire, std::vector<TokenId>(num_prompt_tokens, 1));
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(request->sampling.max_new_tokens, expected) << max_tokens;
  }
  // A prompt without room for any output stays an error.
  EXPECT_THAT(BuildError(wire, 32), HasSubstr("(32 in the prompt, 1 in the completion)"));
}

TEST(BuildRequestTest, MoreNewTokensThanAnyContextAreAnOverflow) {
  Wire wire = SmallRequest();
  wire.mutable_stop()->set_max_tokens(0xffffffff);
  const absl::Status status = Build(wire, {5, 6}).status();
  EXPECT_THAT(Message(status), HasSubstr("you requested 4294967297 tokens (2 in the prompt, "
                                         "4294967295 in the completion)."));
  EXPECT_THAT(Message(status), ::testing::EndsWith("(context_length_exceeded)."));
  EXPECT_EQ(ContextOverflowPath(status), "stop.max_tokens");
}

TEST(BuildRequestTest, PromptLimitBelowTheContext) {
  RequestLimits limits = SmallLimits();
  limits.max_prompt_tokens = 4;
  const auto build = [&](size_t size) {
    return BuildRequest(SmallRequest(), std::vector<TokenId>(size, 1), limits, SmallModel(),
                        Context());
  };
  EXPECT_TRUE(build(4).ok());
  EXPECT_THAT(Message(build(5).status()), HasSubstr("text: expected 1 to 4 tokens"));
}

TEST(BuildRequestTest, ALengthIsOfTheFieldThatHasThePrompt) {
  Wire chat;
  AddMessage(chat, "user", "x");
  EXPECT_THAT(BuildError(chat, 0), HasSubstr("chat.messages: expected 1 to 31 tokens"));
  Wire ids;
  ids.mutable_token_ids()->add_ids(1);
  EXPECT_THAT(BuildError(ids, 0), HasSubstr("token_ids.ids: expected 1 to 31 tokens"));
}

TEST(BuildRequestTest, MinTokensNotAboveMaxTokens) {
  Wire wire = SmallRequest();
  wire.mutable_stop()->set_max_tokens(5);
  wire.mutable_stop()->set_min_tokens(5);
  EXPECT_TRUE(Build(wire, {1}).ok());
  wire.mutable_stop()->set_min_tokens(6);
  EXPECT_THAT(BuildError(wire, 1),
              HasSubstr("stop.min_tokens: expected at most max_tokens = 5, got 6"));
}

TEST(BuildRequestTest, SomethingMustBeLeftToSample) {
  Wire wire = SmallRequest();
  wire.mutable_sampling()->add_allowed_token_ids(7);
  EXPECT_TRUE(Build(wire, {1}).ok());
  wire.mutable_stop()->set_min_tokens(1);
  EXPECT_THAT(BuildError(wire, 1), HasSubstr("sampling.allowed_token_ids"));
  wire.mutable_sampling()->add_allowed_token_ids(8);
  EXPECT_TRUE(Build(wire, {1}).ok());
}

TEST(BuildRequestTest, PromptLogprobsFitOneMessage) {
  RequestLimits limits = SmallLimits();
  limits.max_prompt_logprob_cells = 50;
  Wire wire = SmallRequest();
  wire.mutable_output()->set_prompt_logprobs(2);
  const auto build = [&](size_t size) {
    return BuildRequest(wire, std::vector<TokenId>(size, 1), limits, SmallModel(), Context());
  };
  EXPECT_TRUE(build(10).ok());
  EXPECT_THAT(
      Message(build(11).status()),
      HasSubstr(
          "output.prompt_logprobs: expected a prompt of at most 10 tokens for k = 2, got 11"));
}

TEST(BuildRequestTest, DeadlineInThePast) {
  RequestContext context = Context();
  context.deadline = context.now;
  EXPECT_EQ(BuildRequest(SmallRequest(), {1}, SmallLimits(), SmallModel(), context).status().code(),
            StatusCode::kDeadlineExceeded);
  context.deadline = context.now + absl::Nanoseconds(1);
  EXPECT_TRUE(BuildRequest(SmallRequest(), {1}, SmallLimits(), SmallModel(), context).ok());
}

TEST(RequestLimitsTest, ReportsEveryViolation) {
  EXPECT_TRUE(RequestLimits{}.Validate().ok());
  RequestLimits limits;
  limits.max_prompt_bytes = 0;
  limits.max_samples = 0;
  limits.max_logprobs = 2000;
  const std::string message = Message(limits.Validate());
  EXPECT_THAT(message, HasSubstr("max_prompt_bytes"));
  EXPECT_THAT(message, HasSubstr("max_samples"));
  EXPECT_THAT(message, HasSubstr("max_logprobs"));
}

}  // namespace
}  // namespace lockstep::router
