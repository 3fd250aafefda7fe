// An engine with several replicas and all its threads, as ThreadSanitizer sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/router/engine/engine_fixture.h"

namespace lockstep::router {
namespace {

using ::lockstep::router::testing::EngineTest;
using ::lockstep::router::testing::kModel;
using ::lockstep::router::testing::Running;
using ::lockstep::testing::GreedyTokens;
using ::lockstep::testing::ThreadedLink;
using ::testing::ElementsAreArray;

class EngineFleetTest : public EngineTest {};

TEST_F(EngineFleetTest, ManyClientsWhileWorkersDieStayAwayAndComeBack) {
  constexpr uint32_t kReplicas = 3;
  StartEngine({}, kReplicas);
  // One worker at a time is away, whatever the others are doing then.
  RunClients(/*requests_each=*/40, [this](int count) {
    if (count % 8 == 3) links_[count / 8 % kReplicas]->Kill();
    if (count % 8 == 7) links_[count / 8 % kReplicas]->Restart();
  });
  EXPECT_GE(NumRestarts(), 10);
  ExpectNothingHeld();
}

TEST_F(EngineFleetTest, TheLastWorkerOfAllKeepsItReady) {
  StartEngine({}, 3);
  links_[0]->Kill();
  links_[1]->Kill();
  const absl::StatusOr<Running> running = Submit({1, 2, 3}, 10);
  ASSERT_TRUE(running.ok()) << running.status();
  running->reader->ReadAll(*running->outbox);
  EXPECT_EQ(running->reader->end, absl::OkStatus());
  EXPECT_THAT(running->reader->tokens, ElementsAreArray(GreedyTokens(kModel, {1, 2, 3}, 10)));
  EXPECT_TRUE(engine_->ready());
  links_[2]->Kill();
  WaitForReadiness(false);
  links_[1]->Restart();
  WaitForReadiness(true);
}

TEST_F(EngineFleetTest, ItsStatusIsTheSumOfAllReplicas) {
  StartEngine({}, 2);
  for (ThreadedLink* const link : links_) link->Pause();
  std::vector<Running> running;
  for (TokenId token = 1; token <= 4; ++token) {
    absl::StatusOr<Running> one = Submit({token, token}, 10);
    ASSERT_TRUE(one.ok()) << one.status();
    running.push_back(*std::move(one));
  }
  for (ThreadedLink* const link : links_) link->Resume();
  for (Running& one : running) one.reader->ReadAll(*one.outbox);
  ExpectNothingHeld();
  const FleetStatus all = engine_->replica_status();
  EXPECT_EQ(all.worker_state, WorkerState::kReady);
  EXPECT_EQ(all.description.max_context_tokens(), kModel.max_context_tokens);
  EXPECT_EQ(metrics_.prefix_cache_query_tokens_total->Value(),
            engine_->replica_statuses()[0].scheduler.prefix_query_tokens +
                engine_->replica_statuses()[1].scheduler.prefix_query_tokens);
  EXPECT_GE(metrics_.prefix_cache_query_tokens_total->Value(), 8u);
}

TEST_F(EngineFleetTest, DestructionEndsWhatIsLeftOnAllReplicas) {
  StartEngine({}, 3);
  for (ThreadedLink* const link : links_) link->Pause();
  std::vector<Running> running;
  for (TokenId token = 1; token <= 9; ++token) {
    absl::StatusOr<Running> one = Submit({token, token}, 10);
    ASSERT_TRUE(one.ok()) << one.status();
    running.push_back(*std::move(one));
  }
  links_[1]->Kill();
  engine_.reset();
  for (Running& one : running) {
    one.reader->ReadAll(*one.outbox);
    EXPECT_EQ(one.reader->end->code(), absl::StatusCode::kUnavailable);
  }
}

}  // namespace
}  // namespace lockstep::router
