#include "router/mailboxes/outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "common/instant.h"

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const Instant kOutboxStart = Instant::After(absl::Seconds(1000));

TokensEvent Tokens(uint32_t sample, std::vector<TokenId> tokens) {
  return {.request = 1, .sample_index = sample, .tokens = std::move(tokens), .logprobs = {}};
}

TokenLogprobs Logprob(TokenId token) {
  return {.token = token, .logprob = -1, .rank = 1, .top = {}};
}

TEST(OutboxTest, MergesWhatTheReaderHasNotTaken) {
  Outbox outbox(1024, [] {});
  outbox.Start(3, kOutboxStart);
  TokensEvent first = Tokens(0, {1, 2});
  first.logprobs = {Logprob(1), Logprob(2)};
  first.num_drafted = 4;
  first.num_accepted_drafts = 1;
  ASSERT_TRUE(outbox.AddTokens(first, kOutboxStart + absl::Seconds(1)).ok());
  ASSERT_TRUE(outbox.AddTokens(Tokens(1, {9}), kOutboxStart + absl::Seconds(2)).ok());
  TokensEvent second = Tokens(0, {3});
  second.logprobs = {Logprob(3)};
  second.num_drafted = 2;
  ASSERT_TRUE(outbox.AddTokens(second, kOutboxStart + absl::Seconds(3)).ok());

  const RequestOutput output = outbox.Take();
  ASSERT_TRUE(output.start.has_value());
  EXPECT_EQ(output.start->num_cached_tokens, 3u);
  EXPECT_EQ(output.start->at, kOutboxStart);
  ASSERT_THAT(output.samples, SizeIs(2));
  EXPECT_THAT(output.samples[0].tokens, ElementsAre(1, 2, 3));
  EXPECT_THAT(output.samples[0].logprobs, SizeIs(3));
  EXPECT_EQ(output.samples[0].num_drafted, 6u);
  EXPECT_EQ(output.samples[0].num_accepted_drafts, 1u);
  EXPECT_EQ(output.samples[1].num_drafted, 0u);
  EXPECT_EQ(output.samples[0].first_token_at, kOutboxStart + absl::Seconds(1));
  EXPECT_EQ(output.samples[1].sample_index, 1u);
  EXPECT_THAT(output.samples[1].tokens, ElementsAre(9));
  EXPECT_FALSE(output.end.has_value());
  EXPECT_THAT(outbox.Take().samples, IsEmpty());
}

TEST(OutboxTest, FirstTokenTimeIsThatOfTheWholeSequence) {
  Outbox outbox(1024, [] {});
  ASSERT_TRUE(outbox.AddTokens(Tokens(0, {1}), kOutboxStart).ok());
  outbox.Take();
  ASSERT_TRUE(outbox.AddTokens(Tokens(0, {2}), kOutboxStart + absl::Seconds(5)).ok());
  EXPECT_EQ(outbox.Take().samples[0].first_token_at, kOutboxStart);
}

TEST(OutboxTest, NotifiesOnlyWhenThereIsNews) {
  int calls = 0;
  Outbox outbox(1024, [&calls] { ++calls; });
  outbox.Notify();
  EXPECT_EQ(calls, 0);
  ASSERT_TRUE(outbox.AddTokens(Tokens(0, {1}), kOutboxStart).ok());
  EXPECT_EQ(calls, 0);
  outbox.Notify();
  EXPECT_EQ(calls, 1);
  outbox.Take();
  outbox.Notify();
  EXPECT_EQ(calls, 1);
  outbox.End(absl::OkStatus());
  outbox.Notify();
  EXPECT_EQ(calls, 2);
}

