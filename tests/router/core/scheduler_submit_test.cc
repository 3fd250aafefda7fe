// What is let in, what is refused and how, queue limits, deadlines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "common/instant.h"
#include "common/status.h"
#include "tests/router/core/scheduler_fixture.h"

namespace lockstep::router::testing {
namespace {

using ::testing::HasSubstr;

class SchedulerSubmitTest : public SchedulerTest {};

TEST_F(SchedulerSubmitTest, ConfigNamesEveryViolation) {
  config.max_waiting_requests = 0;
  config.max_waiting_tokens = 0;
  config.max_steps_in_flight = 65;
  config.max_running_sequences = 0;
  config.max_started_ids_per_step = 0;
  config.target_step_time = absl::ZeroDuration();
  config.max_decode_iterations = 0;
  config.max_time_per_token = -absl::Milliseconds(1);
  config.max_time_to_first_token = absl::ZeroDuration();
  const absl::Status status = config.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* field :
       {"max_started_ids_per_step", "max_waiting_requests", "max_waiting_tokens",
        "max_steps_in_flight", "max_running_sequences", "target_step_time", "max_decode_iterations",
        "max_time_per_token", "max_time_to_first_token"}) {
    EXPECT_THAT(Message(status), HasSubstr(field));
  }
  EXPECT_TRUE(SchedulerConfig().Validate().ok());
}

TEST_F(SchedulerSubmitTest, RefusesWhatIsMalformed) {
  Start();
  EXPECT_THAT(Message(TrySubmit(MakeRequest(1, {}, 1))), HasSubstr("prompt: no tokens"));
  EXPECT_THAT(Message(TrySubmit(MakeRequest(2, {1}, 0))), HasSubstr("max_tokens: 0"));
  auto no_samples = MakeRequest(3, {1}, 1);
  no_samples->num_samples = 0;
  EXPECT_THAT(Message(TrySubmit(no_samples)), HasSubstr("n: 0"));
  const uint32_t most = std::numeric_limits<uint32_t>::max();
  EXPECT_THAT(Message(TrySubmit(MakeRequest(4, {1}, most))), HasSubstr("expected less than 2^32"));
  EXPECT_TRUE(scheduler->Idle());
}

TEST_F(SchedulerSubmitTest, RefusesWhatCanNeverFitTheContext) {
  limits.max_context_tokens = 16;
  Start();
  const absl::Status status = TrySubmit(MakeRequest(1, TextOf(1, 10), 7));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("10 prompt tokens and 7 new ones are 17"));
  EXPECT_THAT(Message(status), HasSubstr("the context length is 16"));
  Submit(2, TextOf(1, 10), 6);
  RunUntilIdle();
  EXPECT_EQ(Tokens(2).size(), 6u);
}

TEST_F(SchedulerSubmitTest, RefusesAPromptThatCanNeverFitTheKvCache) {
  limits.kv_groups[0].num_blocks = 3;
  Start();
  const absl::Status status = TrySubmit(MakeRequest(1, TextOf(1, 13), 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("prompt: 13 tokens, the worker's KV cache holds 12"));
  Submit(2, TextOf(1, 12), 1);
  RunUntilIdle();
  EXPECT_EQ(Tokens(2).size(), 1u);
}

TEST_F(SchedulerSubmitTest, WithoutAWorkerRequestsWait) {
  Start();
  DetachWorker();
  auto small = MakeRequest(1, TextOf(1, 3), 2);
  Submit(small);
  Submit(2, TextOf(2, 200), 2);
  EXPECT_FALSE(scheduler->has_worker());
  EXPECT_EQ(Plan(), nullptr);
  EXPECT_EQ(Stats().waiting_requests, 2u);

  limits.max_context_tokens = 100;
  AttachWorker(limits);
  ASSERT_NE(Ending(2), nullptr);
  EXPECT_EQ(Ending(2)->error.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Ending(2)->reason, FinishReason::kAborted);
  RunUntilIdle();
  ExpectComplete(*small);
}

TEST_F(SchedulerSubmitTest, TheQueueIsBoundedByRequests) {
  config.max_waiting_requests = 2;
  config.max_running_sequences = 1;
  Start();
  Submit(1, {1}, 2);
  Submit(2, {1}, 2);
  const absl::Status full = TrySubmit(MakeRequest(3, {1}, 2));
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(full), HasSubstr("2 requests wait, at most 2 may"));
  ASSERT_NE(Plan(), nullptr);  // request 1 runs
  Submit(4, {1}, 2);
  EXPECT_EQ(TrySubmit(MakeRequest(5, {1}, 2)).code(), absl::StatusCode::kResourceExhausted);
  Cancel(2);
  Submit(6, {1}, 2);
  RunUntilIdle();
}

TEST_F(SchedulerSubmitTest, WhatALossPutsBackTakesNoRoomInTheQueue) {
  config.max_waiting_requests = 2;
  config.max_waiting_tokens = 10;
  Start();
  for (RequestKey key = 1; key <= 4; ++key) {
    Submit(key, TextOf(static_cast<uint32_t>(key), 5), 9);
    ASSERT_NE(Plan(), nullptr);
    Done();
  }
  DetachWorker();
  ASSERT_EQ(Stats().waiting_requests, 4u);
  Submit(5, TextOf(5, 5), 2);
  Submit(6, TextOf(6, 5), 2);
  const absl::Status full = TrySubmit(MakeRequest(7, {1}, 2));
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(full), HasSubstr("2 requests wait, at most 2 may"));
  AttachWorker(limits);
  RunUntilIdle();
}

