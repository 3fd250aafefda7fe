// Two groups of KV: all tokens, and a window of 32, in blocks of 16.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/status.h"
#include "tests/router/core/scheduler_fixture.h"

namespace lockstep::router::testing {
namespace {

class SchedulerWindowsTest : public SchedulerTest {
 protected:
  SchedulerWindowsTest() {
    limits.kv_groups = {{.block_size_tokens = 16, .num_blocks = 64},
                        {.block_size_tokens = 16,
                         .num_blocks = 24,
                         .retention = Retention::kWindow,
                         .window_tokens = 32}};
    limits.max_context_tokens = 1024;
    limits.max_step_tokens = 64;
  }
  KvGroup& window() { return limits.kv_groups[1]; }

  std::shared_ptr<Request> Add(RequestKey key, std::vector<TokenId> prompt,
                               uint32_t max_new_tokens) {
    std::shared_ptr<Request> request = MakeRequest(key, std::move(prompt), max_new_tokens);
    Submit(request);
    return request;
  }
};

TEST_F(SchedulerWindowsTest, TheSmallestWindowGroupServesALongText) {
  window().num_blocks = 4;
  Start();
  const auto request = Add(1, TextOf(1, 400), 100);
  RunUntilIdle();
  ExpectComplete(*request);
  EXPECT_EQ(Stats().preemptions, 0u);
}

TEST_F(SchedulerWindowsTest, AChunkEndsWhereTheWindowGroupHasNoBlock) {
  config.max_steps_in_flight = 1;
  window().num_blocks = 4;
  Start();
  Add(1, TextOf(1, 160), 1);
  const StepPlan* plan = Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->rows[0].num_tokens, 64u) << "four blocks";
  Done();
  plan = Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->rows[0].num_tokens, 32u) << "two of them are the window of the next token";
}

TEST_F(SchedulerWindowsTest, ABlockBehindTheWindowWaitsForTheAcknowledgement) {
  config.max_steps_in_flight = 3;
  window().num_blocks = 6;
  Start();
  Add(1, TextOf(1, 160), 1);
  ASSERT_NE(Plan(), nullptr);
  const StepPlan* plan = Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->rows[0].num_tokens, 32u) << "the blocks of the first step are not free yet";
  EXPECT_EQ(Plan(), nullptr);
  Done();
  plan = Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->rows[0].num_tokens, 32u) << "two blocks came back";
  RunUntilIdle();
}

TEST_F(SchedulerWindowsTest, AHitTellsTheWindowOnly) {
  Start();
  Add(1, TextOf(1, 161), 1);
  RunUntilIdle();
  const auto again = Add(2, TextOf(1, 161), 4);
  const StepPlan* plan = Plan();
  ASSERT_NE(plan, nullptr);
  const StartedSlot& started = plan->started[0];
  EXPECT_EQ(started.num_computed_tokens, 160u);
  EXPECT_EQ(started.blocks[0].first, 0u);
  EXPECT_EQ(started.blocks[0].ids.size(), 11u);
  EXPECT_EQ(started.blocks[1].first, 8u) << "token 160 reads from token 129 on";
  EXPECT_EQ(started.blocks[1].ids.size(), 3u);
  RunUntilIdle();
  ExpectComplete(*again);
}

TEST_F(SchedulerWindowsTest, WithoutItsWindowAPrefixIsComputedAgain) {
  window().num_blocks = 16;
  Start();
  Add(1, TextOf(1, 161), 1);
  RunUntilIdle();
  Add(2, TextOf(2, 161), 40);
  RunUntilIdle();
  // The second text took the blocks behind the first one's window, and those of its end stayed.
  Add(3, TextOf(1, 161), 1);
  RunUntilIdle();
  EXPECT_EQ(admitted.at(3).num_cached_tokens, 160u);
  // Many at once take all.
  for (RequestKey key = 4; key < 8; ++key) Add(key, TextOf(static_cast<uint32_t>(key), 100), 40);
  RunUntilIdle();
  const auto again = Add(8, TextOf(1, 161), 4);
  RunUntilIdle();
  EXPECT_LT(admitted.at(8).num_cached_tokens, 160u);
  ExpectComplete(*again);
}

TEST_F(SchedulerWindowsTest, ManySequencesShareATightWindowGroup) {
  window().num_blocks = 9;
  Start();
  std::vector<std::shared_ptr<Request>> requests;
  for (RequestKey key = 1; key <= 8; ++key) {
    requests.push_back(Add(key, TextOf(static_cast<uint32_t>(key), 50), 60));
  }
  RunUntilIdle();
  for (const auto& request : requests) ExpectComplete(*request);
}

TEST_F(SchedulerWindowsTest, APreemptedSequenceFindsItsOwnWindowAgain) {
  limits.kv_groups[0].num_blocks = 12;
  Start();
  const auto first = Add(1, TextOf(1, 60), 60);
  const auto second = Add(2, TextOf(2, 60), 60);
  ASSERT_TRUE(RunUntil([this] { return Stats().preemptions > 0; }));
  RunUntilIdle();
  ExpectComplete(*first);
  ExpectComplete(*second);
  EXPECT_GT(Stats().prefix_hit_tokens, 0u);
}

TEST_F(SchedulerWindowsTest, SamplesShareTheWindowOfTheirPrompt) {
  Start();
  auto request = MakeRequest(1, TextOf(1, 100), 20);
  request->num_samples = 3;
  request->sampling.temperature = 1;
  Submit(request);
  RunUntilIdle();
  for (uint32_t i = 0; i < 3; ++i) ExpectComplete(*request, i);
  EXPECT_EQ(Stats().prefix_hit_tokens, 2u * 96u);
}

TEST_F(SchedulerWindowsTest, AWindowGroupThatIsTooSmallIsRefused) {
  Start();
  WorkerLimits broken = limits;
  broken.kv_groups[1].num_blocks = 3;
  const absl::Status status = scheduler->AttachWorker(broken, now);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), ::testing::HasSubstr("kv_groups[1]: num_blocks is 3"));
}

}  // namespace
}  // namespace lockstep::router::testing
