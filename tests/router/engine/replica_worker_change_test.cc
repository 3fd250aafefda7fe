// Workers that come back with other bits, and workers that leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "common/status.h"
#include "tests/router/engine/replica_fixture.h"

namespace lockstep::router {
namespace {

using ::lockstep::router::testing::Client;
using ::lockstep::router::testing::kStart;
using ::lockstep::testing::GreedyTokens;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using ReplicaWorkerChangeTest = ::lockstep::router::testing::ReplicaTest;

struct OtherBits {
  uint64_t numerics_id;
  uint64_t weights_fingerprint;
};

class ReplicaOtherBitsTest : public ReplicaWorkerChangeTest,
                             public ::testing::WithParamInterface<OtherBits> {};

TEST_P(ReplicaOtherBitsTest, WhatWasBegunFailsAndTheRestGoesOn) {
  worker_.SetBits(1, 2);
  Connect();
  const auto begun = Submit({1, 2, 3, 4}, 12);
  RunSteps(3);
  const auto untouched = Submit({5, 6, 7}, 6);  // in steps that are lost
  LoseWorker();
  worker_.SetBits(GetParam().numerics_id, GetParam().weights_fingerprint);
  worker_.Restart();
  Connect();
  begun->Read();
  ASSERT_TRUE(begun->end.has_value());
  EXPECT_EQ(begun->end->code(), absl::StatusCode::kAborted);
  EXPECT_THAT(Message(*begun->end), HasSubstr("the worker that came back computes other bits"));
  EXPECT_THAT(begun->tokens[0], SizeIs(3));
  RunUntilIdle();
  untouched->Read();
  EXPECT_EQ(untouched->end, absl::OkStatus());
  EXPECT_THAT(untouched->tokens[0], ElementsAreArray(GreedyTokens({}, {5, 6, 7}, 6)));
  EXPECT_EQ(RouterMetrics::At(metrics_.requests_retried_total, RetryOutcome::kFailed).Value(), 1);
  EXPECT_EQ(RouterMetrics::At(metrics_.requests_retried_total, RetryOutcome::kResumed).Value(), 1);
  ExpectClean();
}

INSTANTIATE_TEST_SUITE_P(All, ReplicaOtherBitsTest,
                         ::testing::Values(OtherBits{9, 2}, OtherBits{1, 9}));

TEST_F(ReplicaWorkerChangeTest, BitsAreComparedWithTheLastLeaseOfAll) {
  worker_.SetBits(1, 2);
  Connect();
  LoseWorker();
  worker_.SetBits(3, 4);
  Connect();
  const auto client = Submit({1, 2, 3, 4}, 8);
  RunSteps(3);
  LoseWorker();
  Connect();
  RunUntilIdle();
  client->Read();
  EXPECT_EQ(client->end, absl::OkStatus());
  EXPECT_THAT(client->tokens[0], ElementsAreArray(GreedyTokens({}, {1, 2, 3, 4}, 8)));
}

TEST_F(ReplicaWorkerChangeTest, ADrainingWorkerFinishesWhatRunsWhileTheRestWaitsForTheNext) {
  Connect();
  const auto running = Submit({1, 2, 3}, 6);
  RunSteps(1);
  worker_.Drain();
  RunSteps(1);
  EXPECT_EQ(replica_.worker_state(), WorkerState::kDraining);
  EXPECT_EQ(RouterMetrics::At(metrics_.worker_state, WorkerState::kDraining).Value(), 1);
  EXPECT_TRUE(replica_.CheckWorker().ok());
  const auto waiting = Submit({4, 5}, 5);
  RunUntilIdle();
  running->Read();
  EXPECT_EQ(running->end, absl::OkStatus());
  EXPECT_THAT(running->tokens[0], ElementsAreArray(GreedyTokens({}, {1, 2, 3}, 6)));
  waiting->Read();
  EXPECT_FALSE(waiting->admission.has_value());
  EXPECT_FALSE(waiting->end.has_value());

  LoseWorker();
  EXPECT_EQ(replica_.worker_state(), WorkerState::kLost);
  worker_.Restart();
  Connect();
  EXPECT_EQ(replica_.worker_state(), WorkerState::kReady);
  RunUntilIdle();
  waiting->Read();
  EXPECT_EQ(waiting->end, absl::OkStatus());
  EXPECT_THAT(waiting->tokens[0], ElementsAreArray(GreedyTokens({}, {4, 5}, 5)));
  ExpectClean();
}

TEST_F(ReplicaWorkerChangeTest, WhoWaitsBehindADrainedWorkerFailsWhenNoneComes) {
  Connect();
  const auto running = Submit({1, 2, 3}, 3);
  worker_.Drain();
  RunSteps(1);
  const auto waiting = Submit({4, 5}, 5);
  RunUntilIdle();
  LoseWorker();
  AdvanceBy(absl::Seconds(30));
  waiting->Read();
  ASSERT_TRUE(waiting->end.has_value());
  EXPECT_EQ(waiting->end->code(), absl::StatusCode::kUnavailable);
}

TEST_F(ReplicaWorkerChangeTest, TheCancelOfTheOnlyRequestFreesTheWorker) {
  Connect();
  const auto client = Submit({1, 2, 3}, 50);
  RunSteps(3);
  worker_.Drain();
  RunSteps(1);
  Cancel(*client, CancelCause::kClient);
  RunUntilIdle();
  EXPECT_EQ(worker_.num_live_slots(), 0u);
  EXPECT_EQ(metrics_.step_batch_sequences->Collect().histogram.sample_count, 6u)
      << "a step without rows is no batch";
}

TEST_F(ReplicaWorkerChangeTest, ADrainedWorkerThatStaysLosesItsLease) {
  Connect();
  const auto running = Submit({1, 2, 3}, 3);
  worker_.Drain();
  RunSteps(1);
  const auto waiting = Submit({4, 5}, 5);
  RunUntilIdle();
  EXPECT_EQ(replica_.NextWakeup(), kStart + absl::Seconds(60));
  AdvanceBy(absl::Seconds(60));
  ASSERT_TRUE(link_.drop_reason().has_value());
  EXPECT_THAT(Message(*link_.drop_reason()), HasSubstr("the drained worker did not end its lease"));
  EXPECT_EQ(replica_.worker_state(), WorkerState::kLost);
}

}  // namespace
}  // namespace lockstep::router
