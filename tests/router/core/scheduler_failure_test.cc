// Everything that goes wrong: failed rows, refused steps, lost workers, clients that go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "common/status.h"
#include "tests/router/core/scheduler_fixture.h"

namespace lockstep::router::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr SlotId kNoSlot = 1000;

class SchedulerFailureTest : public SchedulerTest {
 protected:
  std::optional<int> RefuseWhereItContinues(RequestKey key);
};

TEST_F(SchedulerFailureTest, AFailedRowFailsItsSequenceOnly) {
  Start();
  auto healthy = MakeRequest(2, TextOf(2, 3), 6);
  Submit(1, TextOf(1, 3), 6);
  Submit(healthy);
  ASSERT_NE(Plan(), nullptr);
  ASSERT_NE(Plan(), nullptr);
  Done();
  Done({.failing_slot = 0});
  ASSERT_NE(Ending(1), nullptr);
  EXPECT_EQ(Ending(1)->error.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Message(Ending(1)->error), "row failed by the model worker");
  EXPECT_EQ(Ending(1)->num_generated_tokens, 1u);
  RunUntilIdle();
  ExpectComplete(*healthy);
}

TEST_F(SchedulerFailureTest, AFailedRowIsInertInTheStepsUnderWay) {
  config.max_steps_in_flight = 3;
  Start();
  Submit(1, TextOf(1, 3), 6);
  for (int i = 0; i < 3; ++i) ASSERT_NE(Plan(), nullptr);
  Done({.failing_slot = 0});
  EXPECT_EQ(Stats().fenced_blocks, 2u);
  const StepOutcome outcome = Execute();
  ASSERT_EQ(outcome.rows.size(), 1u);
  EXPECT_TRUE(outcome.rows[0].was_inert);
  EXPECT_TRUE(Apply(outcome).ok());
  Done();
  EXPECT_EQ(Stats().wasted_rows, 2u);
  EXPECT_EQ(Stats().prefix_index_nodes, 0u) << "what a failed row computed is not known";
}

TEST_F(SchedulerFailureTest, TokensBeforeAFailureAreDelivered) {
  config.max_decode_iterations = 4;
  limits.max_decode_iterations = 4;
  config.max_steps_in_flight = 1;
  Start();
  Submit(1, TextOf(1, 3), 9);
  ASSERT_NE(Plan(), nullptr);
  Done();
  ASSERT_EQ(Plan()->decode_iterations, 4u);
  Done({.failing_slot = 0, .num_tokens_before_failure = 2});
  EXPECT_EQ(Tokens(1).size(), 3u);
  EXPECT_EQ(Ending(1)->error.code(), absl::StatusCode::kAborted);
}

TEST_F(SchedulerFailureTest, ARefusedStepRollsEverythingBack) {
  config.max_steps_in_flight = 3;
  Start();
  std::vector<std::shared_ptr<Request>> requests;
  for (RequestKey key = 1; key <= 3; ++key) {
    requests.push_back(MakeRequest(key, TextOf(key, 5), 6));
    Submit(requests.back());
  }
  for (int i = 0; i < 3; ++i) ASSERT_NE(Plan(), nullptr);
  Done();
  Done({.refuse = true});
  EXPECT_EQ(Stats().rollbacks, 3u);
  EXPECT_EQ(Stats().running_sequences, 0u);
  Done();  // refused as well, though nothing is wrong with it
  EXPECT_EQ(Stats().refused_steps, 2u);
  const StepPlan* plan = Plan();
  EXPECT_TRUE(plan->resync);
  EXPECT_EQ(plan->step_id, 4u);
  EXPECT_EQ(plan->started.size(), 3u);
  EXPECT_TRUE(plan->released.empty());
  EXPECT_EQ(plan->started[0].known_tokens.size(), 6u) << "the acknowledged token is kept";
  EXPECT_EQ(plan->started[0].num_computed_tokens, 4u) << "published blocks are as well";
  EXPECT_FALSE(Plan()->resync);
  RunUntilIdle();
  for (const auto& request : requests) ExpectComplete(*request);
}

