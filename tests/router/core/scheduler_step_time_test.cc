// How long a step may take, and what that leaves for prefill.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/router/core/scheduler_fixture.h"

namespace lockstep::router::testing {
namespace {

using ::testing::ElementsAre;

// Request 1 decodes, 1 ms a step, when a prompt of 3,000 tokens arrives.
class StepTimeTest : public SchedulerTest {
 protected:
  StepTimeTest() {
    config.target_step_time = absl::Milliseconds(10);
    config.max_steps_in_flight = 1;
  }
  void SubmitPromptBesideDecodes() {
    limits.kv_groups[0].num_blocks = 1000;
    limits.max_context_tokens = 4000;
    limits.max_step_tokens = 1500;
    Start();
    Submit(1, {1}, 200);
    step_time = absl::Milliseconds(1);
    for (int i = 0; i < 10; ++i) {
      ASSERT_NE(Plan(), nullptr);
      Done();
    }
    Submit(2, TextOf(2, 3000), 2);
  }
};

TEST_F(StepTimeTest, ChunksShrinkToMeetTheTargetStepTime) {
  ASSERT_NO_FATAL_FAILURE(SubmitPromptBesideDecodes());
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1, 64)) << "nothing is known of prefill yet";
  step_time = absl::Milliseconds(1) + 64 * absl::Microseconds(10);
  Done();
  // 2,936 tokens wait, 29.36 ms: the step may take 5 ms and three tenths of that.
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1, 1279))
      << "12.8 ms at 0.01 ms a token; another token would begin a tile of 128 rows";
  Cancel(1);
  step_time = absl::Milliseconds(10);
  Done();
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1500)) << "nobody waits for a token";
  RunUntilIdle();
}

TEST_F(StepTimeTest, DecodesAloneFollowTheFourthLongChunkAndLaterOnes) {
  config.max_prefill_tokens_per_step = 160;
  ASSERT_NO_FATAL_FAILURE(SubmitPromptBesideDecodes());
  const absl::Duration decode_time = step_time;
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1, 64));
  step_time = decode_time + 64 * absl::Microseconds(100);
  Done();
  const absl::Duration chunk_time = decode_time + 160 * absl::Microseconds(100);
  step_time = chunk_time;
  for (int chunk = 0; chunk < 4; ++chunk) {
    EXPECT_THAT(PlanRowTokens(), ElementsAre(1, 160)) << chunk;
    Done();
  }
  for (int turn = 0; turn < 4; ++turn) {
    EXPECT_THAT(PlanRowTokens(), ElementsAre(1)) << turn;
    step_time = decode_time;
    Done();
    EXPECT_THAT(PlanRowTokens(), ElementsAre(1, 160)) << turn;
    step_time = chunk_time;
    Done();
  }
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1));
  step_time = decode_time;
  Done();
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1)) << "every fourth time there are two";
  Done();
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1, 160));
  Done();
  RunUntilIdle();
}

TEST_F(StepTimeTest, PromptsThatWaitMakeStepsLonger) {
  ASSERT_NO_FATAL_FAILURE(SubmitPromptBesideDecodes());
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1, 64));
  step_time = absl::Milliseconds(1) + 64 * absl::Microseconds(100);
  Done();
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1, 390)) << "four times the target";
  RunUntilIdle();
}

// Prompts before were cached, all but their last block.
TEST_F(StepTimeTest, PromptsThatAreComputedWholeDoNotCountAsCached) {
  for (const bool bypasses : {true, false}) {
    limits.max_slots = 64;
    ASSERT_NO_FATAL_FAILURE(SubmitPromptBesideDecodes());
    Cancel(2);
    for (RequestKey key = 3; key <= 42; ++key) {
      Submit(key, TextOf(3, 1000), 1);
      ASSERT_TRUE(RunUntil([&] { return Ending(key) != nullptr; }));
    }
    for (RequestKey key = 50; key <= 52; ++key) {
      auto request = MakeRequest(key, TextOf(static_cast<uint32_t>(key), 1000), 2);
      if (bypasses) {
        request->bypass_prefix_cache = true;
      } else {
        request->sampling.num_prompt_logprobs = 0;
      }
      Submit(std::move(request));
    }
    while (!planned.empty()) Done();
    const StepPlan* const step = Plan();
    ASSERT_NE(step, nullptr);
    EXPECT_GT(step->num_prefill_tokens, 1000u) << bypasses;
    RunUntilIdle();
  }
}

TEST_F(StepTimeTest, PromptsThatCannotStartMakeNoStepLonger) {
  config.max_running_sequences = 2;
  ASSERT_NO_FATAL_FAILURE(SubmitPromptBesideDecodes());
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1, 64));
  for (RequestKey key = 3; key <= 12; ++key) {
    Submit(key, TextOf(static_cast<uint32_t>(key), 1000), 2);
  }
  step_time = absl::Milliseconds(1) + 64 * absl::Microseconds(10);
  Done();
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1, 1279)) << "as if nothing waited";
  RunUntilIdle();
}

// 10 ms a token are aimed at. Request 1 decodes, 1 ms a step, so the most is saved: 20 ms.
TEST_F(StepTimeTest, ATimePerTokenCountsChunksInFlight) {
  config.target_step_time = absl::InfiniteDuration();
  config.max_time_per_token = absl::Milliseconds(10) / 0.95;
  config.max_steps_in_flight = 2;
  ASSERT_NO_FATAL_FAILURE(SubmitPromptBesideDecodes());
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1, 64)) << "nothing is known of prefill yet";
  step_time = absl::Milliseconds(1) + 64 * absl::Microseconds(100);
  Done();
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1, 290)) << "29 of 30 ms at 0.1 ms a token";
  EXPECT_THAT(PlanRowTokens(), ElementsAre(1, 90))
      << "of 10 ms: the chunk in flight spends the rest";
  step_time = absl::Milliseconds(1);
  RunUntilIdle();
}

}  // namespace
}  // namespace lockstep::router::testing
