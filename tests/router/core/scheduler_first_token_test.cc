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
constexpr double kAim = 0.9;  // of the time that is allowed

// A step takes 32 prompt tokens in 320 ms, and nobody else decodes for long: 10 ms a token.
class SchedulerFirstTokenTest : public SchedulerTest {
 protected:
  SchedulerFirstTokenTest() {
    limits.kv_groups[0].num_blocks = 24;
    step_time = absl::Milliseconds(320);
  }

  std::shared_ptr<Request> Make(RequestKey key, std::string tenant = "a",
                                uint32_t num_tokens = kPromptTokens, uint32_t max_new = 2) {
    auto request = MakeRequest(key, TextOf(static_cast<uint32_t>(key), num_tokens), max_new);
    request->tenant = std::move(tenant);
    return request;
  }
  // The first prompt was computed, `num_waiting` more of tenant "a" wait.
  void FillQueue(absl::Duration most, RequestKey num_waiting) {
    config.max_time_to_first_token = most / kAim;
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
                       HasSubstr("after about 2560 ms, of which 2240 ms are for prompts that came "
                                 "before; at most 2559 ms are allowed")));
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

// A running prompt goes on in turn as well.
class PromptUnderWayTest : public SchedulerFirstTokenTest {
 protected:
  // 56 tokens are left of a prompt of tenant "a".
  void StartLongPrompt(absl::Duration most) {
    config.max_time_to_first_token = most / kAim;
    limits.max_step_tokens = 32;
    Start(MakePriorityPolicy(absl::Seconds(10)));
    Submit(Make(1, "a", 88));
    ASSERT_NE(Plan(), nullptr);
    Done();
  }
};

TEST_F(PromptUnderWayTest, ItCounts) {
  StartLongPrompt(absl::Milliseconds(700));
  EXPECT_THAT(TrySubmit(Make(11)),
              HasError(absl::StatusCode::kResourceExhausted, HasSubstr("of which 560 ms")));
}

TEST_F(PromptUnderWayTest, OfAnotherTenantItCountsAsFarAsItGoesFirst) {
  StartLongPrompt(absl::Milliseconds(700));
  EXPECT_THAT(TrySubmit(Make(11, "b")), IsOk());
}

TEST_F(PromptUnderWayTest, AnUrgentRequestPassesIt) {
  StartLongPrompt(absl::Milliseconds(400));
  auto urgent = Make(11);
  urgent->priority = -1;
  EXPECT_THAT(TrySubmit(std::move(urgent)), IsOk());
}

TEST_F(PromptUnderWayTest, AHeavyTenantGoesFirstWithMore) {
  StartLongPrompt(absl::Milliseconds(700));
  auto light = Make(11, "b");
  light->tenant_weight = 0.5;  // "a" gets twice as much meanwhile
  EXPECT_THAT(TrySubmit(std::move(light)),
              HasError(absl::StatusCode::kResourceExhausted, HasSubstr("of which 560 ms")));
}

TEST_F(SchedulerFirstTokenTest, WithoutAWorkerNothingIsRefused) {
  FillQueue(absl::Milliseconds(1), 7);
  DetachWorker();
  EXPECT_THAT(TrySubmit(Make(11)), IsOk());
}

TEST_F(SchedulerFirstTokenTest, ADrainingWorkerRefusesNothing) {
  FillQueue(absl::Milliseconds(1), 7);
  scheduler->DrainWorker(now);
  EXPECT_THAT(TrySubmit(Make(11)), IsOk());
}

TEST_F(SchedulerFirstTokenTest, AnotherWorkerMayBeFaster) {
  FillQueue(absl::Milliseconds(1), 7);
  DetachWorker();
  AttachWorker(limits);
  EXPECT_THAT(TrySubmit(Make(11)), IsOk());
}

// The first worker took 10 ms a token, this one takes 0.1.
TEST_F(SchedulerFirstTokenTest, AnotherWorkersSpeedIsItsOwn) {
  FillQueue(absl::Milliseconds(200), 3);
  DetachWorker();
  AttachWorker(limits);
  step_time = absl::Microseconds(3200);
  ASSERT_NE(Plan(), nullptr);
  Done();
  ASSERT_GT(Stats().waiting_tokens, 0u);
  EXPECT_THAT(TrySubmit(Make(11)), IsOk());
}

// What starts again after a refused step finds its own blocks. That says nothing about others.
TEST_F(SchedulerFirstTokenTest, WhatStartsAgainIsNotTakenForCached) {
  config.max_time_to_first_token = absl::Milliseconds(1500) / kAim;
  config.max_running_sequences = 60;
  limits.max_slots = 64;
  limits.kv_groups[0].num_blocks = 1000;
  const auto num_taken = [this](bool refuses) {
    Start(MakePriorityPolicy(absl::Seconds(10)));
    step_time = absl::Milliseconds(320);
    for (RequestKey key = 1; key <= 4; ++key) {
      Submit(Make(key, "a", kPromptTokens, 20));
      EXPECT_NE(Plan(), nullptr);
      Done();
    }
    step_time = absl::ZeroDuration();
    EXPECT_NE(Plan(), nullptr);
    Done({.refuse = refuses});
    EXPECT_TRUE(RunUntil([this] { return Stats().waiting_requests == 0; }));
    RequestKey key = 20;
    while (key < 60 && TrySubmit(Make(key)).ok()) ++key;
    return key - 20;
  };
  const RequestKey without = num_taken(false);
  EXPECT_LT(without, 40u);
  EXPECT_EQ(num_taken(true), without);
}