TEST_F(SchedulerFailureTest, NewWorkResyncsBeforeTheDoomedStepsAreBack) {
  config.max_steps_in_flight = 3;
  limits.max_slots = 4;
  Start();
  auto rolled_back = MakeRequest(1, TextOf(1, 5), 6);
  auto fresh = MakeRequest(2, TextOf(2, 5), 6);
  Submit(rolled_back);
  for (int i = 0; i < 3; ++i) ASSERT_NE(Plan(), nullptr);
  Done({.refuse = true});
  Cancel(1);
  Submit(fresh);
  const StepPlan* plan = Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_TRUE(plan->resync);
  EXPECT_EQ(plan->started[0].request->key, 2u);
  Done();
  Done();
  Done();
  EXPECT_EQ(Tokens(2).size(), 1u);
  RunUntilIdle();
  ExpectComplete(*fresh);
}

TEST_F(SchedulerFailureTest, TheThirdRefusalInARowFailsTheSequencesOfTheStep) {
  config.max_steps_in_flight = 1;
  Start();
  Submit(1, TextOf(1, 5), 6);
  ASSERT_NE(Plan(), nullptr);
  Done({.refuse = true});
  ASSERT_NE(Plan(), nullptr);
  Done({.refuse = true});
  ASSERT_NE(Plan(), nullptr);
  Done();  // a step that is run begins the count anew
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Ending(1), nullptr);
    ASSERT_NE(Plan(), nullptr);
    Done({.refuse = true});
  }
  ASSERT_NE(Ending(1), nullptr);
  EXPECT_EQ(Ending(1)->error.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Message(Ending(1)->error), HasSubstr("refused by the model worker"));
  auto next = MakeRequest(2, TextOf(2, 3), 2);
  Submit(next);
  EXPECT_TRUE(Plan()->resync);
  RunUntilIdle();
  ExpectComplete(*next);
}

TEST_F(SchedulerFailureTest, AStepThatRunsBehindARefusalIsAContradiction) {
  Start();
  Submit(1, TextOf(1, 5), 6);
  ASSERT_NE(Plan(), nullptr);
  ASSERT_NE(Plan(), nullptr);
  StepOutcome refused;
  refused.step_id = 1;
  refused.refusal = FailedPrecondition("no");
  EXPECT_TRUE(Apply(refused).ok());
  StepOutcome ran;
  ran.step_id = 2;
  EXPECT_THAT(Message(Apply(ran)), HasSubstr("ran it after it had refused an earlier one"));
}

TEST_F(SchedulerFailureTest, ASequenceThatIsAlwaysRefusedTakesNobodyWithIt) {
  Start();
  std::vector<std::shared_ptr<Request>> healthy;
  for (RequestKey key : {1, 2, 4, 5}) {
    healthy.push_back(MakeRequest(key, TextOf(key, 9), 8));
    if (key == 4) Submit(3, TextOf(3, 9), 8);
    Submit(healthy.back());
  }
  SlotId poison = kNoSlot;
  int num_steps_with_poison_alone = 0;
  for (int i = 0; i < 1000 && !scheduler->Idle(); ++i) {
    while (Plan() != nullptr) {
    }
    ASSERT_FALSE(planned.empty());
    const StepPlan& next = planned.front();
    if (next.resync) poison = kNoSlot;
    for (const StartedSlot& started : next.started) {
      if (started.request->key == 3) poison = started.slot;
    }
    const bool refuse = std::ranges::count(next.rows, poison, &RunRow::slot) > 0;
    const bool doomed = worker->refusing() && !next.resync;
    if (refuse && !doomed && next.rows.size() == 1) ++num_steps_with_poison_alone;
    Done({.refuse = refuse});
  }
  EXPECT_EQ(num_steps_with_poison_alone, 1);
  ASSERT_NE(Ending(3), nullptr);
  EXPECT_EQ(Ending(3)->error.code(), absl::StatusCode::kInternal);
  for (const auto& request : healthy) ExpectComplete(*request);
}