TEST(OutboxTest, RefusesWhatPassesTheBoundAndKeepsTheRest) {
  Outbox outbox(4 * sizeof(TokenId), [] {});
  ASSERT_TRUE(outbox.AddTokens(Tokens(0, {1, 2, 3, 4}), kOutboxStart).ok());
  EXPECT_FALSE(outbox.AddTokens(Tokens(0, {5}), kOutboxStart).ok());
  outbox.End(absl::ResourceExhaustedError("too slow"));
  const RequestOutput output = outbox.Take();
  EXPECT_THAT(output.samples[0].tokens, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(output.end, absl::ResourceExhaustedError("too slow"));
  EXPECT_TRUE(outbox.AddTokens(Tokens(0, {5, 6, 7, 8}), kOutboxStart).ok());  // taking made room
}

TEST(OutboxTest, PromptLogprobsDoNotCountAgainstTheBound) {
  Outbox outbox(4 * sizeof(TokenId), [] {});
  ASSERT_TRUE(outbox.AddPromptLogprobs(std::vector<TokenLogprobs>(1000, Logprob(1))).ok());
  ASSERT_TRUE(outbox.AddTokens(Tokens(0, {1, 2, 3, 4}), kOutboxStart).ok());
  EXPECT_FALSE(outbox.AddTokens(Tokens(0, {5}), kOutboxStart).ok());
  const RequestOutput output = outbox.Take();
  ASSERT_TRUE(output.prompt_logprobs.has_value());
  EXPECT_THAT(*output.prompt_logprobs, SizeIs(1000));
  EXPECT_THAT(output.samples[0].tokens, ElementsAre(1, 2, 3, 4));
}

TEST(OutboxTest, CarriesTheEndOfASequence) {
  Outbox outbox(1024, [] {});
  FinishedEvent event;
  event.sample_index = 2;
  event.reason = FinishReason::kStop;
  event.stop_token = 7;
  event.num_generated_tokens = 5;
  outbox.EndSample(event, kOutboxStart);
  const RequestOutput output = outbox.Take();
  ASSERT_THAT(output.samples, SizeIs(1));
  ASSERT_TRUE(output.samples[0].end.has_value());
  EXPECT_EQ(output.samples[0].sample_index, 2u);
  EXPECT_EQ(output.samples[0].end->stop_token, 7u);
  EXPECT_EQ(output.samples[0].end->num_generated_tokens, 5u);
  EXPECT_EQ(output.samples[0].end->at, kOutboxStart);
}

TEST(OutboxTest, WhatWaitsIsMetered) {
  size_t num_metered = 0;
  Outbox outbox(
      1 << 20, [] {},
      [&](size_t num_bytes) {
        num_metered = num_bytes;
        return true;
      });
  ASSERT_TRUE(outbox.AddTokens(Tokens(0, {1, 2, 3}), kOutboxStart).ok());
  EXPECT_EQ(num_metered, 0u) << "a reader in time costs the meter nothing";
  size_t num_bytes = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(outbox.AddTokens(Tokens(0, std::vector<TokenId>(100)), kOutboxStart).ok());
    num_bytes += 100 * sizeof(TokenId);
  }
  EXPECT_GE(num_metered, num_bytes);
  EXPECT_LE(num_metered, num_bytes + (8 << 10));
  const std::vector<TokenLogprobs> entries(1000, Logprob(1));
  ASSERT_TRUE(outbox.AddPromptLogprobs(entries).ok());
  EXPECT_GE(num_metered, num_bytes + entries.size() * sizeof(TokenLogprobs));
  outbox.Take();
  EXPECT_EQ(num_metered, 0u);
}

TEST(OutboxTest, WhatTheMeterRefusesIsNotKept) {
  bool has_room = true;
  Outbox outbox(1 << 20, [] {}, [&](size_t) { return has_room; });
  ASSERT_TRUE(outbox.AddTokens(Tokens(0, std::vector<TokenId>(1000)), kOutboxStart).ok());
  has_room = false;
  EXPECT_EQ(outbox.AddTokens(Tokens(0, std::vector<TokenId>(5000)), kOutboxStart).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(outbox.AddPromptLogprobs(std::vector<TokenLogprobs>(1000, Logprob(1))).code(),
            absl::StatusCode::kResourceExhausted);
  const RequestOutput output = outbox.Take();
  EXPECT_THAT(output.samples[0].tokens, SizeIs(1000));
  EXPECT_FALSE(output.prompt_logprobs.has_value());
  // A little needs no room.
  EXPECT_TRUE(outbox.AddTokens(Tokens(0, {1, 2}), kOutboxStart).ok());
}

}  // namespace
}  // namespace lockstep::router