TEST_F(SchedulerSubmitTest, TheQueueIsBoundedByPromptTokens) {
  config.max_waiting_tokens = 10;
  Start();
  Submit(1, TextOf(1, 6), 1);
  const absl::Status full = TrySubmit(MakeRequest(2, TextOf(2, 5), 1));
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(full), HasSubstr("6 prompt tokens wait, with this prompt's 5"));
  const absl::Status too_long = TrySubmit(MakeRequest(4, TextOf(4, 11), 1));
  EXPECT_EQ(too_long.code(), absl::StatusCode::kInvalidArgument) << "it would never fit";
  EXPECT_THAT(Message(too_long), HasSubstr("prompt: 11 tokens, at most 10 may wait"));
  Submit(3, TextOf(3, 4), 1);
  EXPECT_EQ(Stats().waiting_tokens, 10u);
  ASSERT_NE(Plan(), nullptr);
  EXPECT_EQ(Stats().waiting_tokens, 0u);
  RunUntilIdle();
}

TEST_F(SchedulerSubmitTest, DeadlinesAreKeptInOrder) {
  config.max_running_sequences = 1;
  Start();
  EXPECT_EQ(scheduler->NextDeadline(), Instant::InfiniteFuture());
  for (const auto& [key, seconds] : {std::pair<RequestKey, int>{1, 9}, {2, 3}, {3, 3}, {4, 7}}) {
    auto request = MakeRequest(key, {1, 2}, 30);
    request->deadline = now + absl::Seconds(seconds);
    Submit(request);
  }
  Submit(5, {1, 2}, 30);
  EXPECT_EQ(scheduler->NextDeadline(), Instant() + absl::Seconds(3));
  ASSERT_NE(Plan(), nullptr);

  now += absl::Seconds(7);
  scheduler->ExpireDeadlines(now);
  Done();  // also takes the events
  for (RequestKey key : {2, 3, 4}) {
    ASSERT_NE(Ending(key), nullptr) << key;
    EXPECT_EQ(Ending(key)->error.code(), absl::StatusCode::kDeadlineExceeded);
  }
  EXPECT_EQ(Ending(1), nullptr);
  EXPECT_EQ(Tokens(1).size(), 1u);
  EXPECT_EQ(scheduler->NextDeadline(), Instant() + absl::Seconds(9));

  now += absl::Seconds(2);
  scheduler->ExpireDeadlines(now);
  EXPECT_EQ(scheduler->NextDeadline(), Instant::InfiniteFuture());
  RunUntilIdle();
  EXPECT_EQ(Ending(1)->error.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Tokens(5).size(), 30u);
}

TEST_F(SchedulerSubmitTest, ARequestThatComesTooLateIsRefused) {
  Start();
  auto late = MakeRequest(1, {1}, 1);
  late->deadline = now;
  EXPECT_EQ(TrySubmit(late).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(scheduler->Idle());
}

TEST_F(SchedulerSubmitTest, NonsensicalGroupsChangeNothing) {
  Start();
  WorkerLimits broken = limits;
  broken.kv_groups[0].num_blocks = 0;
  const absl::Status status = scheduler->AttachWorker(broken, now);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("kv_groups[0]: num_blocks"));
  EXPECT_TRUE(scheduler->has_worker());
  broken = limits;
  broken.kv_groups[0].retention = Retention::kState;
  EXPECT_EQ(scheduler->AttachWorker(broken, now).code(), absl::StatusCode::kUnimplemented);
}

TEST_F(SchedulerSubmitTest, NonsensicalWorkerLimitsChangeNothing) {
  Start();
  const auto refused = [this](uint32_t WorkerLimits::* field, const char* name) {
    WorkerLimits broken = limits;
    broken.*field = 0;
    const absl::Status status = scheduler->AttachWorker(broken, now);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(status), HasSubstr(name));
    EXPECT_TRUE(scheduler->has_worker());
  };
  refused(&WorkerLimits::max_slots, "max_slots");
  refused(&WorkerLimits::max_step_tokens, "max_step_tokens");
  refused(&WorkerLimits::max_context_tokens, "max_context_tokens");
  refused(&WorkerLimits::max_decode_iterations, "max_decode_iterations");
  refused(&WorkerLimits::max_steps_in_flight, "max_steps_in_flight");
  Submit(1, {1}, 3);
  RunUntilIdle();
  EXPECT_EQ(Tokens(1).size(), 3u);
}

TEST_F(SchedulerSubmitTest, AdmissionIsToldOnceWithItsHit) {
  Start();
  Submit(1, TextOf(1, 9), 1);
  RunUntilIdle();
  auto again = MakeRequest(2, TextOf(1, 9), 1);
  again->num_samples = 2;
  Submit(again);
  RunUntilIdle();
  EXPECT_EQ(admitted.at(1).num_cached_tokens, 0u);
  EXPECT_EQ(admitted.at(2).num_cached_tokens, 8u);
  EXPECT_EQ(Ending(2, 0)->num_cached_tokens, 8u);
  EXPECT_EQ(Ending(2, 0)->num_generated_tokens, 1u);
}

}  // namespace
}  // namespace lockstep::router::testing