// Runs until idle with a worker that refuses every step in which request `key` continues, but none
// that starts it. Returns the number of steps, or nothing when it never becomes idle.
std::optional<int> SchedulerFailureTest::RefuseWhereItContinues(RequestKey key) {
  SlotId slot = kNoSlot;
  for (int num_steps = 0; num_steps < 300; ++num_steps) {
    while (Plan() != nullptr) {
    }
    if (planned.empty()) return num_steps;
    const StepPlan& next = planned.front();
    const StartedSlot* const started = FindStarted(next, key);
    const bool starts = started != nullptr;
    if (next.resync) slot = kNoSlot;
    if (starts) slot = started->slot;
    Done({.refuse = !starts && std::ranges::count(next.rows, slot, &RunRow::slot) > 0});
  }
  return std::nullopt;
}

TEST_F(SchedulerFailureTest, WhatARestartComputesAgainIsNoProgress) {
  limits.max_step_tokens = 4;
  Start();
  auto refused = MakeRequest(1, TextOf(1, 11), 6);
  refused->bypass_prefix_cache = true;  // so every restart begins with the first chunk
  Submit(refused);
  const std::optional<int> num_steps = RefuseWhereItContinues(1);
  ASSERT_TRUE(num_steps.has_value()) << "it is tried for ever";
  // Three times a chunk that runs, one that is refused, and one behind it; then a resync.
  EXPECT_LE(*num_steps, 10);
  ASSERT_NE(Ending(1), nullptr);
  EXPECT_EQ(Ending(1)->error.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Message(Ending(1)->error), HasSubstr("after its 4 computed tokens"));
}

TEST_F(SchedulerFailureTest, ASuspectStaysAloneUntilItGetsFurther) {
  limits.max_step_tokens = 8;
  config.max_steps_in_flight = 1;
  Start();
  auto suspect = MakeRequest(1, TextOf(1, 13), 6);
  suspect->bypass_prefix_cache = true;
  auto other = MakeRequest(2, TextOf(2, 3), 6);
  Submit(suspect);
  ASSERT_TRUE(RunUntil([this] { return Tokens(1).size() == 2; }));
  for (int i = 0; i < 2; ++i) {
    ASSERT_NE(Plan(), nullptr);
    Done({.refuse = true});
  }
  Submit(other);
  for (const uint32_t num_tokens : {8u, 7u}) {  // the 15 that it knows
    const StepPlan* plan = Plan();
    ASSERT_EQ(plan->rows.size(), 1u);
    EXPECT_EQ(plan->rows[0].num_tokens, num_tokens);
    Done();
  }
  EXPECT_EQ(Tokens(1).size(), 3u);
  EXPECT_EQ(Plan()->rows.size(), 2u);
  RunUntilIdle();
  ExpectComplete(*suspect);
  ExpectComplete(*other);
}

TEST_F(SchedulerFailureTest, WhoeverIsRefusedWhereItContinuesTakesNobodyWithIt) {
  limits.max_step_tokens = 8;
  Start();
  std::vector<std::shared_ptr<Request>> healthy;
  for (RequestKey key : {2, 3}) {
    healthy.push_back(MakeRequest(key, TextOf(key, 13), 8));
    healthy.back()->bypass_prefix_cache = true;
    Submit(healthy.back());
  }
  ASSERT_TRUE(RunUntil([this] { return Tokens(3).size() == 2; }));
  auto refused = MakeRequest(1, TextOf(1, 30), 6);
  refused->bypass_prefix_cache = true;
  Submit(refused);
  ASSERT_TRUE(RefuseWhereItContinues(1).has_value());
  ASSERT_NE(Ending(1), nullptr);
  EXPECT_EQ(Ending(1)->error.code(), absl::StatusCode::kInternal);
  for (const auto& request : healthy) ExpectComplete(*request);
}

TEST_F(SchedulerFailureTest, RefusalsWithProgressInBetweenAreForgiven) {
  config.max_steps_in_flight = 1;
  Start();
  auto request = MakeRequest(1, TextOf(1, 5), 9);
  Submit(request);
  while (!scheduler->Idle()) {
    for (const bool refuse : {true, true, false}) {
      if (Plan() == nullptr) break;
      Done({.refuse = refuse});
    }
  }
  EXPECT_GE(Stats().refused_steps, 16u);
  ExpectComplete(*request);
}

