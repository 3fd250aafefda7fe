// What goes into a step, in which order, and how far ahead of results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "router/core/policy/priority_policy.h"
#include "tests/router/core/scheduler_fixture.h"

namespace lockstep::router::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SchedulerPlanningTest : public SchedulerTest {};

TEST_F(SchedulerPlanningTest, DecodesComeFirstAndPrefillFillsTheRest) {
  limits.max_step_tokens = 8;
  Start();
  Submit(1, TextOf(1, 3), 20);
  EXPECT_THAT(PlanRowTokens(), ElementsAre(3));
  Submit(2, TextOf(2, 20), 20);
  Submit(3, TextOf(3, 2), 20);
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1, 7));
  Done();
  Done();
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1, 7));
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1, 6, 1));
  EXPECT_EQ(planned.back().num_decode_tokens, 1u);
  EXPECT_EQ(planned.back().num_prefill_tokens, 7u);
  Done();
  Done();
  EXPECT_THAT(PlanRowTokens(),
              ElementsAre(1, 1, 1));  // 3 finishes its prompt, one token of it was left
  RunUntilIdle();
}

TEST_F(SchedulerPlanningTest, PrefillPerStepCanBeCapped) {
  config.max_prefill_tokens_per_step = 5;
  Start();
  Submit(1, TextOf(1, 12), 1);
  EXPECT_THAT(PlanRowTokens(), ElementsAre(5));
  EXPECT_THAT(PlanRowTokens(), ElementsAre(5));
  Done();
  EXPECT_THAT(PlanRowTokens(), ElementsAre(2));
  RunUntilIdle();
}

TEST_F(SchedulerPlanningTest, StepsRunAheadOfResults) {
  config.max_steps_in_flight = 3;
  Start();
  auto request = MakeRequest(1, TextOf(1, 4), 10);
  Submit(request);
  EXPECT_THAT(PlanRowTokens(), ElementsAre(4));
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1));
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1));
  EXPECT_EQ(Plan(), nullptr) << "three are in flight";
  EXPECT_EQ(Stats().steps_in_flight, 3u);
  Done();
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1));
  RunUntilIdle();
  ExpectComplete(*request);
}

TEST_F(SchedulerPlanningTest, TheWorkerBoundsTheDepthToo) {
  config.max_steps_in_flight = 3;
  limits.max_steps_in_flight = 1;
  Start();
  Submit(1, TextOf(1, 4), 10);
  EXPECT_NE(Plan(), nullptr);
  EXPECT_EQ(Plan(), nullptr);
  RunUntilIdle();
}

TEST_F(SchedulerPlanningTest, NoRowIsPlannedBeyondTheLastToken) {
  config.max_steps_in_flight = 4;
  Start();
  Submit(1, TextOf(1, 2), 2);
  EXPECT_NE(Plan(), nullptr);
  EXPECT_NE(Plan(), nullptr);
  EXPECT_EQ(Plan(), nullptr) << "both tokens are under way";
  RunUntilIdle();
  EXPECT_EQ(Stats().wasted_rows, 0u);
  EXPECT_EQ(Tokens(1).size(), 2u);
}

TEST_F(SchedulerPlanningTest, BlocksAreReservedForEveryStepInFlight) {
  config.max_steps_in_flight = 3;
  limits.kv_groups[0].block_size_tokens = 1;
  Start();
  Submit(1, TextOf(1, 3), 10);
  EXPECT_EQ(Plan()->started[0].blocks[0].ids.size(), 3u);
  EXPECT_EQ(Plan()->rows[0].new_blocks[0].ids.size(), 1u);
  EXPECT_EQ(Plan()->rows[0].new_blocks[0].ids.size(), 1u);
  EXPECT_EQ(Stats().used_blocks, 5u);
  RunUntilIdle();
}

