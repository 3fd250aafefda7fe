// Workers that are lost again and again: who is to blame, and how long the others wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/instant.h"
#include "common/status.h"
#include "tests/router/core/fcfs_policy.h"
#include "tests/router/core/scheduler_fixture.h"

namespace lockstep::router::testing {
namespace {

using ::testing::HasSubstr;

class SchedulerLossTest : public SchedulerTest {
 protected:
  void ReplaceWorker() {
    DetachWorker();
    AttachWorker(limits);
  }

  // Runs until idle with workers that are lost over every step that runs request `key`, or only
  // over those that continue it. Returns the number of workers, or nothing if there is no end.
  std::optional<int> CountKilled(RequestKey key, bool when_it_starts) {
    int num_killed = 0;
    std::optional<SlotId> slot;
    for (int num_steps = 0; num_steps < 300; ++num_steps) {
      while (Plan() != nullptr) {
      }
      if (planned.empty()) return num_killed;
      const StepPlan& next = planned.front();
      const StartedSlot* const started = FindStarted(next, key);
      const bool starts = started != nullptr;
      if (starts) slot = started->slot;
      const bool runs = slot.has_value() && std::ranges::count(next.rows, *slot, &RunRow::slot) > 0;
      if (runs && (when_it_starts || !starts)) {
        ++num_killed;
        slot.reset();
        ReplaceWorker();
      } else {
        Done();
      }
    }
    return std::nullopt;
  }

  uint32_t FailUnserved(Instant since) {
    const uint32_t num_failed = scheduler->FailUnserved(since, Unavailable("no worker came"), now);
    Cancel(1000);  // of nobody: takes the events
    return num_failed;
  }