TEST_F(SchedulerFailureTest, ALostWorkerCostsNoToken) {
  config.max_steps_in_flight = 3;
  Start();
  std::vector<std::shared_ptr<Request>> requests;
  for (RequestKey key = 1; key <= 3; ++key) {
    requests.push_back(MakeRequest(key, TextOf(key, 5), 12));
    Submit(requests.back());
  }
  for (int loss = 0; loss < 4; ++loss) {
    for (int i = 0; i < 3; ++i) ASSERT_NE(Plan(), nullptr);
    Done();
    Done();
    DetachWorker();
    EXPECT_FALSE(scheduler->has_worker());
    EXPECT_EQ(Stats().waiting_requests, 3u);
    EXPECT_EQ(Stats().steps_in_flight, 0u);
    AttachWorker(limits);
    EXPECT_EQ(Stats().free_blocks, limits.kv_groups[0].num_blocks);
  }
  EXPECT_EQ(Tokens(1).size(), 8u);
  EXPECT_EQ(Plan()->step_id, 1u) << "a new lease counts from 1";
  RunUntilIdle();
  for (const auto& request : requests) ExpectComplete(*request);
}

TEST_F(SchedulerFailureTest, AttachingReplacesTheWorker) {
  Start();
  auto request = MakeRequest(1, TextOf(1, 5), 12);
  Submit(request);
  ASSERT_NE(Plan(), nullptr);
  AttachWorker(limits);
  EXPECT_EQ(Plan()->step_id, 1u);
  RunUntilIdle();
  ExpectComplete(*request);
}

TEST_F(SchedulerFailureTest, CancellingInEveryState) {
  config.max_steps_in_flight = 2;
  limits.kv_groups[0].num_blocks = 8;
  limits.kv_groups[0].block_size_tokens = 2;
  Start();
  Cancel(77);
  Submit(1, TextOf(1, 4), 20);
  Cancel(1);  // waiting
  EXPECT_EQ(Ending(1)->reason, FinishReason::kAborted);
  EXPECT_TRUE(Ending(1)->error.ok());
  Cancel(1);  // ended

  Submit(2, TextOf(2, 8), 9);
  ASSERT_NE(Plan(), nullptr);
  Cancel(2);  // in flight, before its first token
  ASSERT_FALSE(scheduler->Idle());
  Done();
  EXPECT_TRUE(Tokens(2).empty());

  auto first = MakeRequest(3, TextOf(3, 4), 12);
  Submit(first);
  Submit(4, TextOf(4, 4), 12);
  ASSERT_TRUE(RunUntil([this] { return Stats().preemptions > 0; }));
  EXPECT_GT(Stats().fenced_blocks, 0u);
  Cancel(4);  // preempted, with a step in flight
  RunUntilIdle();
  ExpectComplete(*first);
  EXPECT_EQ(Stats().free_blocks + Stats().cached_blocks, limits.kv_groups[0].num_blocks);
}

TEST_F(SchedulerFailureTest, OutcomesOfAnOldTenantDoNotReachTheNewOne) {
  config.max_steps_in_flight = 3;
  limits.max_slots = 1;
  Start();
  auto second = MakeRequest(2, TextOf(2, 3), 4);
  Submit(1, TextOf(1, 3), 9);
  Submit(second);
  ASSERT_NE(Plan(), nullptr);
  ASSERT_NE(Plan(), nullptr);
  Cancel(1);
  const StepPlan* plan = Plan();
  EXPECT_THAT(plan->released, ElementsAre(0));
  EXPECT_EQ(plan->started[0].slot, 0u)
      << "the same slot, while two steps of its old tenant are out";
  Done();
  Done();
  EXPECT_TRUE(Tokens(1).empty());
  EXPECT_TRUE(Tokens(2).empty());
  RunUntilIdle();
  ExpectComplete(*second);
}

}  // namespace
}  // namespace lockstep::router::testing
