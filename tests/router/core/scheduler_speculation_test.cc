// How many drafts the scheduler allows, as it learns what they bring.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "tests/router/core/scheduler_fixture.h"

namespace lockstep::router::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr absl::Duration kMillisecond = absl::Milliseconds(1);

// A step takes 4 ms, and 1 ms for each token that it computes.
class SchedulerSpeculationTest : public SchedulerTest {
 protected:
  SchedulerSpeculationTest() {
    config.max_draft_tokens = 4;
    config.max_steps_in_flight = 1;
    limits.max_draft_tokens = 6;
    limits.max_context_tokens = 4000;
    limits.kv_groups[0].num_blocks = 4000;
  }

  // Plans a step and finishes it. All drafts are made, and the first `num_right` of a row are
  // right. Returns the drafts of each row.
  std::vector<uint32_t> Step(uint32_t num_right) {
    const StepPlan* const plan = Plan();
    if (plan == nullptr) {
      ADD_FAILURE() << "nothing to do";
      return {};
    }
    std::vector<uint32_t> drafts;
    for (const RunRow& row : plan->rows) drafts.push_back(row.max_drafts);
    const auto num_tokens =
        std::accumulate(drafts.begin(), drafts.end(), static_cast<int64_t>(drafts.size()));
    step_time = (4 + num_tokens) * kMillisecond;
    Done({.num_right_drafts = num_right});
    return drafts;
  }
  uint64_t SumOfDrafts(uint32_t num_steps, uint32_t num_right) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < num_steps; ++i) {
      for (const uint32_t drafts : Step(num_right)) sum += drafts;
    }
    return sum;
  }
};

TEST_F(SchedulerSpeculationTest, RightDraftsGrowToTheBoundAndWrongOnesStop) {
  Start();
  Submit(1, TextOf(1, 4), 3000);
  EXPECT_THAT(Step(0), ElementsAre(0)) << "a prompt drafts nothing";
  EXPECT_THAT(Step(0), ElementsAre(0)) << "no time is known yet";
  SumOfDrafts(20, /*num_right=*/4);
  EXPECT_GE(SumOfDrafts(20, 4), 4u * 19u);
  SumOfDrafts(60, /*num_right=*/0);
  // A draft takes a fifth of a step. One in 20 tokens takes a hundredth of the time.
  EXPECT_LE(SumOfDrafts(256, 0), 15u) << "probes";
  // And back.
  SumOfDrafts(280, 4);
  EXPECT_GE(SumOfDrafts(20, 4), 4u * 19u);
  Cancel(1);
  RunUntilIdle();
}

TEST_F(SchedulerSpeculationTest, ARequestMayBeLeftOut) {
  Start();
  auto off = MakeRequest(1, TextOf(1, 4), 200);
  off->may_draft = false;
  Submit(off);
  Submit(2, TextOf(2, 4), 200);
  uint64_t drafts_of_other = 0;
  for (int i = 0; i < 40; ++i) {
    const StepPlan* const plan = Plan();
    ASSERT_NE(plan, nullptr);
    for (const RunRow& row : plan->rows) {
      if (row.slot == 0) {
        EXPECT_EQ(row.max_drafts, 0u);
      } else {
        drafts_of_other += row.max_drafts;
      }
    }
    step_time = 5 * kMillisecond;
    Done({.num_right_drafts = 4});
  }
  EXPECT_GT(drafts_of_other, 60u);
  RunUntilIdle();
  ExpectComplete(*off);
}

TEST_F(SchedulerSpeculationTest, AWorkerThatReportsNoTimesDraftsNothing) {
  Start();
  Submit(1, TextOf(1, 4), 30);
  step_time = absl::ZeroDuration();
  for (int i = 0; i < 20; ++i) {
    ASSERT_NE(Plan(), nullptr);
    for (const RunRow& row : planned.back().rows) EXPECT_EQ(row.max_drafts, 0u);
    Done();
  }
  RunUntilIdle();
}

TEST_F(SchedulerSpeculationTest, StepsWithoutDraftsMayHaveIterations) {
  config.max_decode_iterations = 4;
  limits.max_decode_iterations = 4;
  Start();
  Submit(1, TextOf(1, 4), 2000);
  uint32_t num_with_iterations = 0;
  for (int i = 0; i < 200; ++i) {
    const StepPlan* const plan = Plan();
    ASSERT_NE(plan, nullptr);
    const uint32_t drafts = plan->rows[0].max_drafts;
    if (plan->decode_iterations > 1) {
      ++num_with_iterations;
      EXPECT_EQ(drafts, 0u);
    }
    step_time = plan->decode_iterations * (5 + drafts) * kMillisecond;
    Done({.num_right_drafts = 0});
  }
  EXPECT_GT(num_with_iterations, 100u);
  Cancel(1);
  RunUntilIdle();
}

// What was learned of a sequence outlives its slot. What was learned of the worker does not outlive
// the lease.
TEST_F(SchedulerSpeculationTest, ASequenceThatMovesKeepsWhatIsKnownOfIt) {
  Start();
  Submit(1, TextOf(1, 4), 3000);
  SumOfDrafts(60, 0);
  EXPECT_LE(SumOfDrafts(20, 0), 1u);
  DetachWorker();
  AttachWorker(limits);
  EXPECT_THAT(Step(0), ElementsAre(0));
  EXPECT_LE(SumOfDrafts(20, 0), 1u) << "its drafts were wrong before";
  Cancel(1);
  RunUntilIdle();
}

TEST_F(SchedulerSpeculationTest, RoundsAreCountedByDraftsAndByPlace) {
  config.adaptive_drafts = false;
  config.max_draft_tokens = 3;
  Start();
  Submit(1, TextOf(1, 4), 40);
  Step(0);
  for (const uint32_t num_right : {0u, 1u, 3u, 3u}) Step(num_right);
  const SchedulerStats stats = Stats();
  EXPECT_EQ(stats.rounds_by_drafts[3], 4u);
  EXPECT_EQ(std::accumulate(stats.rounds_by_drafts.begin(), stats.rounds_by_drafts.end(), 0ul), 4u)
      << "the prompt is no round";
  EXPECT_EQ(stats.accepted_by_place[0], 3u);
  EXPECT_EQ(stats.accepted_by_place[1], 2u);
  EXPECT_EQ(stats.accepted_by_place[2], 2u);
  EXPECT_EQ(stats.accepted_drafts, 7u);
  Cancel(1);
  RunUntilIdle();
}

TEST_F(SchedulerSpeculationTest, WithoutDraftsOfTheWorkerNoRoundIsCounted) {
  limits.max_draft_tokens = 0;
  Start();
  Submit(1, TextOf(1, 4), 10);
  RunUntilIdle();
  EXPECT_THAT(Stats().rounds_by_drafts, Each(0u));
}

// Two rows, one with four drafts: blocks are reserved for these, and not for drafts of the other.
TEST_F(SchedulerSpeculationTest, BlocksAreReservedForPlannedDraftsOnly) {
  config.adaptive_drafts = false;
  limits.kv_groups[0].block_size_tokens = 1;
  limits.kv_groups[0].num_blocks = 40;
  Start();
  auto off = MakeRequest(1, TextOf(1, 4), 12);
  off->may_draft = false;
  Submit(off);
  Submit(2, TextOf(2, 4), 12);
  Step(0);
  EXPECT_EQ(Stats().used_blocks, 8u);
  ASSERT_NE(Plan(), nullptr);
  EXPECT_EQ(Stats().used_blocks, 8u + 1u + 5u);
  RunUntilIdle();
}

}  // namespace
}  // namespace lockstep::router::testing
