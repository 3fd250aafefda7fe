// What the scheduler tells a worker that has nothing to run, workers that leave, and workers that
// compute other bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/instant.h"
#include "common/status.h"
#include "tests/router/core/scheduler_fixture.h"

namespace lockstep::router::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SchedulerWorkerTest : public SchedulerTest {
 protected:
  void DrainWorker() { scheduler->DrainWorker(now); }
  // The worker, which has nothing to run, holds a slot of request 1, which was cancelled.
  void StartWithAReleasedSlot() {
    Start();
    Submit(1, TextOf(1, 5), 9);
    ASSERT_NE(Plan(), nullptr);
    Done();
    Cancel(1);
  }
  // What the worker is told once it has waited long enough for rows.
  const StepPlan* PlanLater() {
    EXPECT_EQ(Plan(), nullptr) << "most often rows follow soon, and tell it as well";
    EXPECT_GT(scheduler->NextStepAt(), now);
    EXPECT_LE(scheduler->NextStepAt(), now + absl::Milliseconds(50));
    now = scheduler->NextStepAt();
    return Plan();
  }
  uint32_t FailWithOutput() {
    const uint32_t num_failed =
        scheduler->FailWithOutput(MakeError(absl::StatusCode::kAborted, "other bits"), now);
    Cancel(1000);  // of nobody: takes the events
    return num_failed;
  }
};

TEST_F(SchedulerWorkerTest, AnIdleWorkerLearnsThatItsSlotsAreFree) {
  ASSERT_NO_FATAL_FAILURE(StartWithAReleasedSlot());
  EXPECT_EQ(worker->num_occupied_slots(), 1u);
  const StepPlan* plan = PlanLater();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(scheduler->NextStepAt(), Instant::InfiniteFuture());
  EXPECT_THAT(plan->released, ElementsAre(0));
  EXPECT_THAT(plan->rows, IsEmpty());
  EXPECT_FALSE(plan->repeat_rows);
  EXPECT_EQ(Plan(), nullptr) << "once is enough";
  Done();
  EXPECT_EQ(worker->num_occupied_slots(), 0u);
  EXPECT_EQ(Plan(), nullptr);
  EXPECT_TRUE(scheduler->Idle());

  auto next = MakeRequest(2, TextOf(2, 5), 9);
  Submit(next);
  RunUntilIdle();
  ExpectComplete(*next);
}

TEST_F(SchedulerWorkerTest, TheNextRowsTellAWorkerWhichSlotsAreFree) {
  ASSERT_NO_FATAL_FAILURE(StartWithAReleasedSlot());
  EXPECT_EQ(Plan(), nullptr);
  Submit(2, TextOf(2, 5), 9);
  const StepPlan* plan = Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_THAT(plan->released, ElementsAre(0));
  EXPECT_EQ(plan->rows.size(), 1u);
  EXPECT_EQ(scheduler->NextStepAt(), Instant::InfiniteFuture());
}

TEST_F(SchedulerWorkerTest, ADrainingWorkerIsToldAtOnce) {
  Start();
  Submit(1, TextOf(1, 5), 9);
  ASSERT_NE(Plan(), nullptr);
  Done();
  DrainWorker();
  Cancel(1);
  const StepPlan* plan = Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_THAT(plan->released, ElementsAre(0));
}

TEST_F(SchedulerWorkerTest, AWorkerThatIsLostNeedsNotBeTold) {
  ASSERT_NO_FATAL_FAILURE(StartWithAReleasedSlot());
  EXPECT_EQ(Plan(), nullptr);
  DetachWorker();
  EXPECT_EQ(scheduler->NextStepAt(), Instant::InfiniteFuture());
}

TEST_F(SchedulerWorkerTest, StepsUnderWayAreAwaitedBeforeAWorkerIsToldAlone) {
  Start();
  Submit(1, TextOf(1, 5), 9);
  ASSERT_NE(Plan(), nullptr);
  Cancel(1);
  EXPECT_EQ(Plan(), nullptr);
  EXPECT_EQ(scheduler->NextStepAt(), Instant::InfiniteFuture());
  Done();
  const StepPlan* plan = PlanLater();
  ASSERT_NE(plan, nullptr);
  EXPECT_THAT(plan->released, ElementsAre(0));
}

