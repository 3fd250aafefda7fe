// Requests whose deadline cannot be met are refused when they come, and no others.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "router/core/policy/priority_policy.h"
#include "tests/router/core/scheduler_fixture.h"

namespace lockstep::router::testing {
namespace {

// A step takes 32 prompt tokens in 320 ms. 24 blocks of 4 tokens: few prompts run at once.
class SchedulerDeadlineTest : public SchedulerTest {
 protected:
  SchedulerDeadlineTest() {
    limits.kv_groups[0].num_blocks = 24;
    step_time = absl::Milliseconds(320);
  }

  std::shared_ptr<Request> Make(RequestKey key, absl::Duration left, std::string tenant = "a") {
    auto request = MakeRequest(key, TextOf(static_cast<uint32_t>(key), 32), 2);
    request->tenant = std::move(tenant);
    request->deadline = now + left;
    return request;
  }
  // 8 prompts of 32 tokens; one step of the first is over, so that 7 wait.
  void FillQueue() {
    Start(MakePriorityPolicy(absl::Seconds(10)));
    for (RequestKey key = 1; key <= 8; ++key) Submit(Make(key, absl::InfiniteDuration()));
    ASSERT_NE(FindStarted(*Plan(), 1), nullptr);
    Done();
    ASSERT_EQ(Stats().waiting_tokens, 7 * 32u);
  }
};

TEST_F(SchedulerDeadlineTest, RefusedWhenTheQueueTakesLonger) {
  FillQueue();
  // 7 * 320 ms, at twice the speed.
  EXPECT_TRUE(TrySubmit(Make(11, absl::Milliseconds(1121))).ok());
  const absl::Status status = TrySubmit(Make(12, absl::Milliseconds(1119)));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_NE(status.message().find("1119 ms away"), std::string::npos) << status;
  EXPECT_EQ(Stats().refused_for_deadline, 1u);
}

TEST_F(SchedulerDeadlineTest, WhatItPassesDoesNotCount) {
  FillQueue();
  EXPECT_TRUE(TrySubmit(Make(11, absl::Milliseconds(500), "b")).ok()) << "another tenant";
  auto urgent = Make(12, absl::Milliseconds(500));
  urgent->priority = -1;
  EXPECT_TRUE(TrySubmit(std::move(urgent)).ok());
}

TEST_F(SchedulerDeadlineTest, WithoutAMeasurementNothingIsRefused) {
  step_time = absl::ZeroDuration();
  FillQueue();
  EXPECT_TRUE(TrySubmit(Make(11, absl::Milliseconds(1))).ok());
}

TEST_F(SchedulerDeadlineTest, AStepWithRoomLeftSaysNothing) {
  Start();
  Submit(1, TextOf(1, 16), 2);
  ASSERT_NE(Plan(), nullptr);
  Done();
  for (RequestKey key = 2; key <= 8; ++key) Submit(Make(key, absl::InfiniteDuration(), ""));
  EXPECT_TRUE(TrySubmit(Make(11, absl::Milliseconds(1), "")).ok());
}

TEST_F(SchedulerDeadlineTest, AnotherWorkerMayBeFaster) {
  FillQueue();
  DetachWorker();
  AttachWorker(limits);
  EXPECT_TRUE(TrySubmit(Make(11, absl::Milliseconds(1))).ok());
}

// Decodes alone take longer than a token may, so one step in sixteen takes 16 prompt tokens, and
// the others take none: 10 ms a token.
TEST_F(SchedulerDeadlineTest, StepsInWhichAllPromptsHadToWaitCount) {
  config.max_time_per_token = absl::Milliseconds(5);
  limits.kv_groups[0].num_blocks = 400;
  step_time = absl::Milliseconds(10);
  Start(MakePriorityPolicy(absl::Seconds(10)));
  Submit(1, {1}, 200);
  for (int i = 0; i < 8; ++i) {
    ASSERT_NE(Plan(), nullptr);
    Done();
  }
  for (RequestKey key = 2; key <= 12; ++key) Submit(Make(key, absl::InfiniteDuration()));
  for (int i = 0; i < 70; ++i) {
    ASSERT_NE(Plan(), nullptr);
    Done();
  }
  ASSERT_GE(Stats().waiting_tokens, 5 * 32u);
  EXPECT_FALSE(TrySubmit(Make(20, absl::Milliseconds(300))).ok())
      << "160 tokens at twice the speed";
}

// All samples wait for the first slot. The others find what the first one computes.
TEST_F(SchedulerDeadlineTest, OtherSamplesOfAPromptTakeNoTime) {
  config.max_running_sequences = 1;
  Start(MakePriorityPolicy(absl::Seconds(10)));
  Submit(Make(1, absl::InfiniteDuration()));
  ASSERT_NE(Plan(), nullptr);
  Done();
  auto samples = Make(2, absl::InfiniteDuration());
  samples->prompt_tokens.push_back(7);
  samples->num_samples = 8;
  Submit(std::move(samples));
  ASSERT_TRUE(RunUntil([this] { return Ending(2, 0) != nullptr; }));
  ASSERT_EQ(Stats().waiting_sequences, 7u);
  // Seven samples wait with one token and two more each, at most, that they compute themselves: 105
  // ms at twice the speed.
  EXPECT_FALSE(TrySubmit(Make(11, absl::Milliseconds(30))).ok());
  EXPECT_TRUE(TrySubmit(Make(12, absl::Milliseconds(106))).ok());
}

// Seven of eight samples find what the first one computed. New prompts find nothing.
TEST_F(SchedulerDeadlineTest, TheHitsOfOtherSamplesSayNothingOfNewPrompts) {
  Start(MakePriorityPolicy(absl::Seconds(10)));
  for (RequestKey key = 1; key <= 4; ++key) {
    auto samples = Make(key, absl::InfiniteDuration());
    samples->prompt_tokens.push_back(7);
    samples->num_samples = 8;
    Submit(std::move(samples));
    RunUntilIdle();
  }
  for (RequestKey key = 5; key <= 12; ++key) Submit(Make(key, absl::InfiniteDuration()));
  EXPECT_FALSE(TrySubmit(Make(20, absl::Milliseconds(600))).ok())
      << "256 tokens, at twice the speed";
}

TEST_F(SchedulerDeadlineTest, CachedPromptsTakeNoTime) {
  Start();
  Submit(1, TextOf(1, 33), 1);
  RunUntilIdle();
  for (RequestKey key = 2; key <= 20; ++key) Submit(key, TextOf(1, 33), 1);
  RunUntilIdle();  // 19 hits of 32 tokens, 1 of none: a sixteenth is computed
  for (RequestKey key = 21; key <= 36; ++key) Submit(key, TextOf(1, 33), 1);
  EXPECT_TRUE(TrySubmit(Make(40, absl::Milliseconds(500), "")).ok());
}

}  // namespace
}  // namespace lockstep::router::testing
