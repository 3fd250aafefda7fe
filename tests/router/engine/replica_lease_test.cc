#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "common/instant.h"
#include "common/status.h"
#include "router/engine/replica.h"
#include "tests/router/engine/replica_fixture.h"

namespace lockstep::router {
namespace {

using ::lockstep::router::testing::kIdleCheck;
using ::lockstep::router::testing::kStart;
using ::lockstep::router::testing::ReplicaTest;
using ::lockstep::testing::GreedyTokens;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

TEST_F(ReplicaTest, AfterALossNewRequestsQueueForAGraceThenAreRefused) {
  Connect();
  LoseWorker();
  clock_.Advance(absl::Milliseconds(1999));
  const auto patient = Submit({1, 2}, 3);
  clock_.Advance(absl::Milliseconds(1));
  const auto late = Submit({1, 2}, 3);
  late->Read();
  EXPECT_EQ(late->end->code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(*late->end), HasSubstr("the stream broke"));
  Connect();
  RunUntilIdle();
  patient->Read();
  EXPECT_EQ(patient->end, absl::OkStatus());
  EXPECT_THAT(patient->tokens[0], ElementsAreArray(GreedyTokens({}, {1, 2}, 3)));
}

TEST_F(ReplicaTest, ResumesExactlyOnANewLifeOfTheWorker) {
  Connect();
  const auto first = Submit({1, 2, 3, 4, 5, 6}, 12);
  const auto second = Submit({9, 8, 7}, 9);
  for (const int steps_before_loss : {3, 1, 4}) {
    RunSteps(steps_before_loss);
    LoseWorker();  // two steps were in flight
    worker_.Restart();
    Connect();
  }
  RunUntilIdle();
  first->Read();
  second->Read();
  EXPECT_THAT(first->tokens[0], ElementsAreArray(GreedyTokens({}, {1, 2, 3, 4, 5, 6}, 12)));
  EXPECT_THAT(second->tokens[0], ElementsAreArray(GreedyTokens({}, {9, 8, 7}, 9)));
  EXPECT_EQ(metrics_.ForWorker("fake:1").restarts_total->Value(), 3);
  EXPECT_GE(NumRetried(RetryOutcome::kResumed), 4);
  ExpectClean();
}

TEST_F(ReplicaTest, WhoCameAfterALossHasNotResumed) {
  Connect();
  const auto before = Submit({1, 2, 3}, 9);
  RunSteps(2);
  LoseWorker();
  const auto after = Submit({4, 5, 6}, 9);
  worker_.Restart();
  Connect();
  RunUntilIdle();
  EXPECT_EQ(NumRetried(RetryOutcome::kResumed), 1);
  ExpectClean();
}

TEST_F(ReplicaTest, RequestsFailWhenNoWorkerComesBack) {
  Connect();
  const auto client = Submit({1, 2, 3}, 20);
  RunSteps(3);
  LoseWorker();
  EXPECT_EQ(replica_.NextWakeup(), kStart + absl::Seconds(30));
  AdvanceBy(absl::Seconds(30) - absl::Nanoseconds(1));
  client->Read();
  EXPECT_FALSE(client->end.has_value());
  AdvanceBy(absl::Nanoseconds(1));
  client->Read();
  EXPECT_EQ(client->end->code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(*client->end), HasSubstr("the stream broke"));
  EXPECT_EQ(RouterMetrics::At(metrics_.requests_retried_total, RetryOutcome::kFailed).Value(), 1);
  AdvanceBy(kIdleCheck);
  EXPECT_EQ(replica_.NextWakeup(), Instant::InfiniteFuture());
  ExpectClean();
}

TEST_F(ReplicaTest, AHungWorkerLosesItsLease) {
  Connect();
  const auto client = Submit({1, 2, 3}, 4);
  EXPECT_EQ(replica_.NextWakeup(), kStart + absl::Seconds(60));
  AdvanceBy(absl::Seconds(60));
  ASSERT_TRUE(link_.drop_reason().has_value());
  EXPECT_EQ(link_.drop_reason()->code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(replica_.board().status().worker_state, WorkerState::kLost);
  Connect();
  RunUntilIdle();
  client->Read();
  EXPECT_THAT(client->tokens[0], ElementsAreArray(GreedyTokens({}, {1, 2, 3}, 4)));
}

// As NTP does it after a long time without a network, beyond every timeout and in both directions.
TEST_F(ReplicaTest, SettingTheClockOfTheMachineHurtsNoLease) {
  Connect();
  deadline_ = clock_.Now() + absl::Minutes(1);
  const auto client = Submit({1, 2, 3}, 8);
  for (const absl::Duration jump : {absl::Hours(24), -absl::Hours(72)}) {
    clock_.SetTimeOfDay(clock_.TimeOfDay() + jump);
    AdvanceBy(absl::Milliseconds(1));  // with steps in flight
    EXPECT_EQ(WorkerIs(WorkerState::kReady), 1);
    ASSERT_TRUE(RunStep());
  }
  RunUntilIdle();
  client->Read();
  EXPECT_EQ(client->tokens[0].size(), 8u);
  ExpectClean();
}

TEST_F(ReplicaTest, EachStepHasItsOwnTimeFromTheResultBeforeIt) {
  Connect();
  const auto client = Submit({1, 2, 3}, 4);  // two steps go out at once
  AdvanceBy(absl::Seconds(59));
  RunSteps(1);
  EXPECT_EQ(replica_.NextWakeup(), kStart + absl::Seconds(119));
  AdvanceBy(absl::Seconds(59));
  EXPECT_FALSE(link_.drop_reason().has_value());
  AdvanceBy(absl::Seconds(1));
  EXPECT_TRUE(link_.drop_reason().has_value());
}

TEST_F(ReplicaTest, AResultThatContradictsItsStepEndsTheLease) {
  Connect();
  const auto client = Submit({1, 2, 3}, 4);
  LinkResult result = *link_.RunNext();
  result.result.add_sampled_slots(77);
  result.result.add_token_ids(1);
  InboxBatch batch;
  batch.link_events.push_back(result);
  replica_.Process(std::move(batch));
  ASSERT_TRUE(link_.drop_reason().has_value());
  EXPECT_THAT(Message(*link_.drop_reason()), HasSubstr("slot 77 did not run"));
  Connect();
  RunUntilIdle();
  client->Read();
  EXPECT_THAT(client->tokens[0], ElementsAreArray(GreedyTokens({}, {1, 2, 3}, 4)));
}

TEST_F(ReplicaTest, AResultOfAnotherIncarnationOrWithoutAStepEndsTheLease) {
  Connect();
  const auto client = Submit({1, 2, 3}, 4);
  LinkResult result = *link_.RunNext();
  result.result.set_incarnation(99);
  InboxBatch batch;
  batch.link_events.push_back(result);
  replica_.Process(std::move(batch));
  EXPECT_THAT(Message(*link_.drop_reason()), HasSubstr("incarnation"));

  Connect();
  RunUntilIdle();
  LinkResult unasked;
  unasked.result.set_epoch(worker_.epoch());
  unasked.result.set_incarnation(1);
  unasked.result.set_step_id(1000);
  InboxBatch second;
  second.link_events.push_back(unasked);
  replica_.Process(std::move(second));
  EXPECT_THAT(Message(*link_.drop_reason()), HasSubstr("no step in flight"));
}

TEST_F(ReplicaTest, IgnoresWhatBelongsToAnEarlierLease) {
  Connect();
  const auto client = Submit({1, 2, 3}, 4);
  const LinkResult late = *link_.RunNext();
  const LinkDown late_down = link_.Break(absl::UnavailableError("broke"));
  LoseWorker();
  Connect();
  InboxBatch batch;
  batch.link_events.push_back(late);
  batch.link_events.push_back(late_down);
  replica_.Process(std::move(batch));
  EXPECT_EQ(replica_.board().status().worker_state, WorkerState::kReady);
  RunUntilIdle();
  client->Read();
  EXPECT_THAT(client->tokens[0], ElementsAreArray(GreedyTokens({}, {1, 2, 3}, 4)));
}

}  // namespace
}  // namespace lockstep::router
