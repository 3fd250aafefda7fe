#include "router/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/router/engine/engine_fixture.h"

// The engine with its threads, as ThreadSanitizer sees it.
namespace lockstep::router {
namespace {

using ::lockstep::router::testing::EngineTest;
using ::lockstep::router::testing::kModel;
using ::lockstep::router::testing::Running;
using ::lockstep::testing::GreedyTokens;
using ::testing::ElementsAreArray;

TEST_F(EngineTest, ManyClientsWhileTheWorkerDiesAgainAndAgain) {
  StartEngine();
  // A restart for every few requests, whatever the others are doing then.
  RunClients(/*requests_each=*/25, [this](int count) {
    if (count % 7 == 6) link_->Restart();
  });
  EXPECT_GE(NumRestarts(), 10);
  ExpectNothingHeld();
}

TEST_F(EngineTest, BehindAWorkerThatDrainsItIsReadyForTheNext) {
  StartEngine();
  link_->Drain();
  const absl::StatusOr<Running> running = Submit({1, 2, 3}, 10);
  ASSERT_TRUE(running.ok());
  running->reader->ReadAll(*running->outbox);
  ASSERT_EQ(engine_->replica_status().worker_state, WorkerState::kDraining);
  EXPECT_TRUE(engine_->ready());
  const absl::StatusOr<Running> waiting = Submit({4, 5}, 10);
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  link_->Restart();
  waiting->reader->ReadAll(*waiting->outbox);
  EXPECT_THAT(waiting->reader->tokens, ElementsAreArray(GreedyTokens(kModel, {4, 5}, 10)));
}

TEST_F(EngineTest, DrainLetsRunningRequestsFinishAndRefusesNewOnes) {
  StartEngine();
  link_->Pause();
  const absl::StatusOr<Running> running = Submit({1, 2, 3}, 10);
  ASSERT_TRUE(running.ok());
  engine_->StartDrain();
  EXPECT_FALSE(engine_->ready());
  EXPECT_EQ(Submit({1}, 1).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(RouterMetrics::At(metrics_.requests_rejected_total, Rejection::kDraining).Value(), 1);
  EXPECT_FALSE(engine_->admission().WaitUntilNoneOpen(absl::ZeroDuration()));
  link_->Resume();
  running->reader->ReadAll(*running->outbox);
  EXPECT_EQ(running->reader->end, absl::OkStatus());
  EXPECT_THAT(running->reader->tokens, ElementsAreArray(GreedyTokens(kModel, {1, 2, 3}, 10)));
  EXPECT_TRUE(engine_->admission().WaitUntilNoneOpen(absl::Seconds(60)));
}

TEST_F(EngineTest, CancelAllEndsTheDrain) {
  StartEngine();
  link_->Pause();
  const absl::StatusOr<Running> running = Submit({1, 2, 3}, 10);
  ASSERT_TRUE(running.ok());
  engine_->StartDrain();
  engine_->CancelAll();
  running->reader->ReadAll(*running->outbox);
  EXPECT_EQ(running->reader->end->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(running->reader->sample_end->reason, FinishReason::kAborted);
  EXPECT_TRUE(engine_->admission().WaitUntilNoneOpen(absl::Seconds(60)));
}

TEST_F(EngineTest, AFullQueueRefusesAndRecovers) {
  EngineConfig config;
  config.admission.max_waiting_requests = 3;
  StartEngine(config);
  link_->Kill();
  WaitForReadiness(false);
  // Without a worker, and within the grace, requests wait.
  std::vector<Running> waiting;
  for (TokenId token = 1; token <= 3; ++token) {
    absl::StatusOr<Running> running = Submit({token}, 5);
    ASSERT_TRUE(running.ok()) << running.status();
    waiting.push_back(*std::move(running));
  }
  EXPECT_EQ(Submit({4}, 5).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RouterMetrics::At(metrics_.requests_rejected_total, Rejection::kQueueRequests).Value(),
            1);
  link_->Restart();
  for (Running& running : waiting) {
    running.reader->ReadAll(*running.outbox);
    EXPECT_EQ(running.reader->end, absl::OkStatus());
  }
  EXPECT_TRUE(Submit({4}, 5).ok());
}

// Calls end only after the engine's threads did, and still tell it.
TEST_F(EngineTest, OnceStoppedItMayStillBeTold) {
  StartEngine();
  link_->Pause();
  const absl::StatusOr<Running> running = Submit({1, 2, 3}, 10);
  ASSERT_TRUE(running.ok());
  engine_->Stop();
  running->reader->ReadAll(*running->outbox);
  EXPECT_EQ(running->reader->end->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Submit({1}, 1).status().code(), absl::StatusCode::kUnavailable);
  const RequestKey key = engine_->NextKey();
  engine_->fleet().Stop({.request = key, .sample_index = 0});
  engine_->fleet().Cancel({.request = key, .cause = CancelCause::kClient});
  engine_->CancelAll();
  EXPECT_FALSE(engine_->ready());
  EXPECT_EQ(engine_->replica_status().live_requests, 0u);
  engine_->Stop();
}

TEST_F(EngineTest, DestructionEndsWhatIsLeft) {
  StartEngine();
  link_->Pause();
  const absl::StatusOr<Running> running = Submit({1, 2, 3}, 10);
  ASSERT_TRUE(running.ok());
  engine_.reset();
  running->reader->ReadAll(*running->outbox);
  EXPECT_EQ(running->reader->end->code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace lockstep::router
