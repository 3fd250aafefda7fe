// Replicas whose workers come back unable to go on, hang, or are dismissed; and what that does to
// the requests they have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/status.h"
#include "tests/router/engine/replica_fleet_fixture.h"

namespace lockstep::router {
namespace {

using ::lockstep::router::testing::Client;
using ::lockstep::router::testing::ReplicaFleetTest;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class ReplicaFleetChangeTest : public ReplicaFleetTest {
 protected:
  // The loss of a worker and the next lease come in one batch.
  void Replace(uint32_t i, uint64_t numerics_id, uint32_t max_context_tokens = 64) {
    const absl::Status broke = absl::UnavailableError("the stream broke");
    fleet_->inbox(i).OnLinkEvent(sides_[i]->link.Break(broke));
    worker(i).SetBits(numerics_id, 0);
    worker(i).Restart();
    LinkUp up = worker(i).Claim();
    up.description.set_max_context_tokens(max_context_tokens);
    Post(i, std::move(up));
  }

  // The replica that has the only request.
  uint32_t Owner() { return num_live(0) == 1 ? 0 : 1; }
};

TEST_F(ReplicaFleetChangeTest, AWorkerThatComesBackWithOtherBitsLeavesRequestsToOthers) {
  Start(2);
  Connect(0);
  const auto begun = Submit({1, 2, 3, 4}, 12);
  RunSteps(0, 3);
  const auto untouched = Submit({5, 6, 7}, 6);
  Connect(1);
  Replace(0, /*numerics_id=*/9);
  EXPECT_EQ(num_live(0), 1u) << "what has not begun may go on with any bits";
  EXPECT_EQ(num_live(1), 1u);
  RunUntilIdle();
  ExpectComplete(*begun);
  ExpectComplete(*untouched);
  EXPECT_EQ(NumRetried(RetryOutcome::kFailed), 0);
  ExpectClean();
}

TEST_F(ReplicaFleetChangeTest, AWorkerThatComesBackTooSmallLeavesRequestsToOthers) {
  Start(2);
  Connect(0);
  const auto large = Submit({1, 2, 3, 4, 5, 6}, 20);
  RunSteps(0, 2);
  Connect(1);
  Replace(0, /*numerics_id=*/0, /*max_context_tokens=*/16);
  EXPECT_EQ(num_live(1), 1u);
  RunUntilIdle();
  ExpectComplete(*large);
  ExpectClean();
}

TEST_F(ReplicaFleetChangeTest, WithoutAnOpenOneTheyWaitForAWorkerLikeTheirs) {
  Start(2);
  Connect(0);
  const auto begun = Submit({1, 2, 3, 4}, 12);
  RunSteps(0, 3);
  Connect(1);
  Lose(1);
  Replace(0, /*numerics_id=*/9);
  EXPECT_EQ(num_live(1), 1u);
  begun->Read();
  EXPECT_FALSE(begun->end.has_value());
  Restart(1);
  RunUntilIdle();
  ExpectComplete(*begun);
}

TEST_F(ReplicaFleetChangeTest, WhatComesTooLateForItsBitsGoesOnWhereTheyAre) {
  Start(3);
  Connect(0);
  const auto client = Submit({1, 2, 3, 4}, 12);
  RunSteps(0, 3);
  Connect(1);
  LoseUnnoticed(0);
  Connect(2);
  ASSERT_EQ(num_live(1), 1u);
  RunUntilIdle();
  ExpectComplete(*client);
}

// Each time the request arrives, its bits have just gone.
TEST_F(ReplicaFleetChangeTest, ARequestThatIsAlwaysTooLateDoesNotTravelForEver) {
  constexpr uint32_t kReplicas = 8;
  Start(kReplicas);
  Connect(0);
  const auto client = Submit({1, 2, 3, 4}, 12);
  RunSteps(0, 3);
  Connect(1);
  LoseUnnoticed(0);
  uint32_t num_visited = 0;
  for (uint32_t i = 1; i + 1 < kReplicas && !client->end.has_value(); ++i) {
    ++num_visited;
    InboxBatch up;
    up.link_events.push_back(worker(i + 1).Claim());
    replica(i + 1).Process(std::move(up));
    worker(i).SetBits(3, 4);
    worker(i).Restart();
    fleet_->inbox(i).OnLinkEvent(worker(i).Claim());
    replica(i).Process(fleet_->inbox(i).Take());
    client->Read();
  }
  EXPECT_EQ(num_visited, 5u);
  ExpectEnd(*client, absl::StatusCode::kUnavailable);
}

TEST_F(ReplicaFleetChangeTest, ARequestTooLargeForWhatIsOpenWaitsForTheLargerOne) {
  Start(2);
  Connect(0);
  LinkUp up = worker(1).Claim();
  up.description.set_max_context_tokens(16);
  Post(1, up);
  Lose(0);
  const auto large = Submit({1, 2, 3, 4, 5, 6, 7}, 20);
  EXPECT_EQ(num_live(0), 1u);
  Restart(0);
  RunUntilIdle();
  ExpectComplete(*large);
  Lose(0);
  AdvanceBy(absl::Seconds(3));  // the grace is over
  ExpectEnd(*Submit({1, 2, 3, 4, 5, 6, 7}, 20), absl::StatusCode::kUnavailable);
  const auto small = Submit({1, 2, 3}, 5);
  const auto too_large_for_all = Submit({1, 2, 3}, 500);
  ExpectEnd(*too_large_for_all, absl::StatusCode::kInvalidArgument);
  RunUntilIdle();
  ExpectComplete(*small);
}

TEST_F(ReplicaFleetChangeTest, APrefillInProgressIsLoad) {
  config_.scheduler.max_prefill_tokens_per_step = 4;
  PlacementConfig placement;
  placement.policy = PlacementPolicy::kLeastLoaded;
  placement.sequence_tokens = 1;
  Start(2, placement);
  Connect(0);
  const auto long_prompt = Submit(std::vector<TokenId>(40, 3), 4);
  RunSteps(0, 1);
  Connect(1);
  std::vector<std::unique_ptr<Client>> others;
  for (TokenId token = 1; token <= 4; ++token) others.push_back(Submit({token, token}, 4));
  EXPECT_EQ(num_live(1), 4u);
  RunUntilIdle();
  ExpectComplete(*long_prompt);
}

TEST_F(ReplicaFleetChangeTest, WhoWantsThePromptDescribedGoesWhereThereIsLeastToDo) {
  PlacementConfig placement;
  placement.sequence_tokens = 1;
  Start(2, placement);
  Connect(0);
  const std::vector<TokenId> shared(12, 7);
  Submit(shared, 2);
  RunUntilIdle();
  Connect(1);
  const auto busy = Submit(shared, 30);
  ASSERT_EQ(num_live(0), 1u);
  RunSteps(0, 2);
  const auto described = MakeRequest(shared, 2);
  described->sampling.num_prompt_logprobs = 0;
  const auto client = Submit(described);
  EXPECT_EQ(num_live(1), 1u);
  RunUntilIdle();
  ExpectComplete(*client);
}

// Its outbox has one writer at a time: whoever gives it away has told the reader before.
TEST_F(ReplicaFleetChangeTest, ReadersHearOfTokensBeforeTheirRequestGoesAway) {
  Start(2);
  Connect(0);
  std::vector<uint32_t> told_by_0;
  const auto client = Submit({1, 2, 3}, 8, [this, &told_by_0] {
    told_by_0.push_back(replica(0).board().status().live_requests);
  });
  Connect(1);
  InboxBatch batch;
  batch.link_events.push_back(*sides_[0]->link.RunNext());
  batch.link_events.push_back(sides_[0]->link.Break(absl::UnavailableError("the stream broke")));
  told_by_0.clear();
  replica(0).Process(std::move(batch));
  EXPECT_THAT(told_by_0, ::testing::ElementsAre(1u)) << "while it was still there";
  Pump();
  RunUntilIdle();
  ExpectComplete(*client);
}

// --- workers that hang ---

TEST_F(ReplicaFleetChangeTest, AWorkerThatHungIsOnTrialUntilItHasProvedItself) {
  Start(2);
  Connect(0);
  Connect(1);
  const auto first = Submit({1, 2, 3}, 8);
  const uint32_t hung = Owner();
  const uint32_t well = 1 - hung;
  EXPECT_EQ(CircuitIs(hung, CircuitState::kClosed), 1);
  AdvanceBy(absl::Seconds(60));
  EXPECT_EQ(CircuitIs(hung, CircuitState::kOpen), 1);
  EXPECT_EQ(CircuitIs(hung, CircuitState::kClosed), 0);
  Connect(hung);
  EXPECT_EQ(CircuitIs(hung, CircuitState::kHalfOpen), 1);
  RunUntilIdle();
  ExpectComplete(*first);

  std::vector<std::unique_ptr<Client>> clients;
  for (TokenId token = 1; token <= 8; ++token) clients.push_back(Submit({token, token}, 12));
  EXPECT_EQ(num_live(hung), 1u) << "one on trial";
  EXPECT_EQ(num_live(well), 7u);
  RunSteps(hung, 1);
  EXPECT_EQ(CircuitIs(hung, CircuitState::kHalfOpen), 1);
  AdvanceBy(CircuitBreaker::kProof);
  RunSteps(hung, 1);
  EXPECT_EQ(CircuitIs(hung, CircuitState::kClosed), 1);
  for (TokenId token = 9; token <= 12; ++token) clients.push_back(Submit({token, token}, 12));
  EXPECT_GE(num_live(hung), 4u) << "it has the least load";
  RunUntilIdle();
  for (const auto& client : clients) ExpectComplete(*client);
  ExpectClean();
}

TEST_F(ReplicaFleetChangeTest, OneOnTrialTakesEverythingWhenNobodyElseIsThere) {
  Start(2);
  Connect(0);
  Connect(1);
  const auto first = Submit({1, 2, 3}, 8);
  const uint32_t hung = Owner();
  AdvanceBy(absl::Seconds(60));
  Connect(hung);
  const auto second = Submit({4, 5, 6}, 8);
  const auto third = Submit({7, 8, 9}, 8);
  Lose(1 - hung);
  EXPECT_EQ(num_live(hung), 3u);
  RunUntilIdle();
  for (Client* const client : {first.get(), second.get(), third.get()}) ExpectComplete(*client);
}

TEST_F(ReplicaFleetChangeTest, WithoutRetriesLeftRequestsMoveLater) {
  Start(2);
  Connect(0);
  const auto client = Submit({1, 2, 3}, 8);
  RunSteps(0, 2);
  Connect(1);
  while (fleet_->TakeRetry(clock_.Now())) {
  }
  Lose(0);
  EXPECT_EQ(num_live(0), 1u);
  EXPECT_EQ(replica(0).NextWakeup(), clock_.Now() + RetryBudget::kAskAgainAfter);
  AdvanceBy(RetryBudget::kAskAgainAfter);
  EXPECT_EQ(num_live(1), 1u);
  RunUntilIdle();
  ExpectComplete(*client);
}

// --- replicas that are dismissed ---

TEST_F(ReplicaFleetChangeTest, ADismissedReplicaLetsWhatRunsEndAndGivesTheRestAway) {
  ExpectKeepsWhatRunsAndGivesTheRestAway([this] {
    fleet_->Dismiss(0);
    Pump();
    EXPECT_FALSE(replica(0).board().gone());
  });
  EXPECT_TRUE(replica(0).board().gone());
  EXPECT_THAT(Message(*sides_[0]->link.drop_reason()), HasSubstr("its address is gone"));
  EXPECT_EQ(RouterMetrics::At(metrics_.kv_blocks, 0).Value() +
                RouterMetrics::At(metrics_.kv_blocks, 2).Value(),
            64)
      << "the blocks of the other one";
}

TEST_F(ReplicaFleetChangeTest, ADismissedReplicaThatLosesItsWorkerTakesNoOther) {
  Start(2);
  Connect(0);
  const auto client = Submit({1, 2, 3}, 8);
  RunSteps(0, 2);
  fleet_->Dismiss(0);
  Pump();
  Lose(0);
  EXPECT_EQ(num_live(0), 1u);
  Restart(0);
  EXPECT_NE(state(0), WorkerState::kReady);
  EXPECT_FALSE(replica(0).board().gone());
  Connect(1);
  EXPECT_TRUE(replica(0).board().gone());
  RunUntilIdle();
  ExpectComplete(*client);
}

TEST_F(ReplicaFleetChangeTest, ASeatThatWasLeftIsTakenAgainAndNothingIsLeftInIt) {
  Start(2, {}, /*max_replicas=*/2);
  EXPECT_EQ(fleet_->TakeSeat(), std::nullopt);
  Connect(0);
  const std::vector<TokenId> shared(12, 7);
  Submit(shared, 2);
  RunUntilIdle();
  Connect(1);
  fleet_->Dismiss(0);
  Pump();
  ASSERT_TRUE(replica(0).board().gone());
  fleet_->LeaveSeat(0);
  EXPECT_EQ(fleet_->TakeSeat(), 0u);
  Occupy(0);
  Restart(0);
  // Were the prefix still said to be there, all of them would go there.
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(Submit(shared, 2));
  EXPECT_EQ(num_live(0), 4u);
  EXPECT_EQ(num_live(1), 4u);
  RunUntilIdle();
  for (const auto& client : clients) ExpectComplete(*client);
  ExpectClean();
}

TEST_F(ReplicaFleetChangeTest, WithoutAnySeatTakenRequestsAreRefused) {
  Start(1, {}, /*max_replicas=*/2);
  Connect(0);
  fleet_->Dismiss(0);
  const auto client = Submit({1, 2, 3}, 8);
  ExpectEnd(*client, absl::StatusCode::kUnavailable);
  EXPECT_TRUE(replica(0).board().gone());
}

}  // namespace
}  // namespace lockstep::router