TEST_F(SchedulerPlanningTest, RowsRepeatWhileTheBatchStaysTheSame) {
  Start();
  Submit(1, TextOf(1, 2), 6);
  Submit(2, TextOf(2, 2), 4);
  EXPECT_FALSE(Plan()->repeat_rows);
  EXPECT_TRUE(Plan()->repeat_rows);
  Done();
  Submit(3, TextOf(3, 1), 2);
  EXPECT_FALSE(Plan()->repeat_rows) << "request 3 joins";
  Done();
  EXPECT_TRUE(Plan()->repeat_rows);
  Done();
  EXPECT_FALSE(Plan()->repeat_rows) << "requests 2 and 3 have nothing left to plan";
  RunUntilIdle();
}

TEST_F(SchedulerPlanningTest, ARestartedSlotIsNoRepetition) {
  config.max_steps_in_flight = 1;
  limits.max_slots = 1;
  Start();
  Submit(1, {1}, 1);
  Submit(2, {2}, 1);
  ASSERT_NE(Plan(), nullptr);
  Done();
  const StepPlan* plan = Plan();
  EXPECT_THAT(plan->released, ElementsAre(0));
  EXPECT_EQ(plan->started[0].slot, 0u);
  EXPECT_FALSE(plan->repeat_rows);
  RunUntilIdle();
}

TEST_F(SchedulerPlanningTest, SeveralIterationsWhileAllDecodeAndNobodyWaits) {
  config.max_decode_iterations = 8;
  config.max_steps_in_flight = 1;
  limits.max_decode_iterations = 4;
  Start();
  auto request = MakeRequest(1, TextOf(1, 5), 12);
  Submit(request);
  EXPECT_EQ(Plan()->decode_iterations, 1u) << "a prefill";
  Done();
  const StepPlan* plan = Plan();
  EXPECT_EQ(plan->decode_iterations, 4u);
  EXPECT_EQ(plan->rows[0].num_tokens, 1u);
  EXPECT_EQ(plan->num_decode_tokens, 4u);
  EXPECT_EQ(Stats().used_blocks, 4u) << "room for positions 5 to 8, and for the next four";
  Submit(2, TextOf(2, 5), 2);
  Done();
  EXPECT_EQ(Tokens(1).size(), 5u);
  EXPECT_EQ(Plan()->decode_iterations, 1u) << "request 2 starts";
  Done();
  EXPECT_EQ(Tokens(2).size(), 1u);
  RunUntilIdle();
  ExpectComplete(*request);
}

TEST_F(SchedulerPlanningTest, IterationsNeverExceedWhatIsLeft) {
  config.max_decode_iterations = 8;
  limits.max_decode_iterations = 8;
  Start();
  Submit(1, TextOf(1, 1), 4);
  ASSERT_EQ(Plan()->decode_iterations, 1u) << "it only starts";
  const StepPlan* plan = Plan();
  EXPECT_EQ(plan->decode_iterations, 3u);
  EXPECT_EQ(plan->num_decode_tokens, 3u);
  EXPECT_EQ(Plan(), nullptr);
  Done();
  Done();
  EXPECT_EQ(Tokens(1).size(), 4u);
}

TEST_F(SchedulerPlanningTest, ShortBlocksFallBackToOneIteration) {
  config.max_decode_iterations = 4;
  config.max_steps_in_flight = 1;
  limits.max_decode_iterations = 4;
  limits.kv_groups[0].block_size_tokens = 1;
  limits.kv_groups[0].num_blocks = 6;
  Start();
  Submit(1, TextOf(1, 4), 3);
  ASSERT_NE(Plan(), nullptr);
  Done();
  EXPECT_EQ(Plan()->decode_iterations, 2u) << "two tokens are left";
  RunUntilIdle();

  Submit(2, TextOf(2, 2), 4);
  Submit(3, TextOf(3, 2), 4);
  ASSERT_NE(Plan(), nullptr);
  Done();
  EXPECT_EQ(Plan()->decode_iterations, 1u) << "six tokens of two sequences do not fit";
  RunUntilIdle();
  EXPECT_EQ(Tokens(3).size(), 4u);
}

