// With a bound on the time to the first token, requests that would wait too long are refused when
// they come, and no others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "router/core/policy/priority_policy.h"
#include "tests/common/status_matchers.h"
#include "tests/router/core/scheduler_fixture.h"

namespace lockstep::router::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kPromptTokens = 32;

// A step takes 32 prompt tokens in 320 ms, and nobody else decodes for long: 10 ms a token.
class SchedulerFirstTokenTest : public SchedulerTest {
 protected:
  SchedulerFirstTokenTest() {
    limits.num_blocks = 24;
    step_time = absl::Milliseconds(320);
  }

  std::shared_ptr<Request> Make(RequestKey key, std::string tenant = "a",
                                uint32_t num_tokens = kPromptTokens) {
    auto request = MakeRequest(key, TextOf(static_cast<uint32_t>(key), num_tokens), 2);
    request->tenant = std::move(tenant);
    return request;
  }
  // The first prompt was computed, `num_waiting` more of tenant "a" wait.
  void FillQueue(absl::Duration most, RequestKey num_waiting) {
    config.max_time_to_first_token = most;
    Start(MakePriorityPolicy(absl::Seconds(10)));
    for (RequestKey key = 1; key <= 1 + num_waiting; ++key) Submit(Make(key));
    ASSERT_NE(FindStarted(*Plan(), 1), nullptr);
    Done();
    ASSERT_EQ(Stats().waiting_tokens, num_waiting * kPromptTokens);
  }
};

TEST_F(SchedulerFirstTokenTest, RefusedWhenWhatWaitsTakesTooLong) {
  FillQueue(absl::Milliseconds(2559), 7);
  EXPECT_THAT(TrySubmit(Make(11)),
              HasError(absl::StatusCode::kResourceExhausted,
                       HasSubstr("after about 2560 ms, of which 2240 ms are for prompts that wait "
                                 "already; at most 2559 ms are wanted")));
}

TEST_F(SchedulerFirstTokenTest, TakenWhenItComesInTime) {
  FillQueue(absl::Milliseconds(2561), 7);
  EXPECT_THAT(TrySubmit(Make(11)), IsOk());
  EXPECT_THAT(TrySubmit(Make(12)), HasError(absl::StatusCode::kResourceExhausted, HasSubstr("ms")));
}

TEST_F(SchedulerFirstTokenTest, WithoutAMeasurementNothingIsRefused) {
  step_time = absl::ZeroDuration();
  FillQueue(absl::Milliseconds(1), 7);
  EXPECT_THAT(TrySubmit(Make(11)), IsOk());
}

TEST_F(SchedulerFirstTokenTest, WhereNothingWaitsNothingIsRefused) {
  FillQueue(absl::Milliseconds(1), 0);
  EXPECT_THAT(TrySubmit(Make(11)), IsOk());
}

// Its own 640 ms are more than the bound. What goes before may take half of the bound.
TEST_F(SchedulerFirstTokenTest, ALongPromptIsJudgedByWhatWaits) {
  FillQueue(absl::Milliseconds(639), 1);
  EXPECT_THAT(TrySubmit(Make(11, "a", 64)),
              HasError(absl::StatusCode::kResourceExhausted, HasSubstr("320 ms are for")));
}

TEST_F(SchedulerFirstTokenTest, ALongPromptMayWaitForHalfOfTheBound) {
  FillQueue(absl::Milliseconds(641), 1);
  EXPECT_THAT(TrySubmit(Make(11, "a", 64)), IsOk());
}

TEST_F(SchedulerFirstTokenTest, WhatItPassesDoesNotCount) {
  FillQueue(absl::Milliseconds(700), 7);
  EXPECT_FALSE(TrySubmit(Make(11)).ok());
  auto urgent = Make(12);
  urgent->priority = -1;
  EXPECT_THAT(TrySubmit(std::move(urgent)), IsOk());
}

// Tenants take turns: 320 ms of "a" go before the prompt of "b", not 2,240.
TEST_F(SchedulerFirstTokenTest, AnotherTenantsQueueCountsAsFarAsItGoesFirst) {
  FillQueue(absl::Milliseconds(650), 7);
  EXPECT_THAT(TrySubmit(Make(11, "b")), IsOk());
  EXPECT_THAT(TrySubmit(Make(12, "b")),
              HasError(absl::StatusCode::kResourceExhausted, HasSubstr("about 1280 ms")));
}

TEST_F(SchedulerFirstTokenTest, ThePromptUnderWayCounts) {
  config.max_time_to_first_token = absl::Milliseconds(700);
  limits.max_step_tokens = 32;
  Start();
  Submit(Make(1, "", 88));
  ASSERT_NE(Plan(), nullptr);
  Done();  // 56 tokens are left
  EXPECT_THAT(TrySubmit(Make(11, "")),
              HasError(absl::StatusCode::kResourceExhausted, HasSubstr("of which 560 ms")));
}

TEST_F(SchedulerFirstTokenTest, WithoutAWorkerNothingIsRefused) {
  FillQueue(absl::Milliseconds(1), 7);
  DetachWorker();
  EXPECT_THAT(TrySubmit(Make(11)), IsOk());
}

TEST_F(SchedulerFirstTokenTest, CachedPromptsTakeNoTime) {
  config.max_time_to_first_token = absl::Milliseconds(1000);
  Start();
  Submit(1, TextOf(1, 33), 1);
  RunUntilIdle();
  for (int i = 0; i < 40; ++i) {  // until nearly all that starts is known to be cached
    Submit(static_cast<RequestKey>(2 + i), TextOf(1, 33), 1);
    RunUntilIdle();
  }
  for (RequestKey key = 51; key <= 60; ++key) {
    EXPECT_THAT(TrySubmit(MakeRequest(key, TextOf(1, 33), 1)), IsOk()) << key;
  }
}

}  // namespace
}  // namespace lockstep::router::testing