TEST_F(SchedulerWorkerTest, AfterARefusalAnIdleWorkerIsResynced) {
  Start();
  Submit(1, TextOf(1, 5), 9);
  ASSERT_NE(Plan(), nullptr);
  Done();
  ASSERT_NE(Plan(), nullptr);
  Done({.refuse = true});
  Cancel(1);
  const StepPlan* plan = Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_TRUE(plan->resync);
  EXPECT_THAT(plan->rows, IsEmpty());
  Done();
  EXPECT_EQ(worker->num_occupied_slots(), 0u);
  EXPECT_FALSE(worker->refusing());
}

TEST_F(SchedulerWorkerTest, RefusingAStepWithoutRowsIsAContradiction) {
  ASSERT_NO_FATAL_FAILURE(StartWithAReleasedSlot());
  ASSERT_NE(PlanLater(), nullptr);
  const absl::Status status = Apply(Execute({.refuse = true}));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Message(status), HasSubstr("although it runs nothing"));
}

TEST_F(SchedulerWorkerTest, ADrainingWorkerFinishesWhatRunsAndStartsNothing) {
  config.max_running_sequences = 2;
  Start();
  auto samples = MakeRequest(1, TextOf(1, 9), 6);  // its second sample waits for the first
  samples->num_samples = 2;
  auto running = MakeRequest(2, TextOf(2, 5), 9);
  auto waiting = MakeRequest(3, TextOf(3, 5), 4);
  auto later = MakeRequest(4, TextOf(4, 5), 4);
  Submit(samples);
  Submit(running);
  ASSERT_NE(Plan(), nullptr);
  Submit(waiting);
  DrainWorker();
  Submit(later);
  const auto starts_nothing = [this] { return planned.empty() || planned.back().started.empty(); };
  Done();
  ASSERT_TRUE(RunUntil([&] {
    EXPECT_TRUE(starts_nothing());
    return Stats().running_sequences == 0 && planned.empty();
  }));
  EXPECT_EQ(Tokens(1, 0).size(), 6u);
  ExpectComplete(*running);
  EXPECT_EQ(Stats().waiting_requests, 3u);
  if (Plan() != nullptr) Done();  // the slots that it still holds
  EXPECT_EQ(worker->num_occupied_slots(), 0u);
  EXPECT_EQ(Plan(), nullptr) << "the rest is for the next worker";

  AttachWorker(limits);
  RunUntilIdle();
  ExpectComplete(*samples, 0);
  ExpectComplete(*samples, 1);
  ExpectComplete(*waiting);
  ExpectComplete(*later);
}

TEST_F(SchedulerWorkerTest, ADrainingWorkerResumesNothing) {
  limits.kv_groups[0].num_blocks = 8;
  limits.kv_groups[0].block_size_tokens = 2;
  Start();
  auto first = MakeRequest(1, TextOf(1, 4), 12);
  auto victim = MakeRequest(2, TextOf(2, 4), 12);
  Submit(first);
  Submit(victim);
  ASSERT_NE(Plan(), nullptr);
  DrainWorker();
  ASSERT_TRUE(RunUntil([this] { return Ending(1) != nullptr && planned.empty(); }));
  EXPECT_GT(Stats().preemptions, 0u);
  EXPECT_EQ(Stats().waiting_sequences, 1u);
  EXPECT_LT(Tokens(2).size(), 12u);
  AttachWorker(limits);
  RunUntilIdle();
  ExpectComplete(*first);
  ExpectComplete(*victim);
}