TEST_F(SchedulerPlanningTest, AMessageStartsSoManyKnownTokens) {
  config.max_started_ids_per_step = 30;
  config.max_steps_in_flight = 1;
  Start();
  Submit(1, TextOf(1, 17), 1);
  RunUntilIdle();
  for (RequestKey key = 2; key <= 6; ++key) Submit(key, TextOf(1, 17), 4);
  auto lists = MakeRequest(7, {1}, 4);
  for (TokenId token = 0; token < 30; ++token) lists->sampling.allowed_token_ids.push_back(token);
  Submit(lists);
  Submit(8, {2}, 4);
  std::vector<size_t> num_started;
  for (int i = 0; i < 4; ++i) {
    const StepPlan* const plan = Plan();
    ASSERT_NE(plan, nullptr);
    num_started.push_back(plan->started.size());
    Done();
  }
  EXPECT_THAT(num_started, ElementsAre(2, 2, 2, 1)) << "cached or not, 17 tokens each";
  RunUntilIdle();
}

TEST_F(SchedulerPlanningTest, RunningIsBoundedByConfigSlotsAndStepTokens) {
  const auto num_running = [this] {
    Start();
    for (RequestKey key = 1; key <= 6; ++key) Submit(key, {1}, 3);
    uint32_t most = 0;
    EXPECT_TRUE(RunUntil([this, &most] {
      most = std::max(most, Stats().running_sequences);
      return scheduler->Idle();
    }));
    return most;
  };
  config.max_running_sequences = 4;
  EXPECT_EQ(num_running(), 4u);
  limits.max_slots = 3;
  EXPECT_EQ(num_running(), 3u);
  limits.max_step_tokens = 2;
  EXPECT_EQ(num_running(), 2u);
}

TEST_F(SchedulerPlanningTest, ThePolicyOrdersChunksAndStarts) {
  limits.max_step_tokens = 4;
  config.max_steps_in_flight = 1;
  Start(MakePriorityPolicy(absl::Hours(1)));
  auto low = MakeRequest(1, TextOf(1, 12), 1);
  low->priority = 1;
  Submit(low);
  ASSERT_EQ(Plan()->started[0].request->key, 1u);
  Done();
  auto high = MakeRequest(2, TextOf(2, 8), 1);
  Submit(high);
  const StepPlan* plan = Plan();
  ASSERT_EQ(plan->started.size(), 1u);
  EXPECT_EQ(plan->started[0].request->key, 2u);
  ASSERT_EQ(plan->rows.size(), 1u) << "it takes the whole step from the running prompt";
  EXPECT_EQ(plan->rows[0].slot, plan->started[0].slot);
  RunUntilIdle();
  ExpectComplete(*low);
  ExpectComplete(*high);
}

TEST_F(SchedulerPlanningTest, NobodyOvertakesTheFirstThatDoesNotFit) {
  limits.kv_groups[0].num_blocks = 8;
  Start();
  Submit(1, TextOf(1, 20), 8);
  Submit(2, TextOf(2, 16), 1);
  Submit(3, TextOf(3, 1), 1);
  EXPECT_EQ(Plan()->started.size(), 1u);
  EXPECT_THAT(Plan()->started, IsEmpty());
  EXPECT_EQ(Stats().waiting_requests, 2u);
  RunUntilIdle();
  EXPECT_EQ(Tokens(3).size(), 1u);
}

TEST_F(SchedulerPlanningTest, StartedSlotsTellEverything) {
  Start();
  auto request = MakeRequest(1, TextOf(1, 6), 3);
  Submit(request);
  const StepPlan* plan = Plan();
  ASSERT_EQ(plan->started.size(), 1u);
  const StartedSlot& started = plan->started[0];
  EXPECT_EQ(plan->step_id, 1u);
  EXPECT_EQ(started.request, request);
  EXPECT_EQ(started.sample_index, 0u);
  EXPECT_EQ(started.known_tokens, request->prompt_tokens);
  EXPECT_EQ(started.num_computed_tokens, 0u);
  EXPECT_EQ(started.blocks[0].ids.size(), 2u);
  EXPECT_EQ(started.first_prompt_logprob, 0u);
  RunUntilIdle();
}

}  // namespace
}  // namespace lockstep::router::testing
