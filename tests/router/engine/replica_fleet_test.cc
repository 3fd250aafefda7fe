// Replicas that lose their workers and hand their requests to each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/status.h"
#include "tests/router/engine/replica_fleet_fixture.h"

namespace lockstep::router {
namespace {

using ::lockstep::router::testing::Client;
using ::lockstep::router::testing::kPoison;
using ::lockstep::router::testing::ReplicaFleetTest;
using ::lockstep::testing::GreedyTokens;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST_F(ReplicaFleetTest, RequestsOfALostWorkerGoOnElsewhere) {
  Start(2);
  Connect(0);
  const auto begun = Submit({1, 2, 3, 4}, 12);
  RunSteps(0, 3);
  const auto untouched = Submit({5, 6, 7}, 6);
  Connect(1);
  Lose(0);
  EXPECT_EQ(num_live(0), 0u);
  EXPECT_EQ(num_live(1), 2u);
  EXPECT_EQ(NumRetried(RetryOutcome::kResumed), 2);
  RunUntilIdle();
  ExpectComplete(*begun);
  ExpectComplete(*untouched);
  EXPECT_EQ(begun->admission->num_cached_tokens, 0u);
  ExpectClean();
}

TEST_F(ReplicaFleetTest, WhoGoesElsewhereIsToldOfTheAdmissionBefore) {
  Start(2);
  Connect(0);
  int num_told = 0;
  const auto client = Submit({1, 2, 3}, 4, [&num_told] { ++num_told; });
  EXPECT_EQ(num_told, 0);
  Connect(1);
  Lose(0);
  EXPECT_EQ(num_live(1), 1u);
  EXPECT_EQ(num_told, 1);
  RunUntilIdle();
  ExpectComplete(*client);
  ExpectClean();
}

TEST_F(ReplicaFleetTest, WithoutAnotherWorkerTheyWaitForTheFirstThatComes) {
  Start(2);
  Connect(0);
  const auto client = Submit({1, 2, 3}, 8);
  RunSteps(0, 2);
  Lose(0);
  EXPECT_EQ(num_live(0), 1u);
  AdvanceBy(absl::Seconds(20));
  Connect(1);
  EXPECT_EQ(num_live(1), 1u);
  RunUntilIdle();
  ExpectComplete(*client);
  ExpectClean();
}

TEST_F(ReplicaFleetTest, AWorkerThatOpensWakesTheReplicasThatHaveNone) {
  Start(2);
  Connect(0);
  Lose(0);
  int num_told = 0;
  fleet_->inbox(0).SetOnPost([&num_told] { ++num_told; });
  InboxBatch batch;
  batch.link_events.push_back(worker(1).Claim());
  replica(1).Process(std::move(batch));
  EXPECT_EQ(num_told, 1);
}

TEST_F(ReplicaFleetTest, WhatHasBegunOnlyGoesOnWithTheSameBits) {
  Start(3);
  worker(0).SetBits(1, 2);
  worker(1).SetBits(1, 9);
  worker(2).SetBits(1, 2);
  Connect(0);
  const auto begun = Submit({1, 2, 3, 4}, 12);
  RunSteps(0, 3);
  const auto untouched = Submit({5, 6, 7}, 6);
  Connect(1);
  Lose(0);
  EXPECT_EQ(num_live(0), 1u) << "it waits for its bits";
  EXPECT_EQ(num_live(1), 1u);
  Connect(2);
  EXPECT_EQ(num_live(0), 0u);
  EXPECT_EQ(num_live(2), 1u);
  RunUntilIdle();
  ExpectComplete(*begun);
  ExpectComplete(*untouched);
  ExpectClean();
}

TEST_F(ReplicaFleetTest, ARequestThatArrivesAfterItsBitsAreGoneIsUnavailable) {
  Start(2);
  Connect(0);
  const auto client = Submit({1, 2, 3, 4}, 12);
  RunSteps(0, 3);
  Connect(1);
  // The request is in the inbox of the second replica when that gets a worker of other bits.
  InboxBatch lost;
  lost.link_events.push_back(sides_[0]->link.Break(absl::UnavailableError("the stream broke")));
  replica(0).Process(std::move(lost));
  worker(1).SetBits(3, 4);
  worker(1).Restart();
  Connect(1);
  EXPECT_EQ(num_live(0), 1u) << "its worker is the only one that may have its bits again";
  worker(0).SetBits(3, 4);
  Restart(0);
  ExpectEnd(*client, absl::StatusCode::kUnavailable);
  EXPECT_THAT(client->tokens[0], SizeIs(3));
  EXPECT_EQ(NumRetried(RetryOutcome::kFailed), 1);
  ExpectClean();
}

TEST_F(ReplicaFleetTest, AWorkerThatIsTooSmallIsNotChosen) {
  Start(2);
  Connect(0);
  const auto large = Submit({1, 2, 3, 4, 5, 6}, 20);
  RunSteps(0, 2);
  LinkUp up = worker(1).Claim();
  up.description.set_max_context_tokens(16);
  Post(1, up);
  const auto new_one = Submit({1, 2, 3, 4, 5, 6, 7}, 20);
  EXPECT_EQ(num_live(0), 2u);
  Lose(0);
  EXPECT_EQ(num_live(0), 2u);
  Restart(0);
  RunUntilIdle();
  ExpectComplete(*large);
  ExpectComplete(*new_one);
}

TEST_F(ReplicaFleetTest, ADrainingWorkerKeepsWhatRunsAndGivesTheRestAway) {
  ExpectKeepsWhatRunsAndGivesTheRestAway([this] {
    worker(0).Drain();
    RunSteps(0, 1);
  });
}

TEST_F(ReplicaFleetTest, WhatIsSaidOfARequestFollowsIt) {
  Start(2);
  Connect(0);
  const auto cancelled = Submit({1, 2, 3}, 40);
  const auto stopped = Submit({4, 5, 6}, 40);
  RunSteps(0, 3);
  Connect(1);
  Lose(0);
  ASSERT_EQ(num_live(1), 2u);
  // Sent when the requests were still there, and sent afterwards.
  fleet_->inbox(0).Cancel({.request = cancelled->request->key, .cause = CancelCause::kClient});
  Pump();
  ExpectEnd(*cancelled, absl::StatusCode::kCancelled);
  fleet_->Stop({.request = stopped->request->key, .sample_index = 0});
  Pump();
  ExpectEnd(*stopped, absl::StatusCode::kOk);
  EXPECT_EQ(stopped->ends[0]->reason, FinishReason::kStop);
  fleet_->Cancel({.request = stopped->request->key});  // it is over
  fleet_->inbox(0).Stop({.request = 99, .sample_index = 0});
  Pump();
  RunUntilIdle();
  ExpectClean();
}

// The loop has taken the cancellation and not yet what comes back to it.
TEST_F(ReplicaFleetTest, ACancellationWaitsForARequestThatIsOnItsWayBack) {
  Start(2);
  Connect(0);
  const auto client = Submit({1, 2, 3}, 40);
  RunSteps(0, 2);
  Connect(1);
  Lose(0);
  ASSERT_EQ(num_live(1), 1u);
  Lose(1);
  ASSERT_EQ(num_live(1), 1u);
  worker(0).Restart();
  fleet_->inbox(0).OnLinkEvent(worker(0).Claim());
  replica(0).Process(fleet_->inbox(0).Take());
  replica(1).Process(fleet_->inbox(1).Take());
  ASSERT_EQ(num_live(1), 0u);
  ASSERT_EQ(num_live(0), 0u);
  InboxBatch taken_before;
  taken_before.cancellations.push_back(
      {.request = client->request->key, .cause = CancelCause::kClient});
  replica(0).Process(std::move(taken_before));
  Pump();
  ExpectEnd(*client, absl::StatusCode::kCancelled);
  RunUntilIdle();
  ExpectClean();
}

TEST_F(ReplicaFleetTest, ThreeWorkersLostInARowMayBeAnAccident) {
  Start(4);
  for (uint32_t i = 0; i < 4; ++i) Connect(i);
  const auto client = Submit({1, 2, 3}, 6);
  for (int loss = 0; loss < 3; ++loss) {
    uint32_t owner = 0;
    while (num_live(owner) == 0) ++owner;
    Lose(owner);
    EXPECT_EQ(num_live(owner), 0u) << "others are there";
  }
  RunUntilIdle();
  ExpectComplete(*client);
  ExpectClean();
}

TEST_F(ReplicaFleetTest, ARequestThatKillsWorkersTakesFourAndNobodyElse) {
  Start(3);
  for (uint32_t i = 0; i < 3; ++i) Connect(i);
  std::vector<std::unique_ptr<Client>> healthy;
  for (TokenId token = 1; healthy.size() < 6; ++token) {
    const std::vector<TokenId> prompt = {token, 9, 9};
    if (std::ranges::count(GreedyTokens({}, prompt, 6), kPoison) > 0) continue;
    healthy.push_back(Submit(prompt, 6));
  }
  const auto poison = Submit({4, 5, kPoison}, 6);
  bool dies = false;
  const auto hook = [&dies](const worker::ForwardBatch& batch, std::span<float>) {
    dies = dies || std::ranges::count(batch.token_ids, kPoison) > 0;
  };
  for (uint32_t i = 0; i < 3; ++i) worker(i).model().set_after_forward(hook);
  int num_deaths = 0;
  for (int step = 0; step < 200; ++step) {
    const auto i = static_cast<uint32_t>(step % 3);
    std::optional<LinkResult> result = sides_[i]->link.RunNext();
    if (!result.has_value()) continue;
    if (!std::exchange(dies, false)) {
      Post(i, *std::move(result));
      continue;
    }
    ++num_deaths;
    Lose(i);
    worker(i).Restart();
    worker(i).model().set_after_forward(hook);
    Connect(i);
  }
  EXPECT_EQ(num_deaths, 4);
  ExpectEnd(*poison, absl::StatusCode::kInternal);
  EXPECT_THAT(Message(*poison->end), HasSubstr("4 workers were lost while they ran this"));
  for (const auto& client : healthy) ExpectComplete(*client);
  ExpectClean();
}

TEST_F(ReplicaFleetTest, AHungWorkersRequestsMoveAtItsDeadline) {
  Start(2);
  Connect(0);
  const auto client = Submit({1, 2, 3}, 8);
  RunSteps(0, 2);
  Connect(1);
  AdvanceBy(absl::Seconds(59));
  EXPECT_EQ(num_live(0), 1u);
  AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(state(0), WorkerState::kLost);
  EXPECT_EQ(num_live(1), 1u);
  RunUntilIdle();
  ExpectComplete(*client);
}

TEST_F(ReplicaFleetTest, WhenAllAreGoneTheWaitEndsOnce) {
  Start(2);
  Connect(0);
  Connect(1);
  const auto client = Submit({1, 2, 3}, 8);
  const uint32_t first = num_live(0) == 1 ? 0 : 1;
  RunSteps(first, 2);
  Lose(first);
  Lose(1 - first);
  AdvanceBy(absl::Seconds(30) - absl::Nanoseconds(1));
  client->Read();
  EXPECT_FALSE(client->end.has_value());
  AdvanceBy(absl::Nanoseconds(1));
  ExpectEnd(*client, absl::StatusCode::kUnavailable);
  EXPECT_EQ(NumRetried(RetryOutcome::kFailed), 1);
  EXPECT_EQ(NumRetried(RetryOutcome::kResumed), 1);
  ExpectClean();
}

TEST_F(ReplicaFleetTest, NewRequestsWaitWhereAWorkerWasJustLostAndThenAreRefused) {
  Start(3);
  Connect(0);
  Connect(1);
  Lose(0);
  AdvanceBy(absl::Seconds(5));
  Lose(1);
  const auto patient = Submit({1, 2}, 4);
  patient->Read();
  EXPECT_FALSE(patient->end.has_value());
  AdvanceBy(absl::Seconds(2));
  const auto late = Submit({3, 4}, 4);
  ExpectEnd(*late, absl::StatusCode::kUnavailable);
  Connect(2);
  RunUntilIdle();
  ExpectComplete(*patient);
  EXPECT_EQ(NumRetried(RetryOutcome::kResumed), 0) << "it came after the losses";
  ExpectClean();
}

TEST_F(ReplicaFleetTest, NothingMovesAnyMoreOnceTheFleetIsClosed) {
  Start(2);
  Connect(0);
  const auto client = Submit({1, 2, 3}, 8);
  RunSteps(0, 2);
  Connect(1);
  fleet_->Close();
  Lose(0);
  EXPECT_EQ(num_live(0), 1u);
  Restart(0);
  RunUntilIdle();
  ExpectComplete(*client);
  EXPECT_EQ(NumRetried(RetryOutcome::kResumed), 1) << "where it was";
}

TEST_F(ReplicaFleetTest, WhoIsShuttingDownTakesNothingOver) {
  Start(2);
  Connect(0);
  Connect(1);
  fleet_->inbox(1).CancelAll();
  Pump();
  const auto client = Submit({1, 2, 3}, 8);
  if (num_live(0) == 1) {
    RunSteps(0, 2);
    Lose(0);
  }
  ExpectEnd(*client, absl::StatusCode::kUnavailable);
  ExpectClean();
}

TEST_F(ReplicaFleetTest, EqualPrefixesGoWhereTheyAreCachedAndOthersSpread) {
  Start(3);
  for (uint32_t i = 0; i < 3; ++i) Connect(i);
  const std::vector<TokenId> shared(12, 7);
  const auto first = Submit(shared, 2);
  RunUntilIdle();
  for (int i = 0; i < 5; ++i) {
    const auto again = Submit(shared, 2);
    RunUntilIdle();
    ExpectComplete(*again);
    EXPECT_EQ(again->admission->num_cached_tokens, 8u);
  }
  // A burst of others comes before any loop looks: those on their way count.
  std::vector<std::unique_ptr<Client>> others;
  for (TokenId token = 20; token < 26; ++token) others.push_back(Submit({token, token + 1}, 8));
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(num_live(i), 2u);
  RunUntilIdle();
  ExpectClean();
}

}  // namespace
}  // namespace lockstep::router