  void ExpectFailed(RequestKey key, absl::StatusCode code, const std::string& message) {
    ASSERT_NE(Ending(key), nullptr) << "request " << key;
    EXPECT_EQ(Ending(key)->error.code(), code) << Ending(key)->error.ToString();
    EXPECT_THAT(Message(Ending(key)->error), HasSubstr(message));
  }
  void ExpectBlamed(RequestKey key) {
    ExpectFailed(key, absl::StatusCode::kInternal, "4 workers were lost while they ran this");
    ExpectFailed(key, absl::StatusCode::kInternal, "UNAVAILABLE: the test lost it");
  }
};

TEST_F(SchedulerLossTest, WhoeverKillsWorkersTakesNobodyWithIt) {
  config.max_steps_in_flight = 3;
  Start();
  std::vector<std::shared_ptr<Request>> healthy;
  for (RequestKey key : {1, 2, 4, 5}) {
    healthy.push_back(MakeRequest(key, TextOf(key, 9), 8));
    if (key == 4) Submit(3, TextOf(3, 9), 8);
    Submit(healthy.back());
  }
  EXPECT_EQ(CountKilled(3, /*when_it_starts=*/true), 4);
  ExpectBlamed(3);
  for (const auto& request : healthy) ExpectComplete(*request);
}

TEST_F(SchedulerLossTest, WhatARestartComputesAgainIsNoProgress) {
  config.max_prefill_tokens_per_step = 4;
  Start();
  std::vector<std::shared_ptr<Request>> healthy;
  for (RequestKey key : {2, 3}) {
    healthy.push_back(MakeRequest(key, TextOf(key, 13), 8));
    Submit(healthy.back());
  }
  ASSERT_TRUE(RunUntil([this] { return Tokens(3).size() == 2; }));
  Submit(1, TextOf(1, 30), 6);  // its first chunk is always computed, its second one never
  EXPECT_EQ(CountKilled(1, /*when_it_starts=*/false), 4);
  ExpectBlamed(1);
  for (const auto& request : healthy) ExpectComplete(*request);
}

TEST_F(SchedulerLossTest, LossesWithProgressInBetweenAreForgiven) {
  Start();
  auto request = MakeRequest(1, TextOf(1, 5), 9);
  Submit(request);
  for (int i = 0; i < 4; ++i) {
    for (int loss = 0; loss < 3; ++loss) {
      ASSERT_NE(Plan(), nullptr);
      ReplaceWorker();
    }
    ASSERT_NE(Plan(), nullptr);
    Done();
  }
  RunUntilIdle();
  ExpectComplete(*request);
}

TEST_F(SchedulerLossTest, WhoWasNotInFlightIsNotToBlame) {
  config.max_running_sequences = 1;
  Start();
  Submit(1, TextOf(1, 5), 9);
  auto waiting = MakeRequest(2, TextOf(2, 5), 4);
  Submit(waiting);
  for (int loss = 0; loss < 4; ++loss) {
    ASSERT_EQ(Ending(1), nullptr);
    ASSERT_NE(Plan(), nullptr);
    ReplaceWorker();
    ReplaceWorker();  // with nothing in flight
  }
  RunUntilIdle();
  ExpectBlamed(1);
  ExpectComplete(*waiting);
}

TEST_F(SchedulerLossTest, OnTheLastTriesNothingElseIsInFlight) {
  config.max_steps_in_flight = 3;
  limits.max_step_tokens = 16;
  Start();
  auto first = MakeRequest(1, TextOf(1, 5), 9);
  auto suspect = MakeRequest(2, TextOf(2, 30), 9);
  Submit(first);
  Submit(suspect);
  for (int loss = 0; loss < 2; ++loss) {
    ASSERT_NE(Plan(), nullptr);
    ReplaceWorker();
  }
  // Both were in flight: each is tried alone, and the first one is not behind it then. One more
  // loss changes nothing.
  ASSERT_NE(Plan(), nullptr);
  ReplaceWorker();
  for (const uint32_t num_tokens : {5u, 16u}) {
    const StepPlan* plan = Plan();
    ASSERT_NE(plan, nullptr);
    ASSERT_EQ(plan->rows.size(), 1u);
    EXPECT_EQ(plan->rows[0].num_tokens, num_tokens);
    EXPECT_EQ(Plan(), nullptr) << "its result comes first";
    Done();
  }
  ASSERT_NE(Plan(), nullptr);
  EXPECT_EQ(planned.back().rows.size(), 2u);
  EXPECT_NE(Plan(), nullptr);
  RunUntilIdle();
  ExpectComplete(*first);
  ExpectComplete(*suspect);
}

TEST_F(SchedulerLossTest, TheWaitBeginsWithTheLossAndEndsWithProgress) {
  Start();
  auto request = MakeRequest(1, TextOf(1, 5), 9);
  Submit(request);
  EXPECT_EQ(scheduler->UnservedSince(), Instant::InfiniteFuture());
  now += absl::Seconds(1);
  DetachWorker();
  EXPECT_EQ(scheduler->UnservedSince(), now);

  AttachWorker(limits);
  EXPECT_EQ(scheduler->UnservedSince(), Instant::InfiniteFuture());
  ASSERT_NE(Plan(), nullptr);
  Done();
  now += absl::Seconds(1);
  DetachWorker();
  const Instant lost_at = now;
  EXPECT_EQ(scheduler->UnservedSince(), lost_at);
  now += absl::Seconds(1);
  AttachWorker(limits);
  ASSERT_NE(Plan(), nullptr);
  DetachWorker();
  EXPECT_EQ(scheduler->UnservedSince(), lost_at) << "the lease in between computed nothing";
  auto later = MakeRequest(2, TextOf(2, 5), 9);
  Submit(later);
  EXPECT_EQ(FailUnserved(lost_at - absl::Nanoseconds(1)), 0u);
  EXPECT_EQ(FailUnserved(lost_at), 1u);
  ExpectFailed(1, absl::StatusCode::kUnavailable, "no worker came");
  EXPECT_EQ(scheduler->UnservedSince(), later->arrival);
}

TEST_F(SchedulerLossTest, BeforeTheFirstWorkerRequestsWaitSinceTheyCame) {
  Scheduler fresh(config, MakeFcfsPolicy());
  EXPECT_EQ(fresh.UnservedSince(), Instant::InfiniteFuture());
  const auto request = MakeRequest(1, TextOf(1, 5), 9);
  ASSERT_TRUE(fresh.Submit(request, now).ok());
  EXPECT_EQ(fresh.UnservedSince(), request->arrival);
}

TEST_F(SchedulerLossTest, ALeaseThatOnlyComputesAgainDoesNotBeginTheWaitAnew) {
  limits.max_step_tokens = 4;
  config.max_steps_in_flight = 1;
  Start();
  Submit(1, TextOf(1, 9), 9);
  ASSERT_NE(Plan(), nullptr);
  Done();
  DetachWorker();
  const Instant lost_at = now;
  for (int i = 0; i < 5; ++i) {
    now += absl::Seconds(1);
    AttachWorker(limits);
    ASSERT_NE(Plan(), nullptr);
    Done();
    DetachWorker();
    EXPECT_EQ(scheduler->UnservedSince(), lost_at);
  }
  now += absl::Seconds(1);
  AttachWorker(limits);
  for (int i = 0; i < 2; ++i) {
    ASSERT_NE(Plan(), nullptr);
    Done();
  }
  DetachWorker();
  EXPECT_EQ(scheduler->UnservedSince(), now);
}

TEST_F(SchedulerLossTest, BehindADrainingWorkerOnlyWhoDoesNotRunWaits) {
  config.max_running_sequences = 1;
  Start();
  auto running = MakeRequest(1, TextOf(1, 5), 9);
  Submit(running);
  ASSERT_NE(Plan(), nullptr);
  Submit(2, TextOf(2, 5), 4);
  Done();
  EXPECT_EQ(FailUnserved(Instant::InfiniteFuture()), 0u) << "this worker will take it";
  now += absl::Seconds(1);
  scheduler->DrainWorker(now);
  EXPECT_EQ(scheduler->UnservedSince(), now);
  const Instant drained_at = now;
  now += absl::Seconds(1);
  auto later = MakeRequest(3, TextOf(3, 5), 4);
  Submit(later);
  ASSERT_NE(Plan(), nullptr);
  Done();
  EXPECT_EQ(scheduler->UnservedSince(), drained_at) << "progress of who runs helps nobody else";
  EXPECT_EQ(FailUnserved(drained_at), 1u);
  ExpectFailed(2, absl::StatusCode::kUnavailable, "no worker came");
  EXPECT_EQ(scheduler->UnservedSince(), later->arrival);

  now += absl::Seconds(1);
  DetachWorker();
  EXPECT_EQ(FailUnserved(later->arrival), 1u) << "who ran until now waits from now on";
  EXPECT_EQ(scheduler->UnservedSince(), now);
  AttachWorker(limits);
  RunUntilIdle();
  ExpectComplete(*running);
}

TEST_F(SchedulerLossTest, WhoIsPreemptedOnADrainingWorkerWaitsFromThenOn) {
  limits.kv_groups[0].num_blocks = 8;
  limits.kv_groups[0].block_size_tokens = 2;
  Start();
  Submit(1, TextOf(1, 4), 12);
  Submit(2, TextOf(2, 4), 12);
  ASSERT_NE(Plan(), nullptr);
  scheduler->DrainWorker(now);
  now += absl::Seconds(1);
  ASSERT_TRUE(RunUntil([this] { return Stats().preemptions > 0; }));
  EXPECT_EQ(scheduler->UnservedSince(), now);
}

TEST_F(SchedulerLossTest, ASampleThatEndsOnADrainingWorkerLeavesTheOthersWaitingFromThenOn) {
  config.max_running_sequences = 1;
  Start();
  auto samples = MakeRequest(1, TextOf(1, 9), 4);
  samples->num_samples = 2;
  Submit(samples);
  ASSERT_NE(Plan(), nullptr);
  Done();
  scheduler->DrainWorker(now);
  const Instant drained_at = now;
  now += absl::Seconds(30);
  ASSERT_TRUE(RunUntil([this] { return Ending(1, 0) != nullptr; }));
  EXPECT_EQ(scheduler->UnservedSince(), now);
  EXPECT_EQ(FailUnserved(drained_at), 0u);
}

// The first result of a lease is its first progress.
TEST_F(SchedulerLossTest, ASampleThatEndsWithTheFirstResultLeavesTheOthersWaitingFromThenOn) {
  config.max_running_sequences = 1;
  config.max_steps_in_flight = 1;
  Start();
  DetachWorker();
  auto samples = MakeRequest(1, TextOf(1, 9), 1);
  samples->num_samples = 2;
  Submit(samples);
  now += absl::Seconds(10);
  AttachWorker(limits);
  ASSERT_NE(Plan(), nullptr);
  scheduler->DrainWorker(now);
  now += absl::Seconds(10);
  Done();
  ASSERT_NE(Ending(1, 0), nullptr);
  EXPECT_EQ(scheduler->UnservedSince(), now);
}

TEST_F(SchedulerLossTest, WhoIsRolledBackOnADrainingWorkerWaitsFromThenOn) {
  config.max_steps_in_flight = 1;
  Start();
  auto request = MakeRequest(1, TextOf(1, 5), 9);
  Submit(request);
  ASSERT_NE(Plan(), nullptr);
  Done();
  scheduler->DrainWorker(now);
  now += absl::Seconds(30);
  ASSERT_NE(Plan(), nullptr);
  Done({.refuse = true});
  EXPECT_EQ(scheduler->UnservedSince(), now);
  AttachWorker(limits);
  RunUntilIdle();
  ExpectComplete(*request);
}

TEST_F(SchedulerLossTest, AllSamplesOfWhoeverWaitsTooLongFail) {
  config.max_running_sequences = 1;
  Start();
  auto samples = MakeRequest(1, TextOf(1, 9), 9);
  samples->num_samples = 2;
  Submit(samples);
  Submit(2, TextOf(2, 3), 9);
  ASSERT_NE(Plan(), nullptr);
  DetachWorker();
  EXPECT_EQ(FailUnserved(now), 2u);
  EXPECT_TRUE(scheduler->Idle());
  for (const Sample& sample : {Sample{1, 0}, Sample{1, 1}, Sample{2, 0}}) {
    ASSERT_NE(Ending(sample.first, sample.second), nullptr);
    EXPECT_EQ(Message(Ending(sample.first, sample.second)->error), "no worker came");
  }
}

}  // namespace
}  // namespace lockstep::router::testing