// The leader computes the prompt for all samples.
TEST_F(SchedulerFirstTokenTest, SamplesBehindTheirLeaderTakeNoPromptOfTheirOwn) {
  config.max_time_to_first_token = absl::Milliseconds(1000) / kAim;
  limits.kv_groups[0].num_blocks = 240;
  limits.max_step_tokens = 128;
  Start(MakePriorityPolicy(absl::Seconds(10)));
  auto many = Make(1, "a", 64, 4);
  many->num_samples = 8;
  step_time = absl::Milliseconds(640);
  Submit(std::move(many));
  ASSERT_NE(Plan(), nullptr);
  Done();
  // Seven samples of 4 uncached tokens each, 10 ms a token.
  EXPECT_THAT(TrySubmit(Make(11, "a", 4)), IsOk());
}

// Three sequences had output when their worker was lost. Two wait to be computed again, behind the
// first.
TEST_F(SchedulerFirstTokenTest, WhatStartsAgainGoesFirst) {
  config.max_time_to_first_token = absl::Milliseconds(900) / kAim;
  limits.max_step_tokens = 32;
  Start(MakePriorityPolicy(absl::Seconds(10)));
  for (RequestKey key = 1; key <= 3; ++key) Submit(Make(key, "a", 31, 20));
  for (int i = 0; i < 4; ++i) {
    ASSERT_NE(Plan(), nullptr);
    Done();
  }
  DetachWorker();
  AttachWorker(limits);
  ASSERT_NE(Plan(), nullptr);
  Done();
  EXPECT_GT(Stats().waiting_tokens + Stats().prefill_tokens, 60u);
  EXPECT_THAT(TrySubmit(Make(11)), HasError(absl::StatusCode::kResourceExhausted, HasSubstr("ms")));
}

TEST_F(SchedulerFirstTokenTest, LaterPromptsOfABatchAreNotJudged) {
  FillQueue(absl::Milliseconds(1), 7);
  auto later = Make(11);
  later->follows_in_batch = true;
  EXPECT_THAT(TrySubmit(std::move(later)), IsOk());
  EXPECT_EQ(Stats().refused_for_first_token, 0u);
  EXPECT_FALSE(TrySubmit(Make(12)).ok());
  EXPECT_EQ(Stats().refused_for_first_token, 1u);
}

// The time of a slot is that of the longest answer, which nobody knows.
TEST_F(SchedulerFirstTokenTest, WhereSlotsAreFullOneOfATenantMayWait) {
  config.max_time_to_first_token = absl::Hours(1);
  config.max_running_sequences = 1;
  Start(MakePriorityPolicy(absl::Seconds(10)));
  Submit(Make(1));
  ASSERT_NE(Plan(), nullptr);
  Done();
  EXPECT_THAT(TrySubmit(Make(2)), IsOk());
  EXPECT_THAT(TrySubmit(Make(3)), HasError(absl::StatusCode::kResourceExhausted,
                                           HasSubstr("until a running one ends")));
  EXPECT_THAT(TrySubmit(Make(4, "b")), IsOk());
}

TEST_F(SchedulerFirstTokenTest, WhereBlocksAreShortOneOfATenantMayWait) {
  config.max_time_to_first_token = absl::Hours(1);
  Start(MakePriorityPolicy(absl::Seconds(10)));
  Submit(Make(1, "a", 64, 20));  // takes 16 of 24 blocks
  Submit(Make(2, "a", 64));
  for (int i = 0; i < 3; ++i) {
    ASSERT_NE(Plan(), nullptr);
    Done();
  }
  ASSERT_EQ(Stats().waiting_requests, 1u);
  EXPECT_THAT(TrySubmit(Make(3)), HasError(absl::StatusCode::kResourceExhausted,
                                           HasSubstr("until a running one ends")));
  Cancel(2);
  EXPECT_THAT(TrySubmit(Make(4)), IsOk()) << "what lacked blocks is gone";
}

// A published prompt may let others start. Those whose prompts begin otherwise still lack blocks.
TEST_F(SchedulerFirstTokenTest, WhereBlocksAreShortTheyStayShortWhenAPromptIsPublished) {
  config.max_time_to_first_token = absl::Hours(1);
  limits.max_step_tokens = 100;
  Start(MakePriorityPolicy(absl::Seconds(10)));
  Submit(Make(1, "a", 64, 20));  // takes 16 of 24 blocks
  Submit(Make(2, "a", 64));
  ASSERT_NE(Plan(), nullptr);
  Done();
  ASSERT_EQ(Stats().waiting_requests, 1u);
  EXPECT_THAT(TrySubmit(Make(3)), HasError(absl::StatusCode::kResourceExhausted,
                                           HasSubstr("until a running one ends")));
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
