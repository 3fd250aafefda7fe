#include "router/engine/replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "common/status.h"
#include "tests/router/engine/replica_fixture.h"

namespace lockstep::router {
namespace {

using ::lockstep::router::testing::Client;
using ::lockstep::router::testing::kStart;
using ::lockstep::router::testing::ReplicaTest;
using ::lockstep::testing::GreedyTokens;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST_F(ReplicaTest, StreamsARequestToItsEnd) {
  Connect();
  const auto client = Submit({1, 2, 3, 4, 5}, 10);
  clock_.Advance(absl::Seconds(1));
  RunUntilIdle();
  client->Read();
  EXPECT_THAT(client->tokens[0], ElementsAreArray(GreedyTokens({}, {1, 2, 3, 4, 5}, 10)));
  ASSERT_TRUE(client->admission.has_value());
  EXPECT_EQ(client->admission->at, kStart);
  ASSERT_TRUE(client->ends[0].has_value());
  EXPECT_EQ(client->ends[0]->reason, FinishReason::kLength);
  EXPECT_EQ(client->ends[0]->num_generated_tokens, 10u);
  EXPECT_EQ(client->end, absl::OkStatus());
  ExpectClean();
}

TEST_F(ReplicaTest, OfItsAdmissionAClientHearsWithTheFirstToken) {
  Connect();
  const auto client = Submit({1, 2, 3}, 4);
  EXPECT_EQ(client->num_told, 0);
  RunSteps(1);
  EXPECT_GT(client->num_told, 0);
  client->Read();
  EXPECT_TRUE(client->admission.has_value());
  EXPECT_THAT(client->tokens[0], SizeIs(1));
}

TEST_F(ReplicaTest, OfItsAdmissionAClientHearsWhenStepsAreOverThatBroughtNoToken) {
  Connect();
  const auto client = Submit(std::vector<TokenId>(200, 7), 4);  // more than two steps take
  RunSteps(1);
  EXPECT_EQ(client->num_told, 0);
  RunSteps(1);
  EXPECT_EQ(client->num_told, 1);
  client->Read();
  EXPECT_TRUE(client->admission.has_value());
  EXPECT_THAT(client->tokens[0], SizeIs(0));
}

TEST_F(ReplicaTest, KeepsTwoStepsInFlight) {
  Connect();
  const auto client = Submit({1, 2, 3}, 8);
  EXPECT_EQ(link_.num_sent(), 2u);
  RunSteps(1);
  EXPECT_EQ(link_.num_sent(), 2u);
}

TEST_F(ReplicaTest, CountsWhatHappened) {
  Connect();
  const auto first = Submit({1, 2, 3, 4, 5, 6, 7, 8, 9}, 4);
  RunUntilIdle();
  const auto second = Submit({1, 2, 3, 4, 5, 6, 7, 8, 9}, 4);
  RunUntilIdle();
  second->Read();
  EXPECT_EQ(second->admission->num_cached_tokens, 8u);
  EXPECT_EQ(metrics_.generation_tokens_total->Value(), 8);
  EXPECT_EQ(metrics_.prompt_tokens_total->Value(), 18);
  EXPECT_EQ(metrics_.prompt_tokens_cached_total->Value(), 8);
  EXPECT_EQ(metrics_.prefix_cache_hit_tokens_total->Value(), 8);
  EXPECT_EQ(NumFinished(FinishedAs::kLength), 2);
  EXPECT_EQ(metrics_.kv_blocks[1]->Value(), 0);
  EXPECT_EQ(metrics_.kv_blocks[2]->Value(), replica_.board().status().scheduler.cached_blocks);
  EXPECT_EQ(metrics_.running_requests->Value(), 0);
}

TEST_F(ReplicaTest, TheTimeOfARequestIsItsPromptsAndThatOfItsTokens) {
  const auto sum_of = [](const prometheus::Histogram* histogram) {
    return histogram->Collect().histogram.sample_sum;
  };
  Connect();
  const auto client = Submit({1, 2, 3}, 4);
  AdvanceBy(absl::Milliseconds(200));
  RunSteps(1);
  AdvanceBy(absl::Milliseconds(300));
  RunUntilIdle();
  EXPECT_NEAR(sum_of(metrics_.request_prefill_seconds), 0.2, 1e-6);
  EXPECT_NEAR(sum_of(metrics_.request_decode_seconds), 0.3, 1e-6);
  EXPECT_NEAR(sum_of(metrics_.request_inference_seconds), 0.5, 1e-6);
  EXPECT_EQ(sum_of(metrics_.request_prompt_tokens), 3);
  EXPECT_EQ(sum_of(metrics_.request_max_tokens), 4);
  EXPECT_EQ(sum_of(metrics_.request_samples), 1);
  EXPECT_EQ(sum_of(metrics_.sequence_generation_tokens), 4);
  EXPECT_EQ(sum_of(metrics_.request_longest_generation_tokens), 4);
  EXPECT_GT(metrics_.kv_block_tokens->Value(), 0);
}

TEST_F(ReplicaTest, ARequestThatNeverHadASlotHasNoPhases) {
  const auto refused = Submit({1}, 1);
  EXPECT_EQ(metrics_.request_inference_seconds->Collect().histogram.sample_count, 0);
}

TEST_F(ReplicaTest, WithoutAWorkerRequestsAreRefusedAtOnce) {
  const auto early = Submit({1}, 1);
  early->Read();
  EXPECT_EQ(early->end->code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(*early->end), HasSubstr("no worker has been reached yet"));

  InboxBatch batch;
  batch.link_events.push_back(LinkDown{.epoch = 0, .reason = absl::UnavailableError("refused")});
  replica_.Process(std::move(batch));
  EXPECT_THAT(Message(replica_.board().CheckWorker()), HasSubstr("refused"));
  EXPECT_EQ(replica_.board().status().worker_state, WorkerState::kConnecting);
  ExpectClean();
}

TEST_F(ReplicaTest, AWorkerThatDoesNotFitIsNamed) {
  InboxBatch batch;
  batch.link_events.push_back(
      LinkDown{.epoch = 0, .reason = absl::FailedPreconditionError("model_fingerprint: no")});
  replica_.Process(std::move(batch));
  EXPECT_EQ(replica_.board().status().worker_state, WorkerState::kMismatched);
  EXPECT_THAT(Message(replica_.board().CheckWorker()), HasSubstr("model_fingerprint: no"));
  EXPECT_EQ(WorkerIs(WorkerState::kMismatched), 1);
}

TEST_F(ReplicaTest, ACancelledRequestGivesItsBlocksBack) {
  Connect();
  const auto client = Submit({1, 2, 3, 4, 5, 6}, 100);
  RunSteps(5);
  Cancel(*client, CancelCause::kClient);
  client->Read();
  EXPECT_EQ(client->end->code(), absl::StatusCode::kCancelled);
  RunUntilIdle();
  EXPECT_EQ(RouterMetrics::At(metrics_.requests_cancelled_total, RequestStage::kRunning).Value(),
            1);
  ExpectClean();
}

TEST_F(ReplicaTest, AbortEndsEverySampleAndTheCallIsFine) {
  Connect();
  const auto client = Submit({1, 2, 3}, 100, /*num_samples=*/3);
  RunSteps(6);
  Cancel(*client, CancelCause::kAborted);
  RunUntilIdle();
  client->Read();
  for (const auto& end : client->ends) {
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(end->reason, FinishReason::kAborted);
  }
  EXPECT_EQ(client->end, absl::OkStatus());
  ExpectClean();
}

TEST_F(ReplicaTest, CancelAllEndsEverythingAsUnavailable) {
  Connect();
  const auto first = Submit({1, 2, 3}, 100);
  const auto second = Submit({4, 5}, 100);
  RunSteps(2);
  CancelAll();
  RunUntilIdle();
  for (Client* const client : {first.get(), second.get()}) {
    client->Read();
    EXPECT_EQ(client->ends[0]->reason, FinishReason::kAborted);
    EXPECT_EQ(client->end->code(), absl::StatusCode::kUnavailable);
  }
  ExpectClean();
}

TEST_F(ReplicaTest, AfterCancelAllLateSubmissionsAreRefused) {
  Connect();
  CancelAll();
  const auto late = Submit({1, 2, 3}, 4);  // it was still being tokenized
  late->Read();
  ASSERT_TRUE(late->end.has_value());
  EXPECT_EQ(late->end->code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(*late->end), HasSubstr("shutting down"));
  EXPECT_EQ(link_.num_sent(), 0u);
  ExpectClean();
}

TEST_F(ReplicaTest, AStoppedSequenceEndsWhileItsSiblingsGoOn) {
  Connect();
  const auto client = Submit({1, 2, 3}, 12, /*num_samples=*/2);
  RunSteps(4);
  InboxBatch batch;
  batch.stops.push_back({.request = client->request->key, .sample_index = 0});
  replica_.Process(std::move(batch));
  RunUntilIdle();
  client->Read();
  EXPECT_LT(client->tokens[0].size(), 12u);
  EXPECT_EQ(client->ends[0]->reason, FinishReason::kStop);
  EXPECT_THAT(client->tokens[1], ElementsAreArray(GreedyTokens({}, {1, 2, 3}, 12)));
  EXPECT_EQ(client->end, absl::OkStatus());
  ExpectClean();
}

TEST_F(ReplicaTest, DeadlinesEndRequests) {
  Connect();
  deadline_ = kStart + absl::Seconds(5);
  const auto client = Submit({1, 2, 3}, 100);
  EXPECT_EQ(replica_.NextWakeup(), deadline_);
  RunSteps(3);
  AdvanceBy(absl::Seconds(5));
  RunUntilIdle();
  client->Read();
  EXPECT_EQ(client->end->code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(client->tokens[0], SizeIs(3));
  ExpectClean();
}

TEST_F(ReplicaTest, AReaderTooFarBehindLosesItsRequestOnly) {
  Connect();
  const auto slow = Submit({1, 2, 3}, 40, 1, /*max_pending_bytes=*/8 * sizeof(TokenId));
  const auto other = Submit({4, 5, 6}, 40);
  RunUntilIdle();
  slow->Read();
  other->Read();
  EXPECT_EQ(slow->end->code(), absl::StatusCode::kAborted) << "a retry would not help";
  EXPECT_THAT(slow->tokens[0], SizeIs(8));
  EXPECT_THAT(other->tokens[0], SizeIs(40));
  EXPECT_EQ(NumFinished(FinishedAs::kError), 1);
  EXPECT_EQ(NumFinished(FinishedAs::kLength), 1);
  ExpectClean();
}

TEST_F(ReplicaTest, EverySequenceOfARequestThatFailsIsCounted) {
  Connect();
  deadline_ = clock_.Now() + absl::Seconds(1);
  const auto late = Submit({1, 2, 3}, 40, /*num_samples=*/4);
  RunSteps(3);
  AdvanceBy(absl::Seconds(1));
  RunUntilIdle();
  late->Read();
  EXPECT_EQ(late->end->code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(NumFinished(FinishedAs::kError), 4);
  EXPECT_EQ(NumFinished(FinishedAs::kAbort), 0);
  ExpectClean();
}

TEST_F(ReplicaTest, AFailedRowEndsItsRequestOnly) {
  Connect();
  worker_.model().set_after_forward([](const worker::ForwardBatch& batch, std::span<float> logits) {
    // Whoever has token 13 in its row gets no usable logits.
    for (size_t i = 0; i < batch.logits_tokens.size(); ++i) {
      if (batch.token_ids[batch.logits_tokens[i]] != 13) continue;
      const size_t vocab_size = logits.size() / batch.logits_tokens.size();
      std::fill_n(logits.begin() + i * vocab_size, vocab_size,
                  std::numeric_limits<float>::quiet_NaN());
    }
  });
  const auto bad = Submit({1, 2, 13}, 5);
  const auto good = Submit({1, 2, 14}, 5);
  RunUntilIdle();
  bad->Read();
  good->Read();
  EXPECT_FALSE(bad->end->ok());
  EXPECT_EQ(good->end, absl::OkStatus());
  EXPECT_THAT(good->tokens[0], SizeIs(5));
  ExpectClean();
}

TEST_F(ReplicaTest, WhatCannotFitTheWorkerIsRefused) {
  Connect();
  const auto client = Submit(std::vector<TokenId>(300, 1), 5);
  client->Read();
  EXPECT_EQ(client->end->code(), absl::StatusCode::kInvalidArgument);
  ExpectClean();
}

TEST(ReplicaConfigTest, ReportsEveryViolation) {
  EXPECT_TRUE(ReplicaConfig{}.Validate().ok());
  ReplicaConfig config;
  config.step_timeout = absl::ZeroDuration();
  config.failover_wait = absl::Seconds(-1);
  config.no_worker_grace = absl::Seconds(-1);
  config.scheduler.max_steps_in_flight = 0;
  const std::string message = Message(config.Validate());
  for (const char* const field :
       {"step_timeout", "failover_wait", "no_worker_grace", "max_steps_in_flight"}) {
    EXPECT_THAT(message, HasSubstr(field));
  }
}

}  // namespace
}  // namespace lockstep::router