TEST_F(SchedulerWorkerTest, ARefusalOfADrainingWorkerLeavesItsSequencesToTheNext) {
  Start();
  auto request = MakeRequest(1, TextOf(1, 5), 6);
  Submit(request);
  ASSERT_NE(Plan(), nullptr);
  Done();
  DrainWorker();
  ASSERT_NE(Plan(), nullptr);
  Done({.refuse = true});
  const StepPlan* plan = Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_TRUE(plan->resync);
  EXPECT_THAT(plan->rows, IsEmpty());
  Done();
  EXPECT_EQ(worker->num_occupied_slots(), 0u);
  EXPECT_EQ(Plan(), nullptr);
  AttachWorker(limits);
  RunUntilIdle();
  ExpectComplete(*request);
}

TEST_F(SchedulerWorkerTest, OtherBitsFailWhatHasTokens) {
  config.max_running_sequences = 2;
  Start();
  auto samples = MakeRequest(1, TextOf(1, 3), 6);  // one has ended, the other has not begun
  samples->num_samples = 2;
  auto untouched = MakeRequest(3, TextOf(3, 5), 4);
  Submit(samples);
  ASSERT_NE(Plan(), nullptr);
  Done();
  Stop(1, 1);
  Submit(2, TextOf(2, 5), 4);
  ASSERT_NE(Plan(), nullptr);
  Done();
  Submit(untouched);
  DetachWorker();
  EXPECT_EQ(FailWithOutput(), 2u);
  EXPECT_EQ(Message(Ending(1, 0)->error), "other bits");
  EXPECT_EQ(Ending(1, 0)->error.code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Ending(1, 1)->error.ok()) << "it had ended before";
  EXPECT_EQ(Message(Ending(2)->error), "other bits");
  AttachWorker(limits);
  RunUntilIdle();
  ExpectComplete(*untouched);
}

TEST_F(SchedulerWorkerTest, OtherBitsFailARequestOfWhichOneSampleHasEnded) {
  config.max_running_sequences = 1;
  Start();
  auto samples = MakeRequest(1, TextOf(1, 9), 3);
  samples->num_samples = 2;
  Submit(samples);
  ASSERT_TRUE(RunUntil([this] { return Ending(1, 0) != nullptr; }));
  ASSERT_TRUE(Tokens(1, 1).empty());
  DetachWorker();
  EXPECT_EQ(FailWithOutput(), 1u);
  EXPECT_EQ(Message(Ending(1, 1)->error), "other bits");
}

TEST_F(SchedulerWorkerTest, OtherBitsFailWhatHasPromptLogprobs) {
  limits.max_step_tokens = 4;
  config.max_steps_in_flight = 1;
  for (const int num_steps : {1, 2}) {  // some of them, all of them but no token
    Start();
    auto request = MakeRequest(1, TextOf(1, 9), 4);
    request->sampling.num_prompt_logprobs = 0;
    Submit(request);
    for (int i = 0; i < num_steps; ++i) {
      ASSERT_NE(Plan(), nullptr);
      Done();
    }
    ASSERT_TRUE(Tokens(1).empty());
    EXPECT_EQ(prompt_logprobs.size(), num_steps == 2 ? 1u : 0u);
    DetachWorker();
    ASSERT_EQ(FailWithOutput(), 1u);
    EXPECT_EQ(Ending(1)->error.code(), absl::StatusCode::kAborted);
  }
}

TEST_F(SchedulerWorkerTest, OtherBitsSpareWhatHasNoOutput) {
  limits.max_step_tokens = 4;
  config.max_steps_in_flight = 1;
  Start();
  auto chunked = MakeRequest(1, TextOf(1, 9), 4);
  auto describing = MakeRequest(2, TextOf(2, 9), 4);
  describing->sampling.num_prompt_logprobs = 0;
  auto single = MakeRequest(3, {7}, 4);  // has no prompt log-probabilities to wait for
  single->sampling.num_prompt_logprobs = 0;
  for (const auto& request : {chunked, describing, single}) Submit(request);
  ASSERT_NE(Plan(), nullptr);
  Done();
  DetachWorker();
  EXPECT_EQ(FailWithOutput(), 0u);
  AttachWorker(limits);
  RunUntilIdle();
  for (const auto& request : {chunked, describing, single}) ExpectComplete(*request);
}

}  // namespace
}  // namespace lockstep::router::testing
