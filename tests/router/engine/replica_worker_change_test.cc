// Workers that come back with other bits or with less room, workers that leave, and workers that
// come to no good.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/status.h"
#include "tests/router/engine/replica_fixture.h"

namespace lockstep::router {
namespace {

using ::lockstep::router::testing::Client;
using ::lockstep::router::testing::kIdleCheck;
using ::lockstep::router::testing::kPoison;
using ::lockstep::router::testing::kStart;
using ::lockstep::testing::GreedyTokens;
using ::testing::Contains;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class ReplicaWorkerChangeTest : public ::lockstep::router::testing::ReplicaTest {
 protected:
  // Runs until idle, or for 100 steps, with a worker that dies in every step that reads kPoison.
  // Returns the number of its deaths.
  int CountDeaths() {
    int num_deaths = 0;
    bool dies = false;
    const auto hook = [&dies](const worker::ForwardBatch& batch, std::span<float>) {
      dies = std::ranges::count(batch.token_ids, kPoison) > 0;
    };
    worker_.model().set_after_forward(hook);
    for (int i = 0; i < 100; ++i) {
      std::optional<LinkResult> result = link_.RunNext();
      if (!result.has_value()) break;
      if (!std::exchange(dies, false)) {
        InboxBatch batch;
        batch.link_events.push_back(*std::move(result));
        replica_.Process(std::move(batch));
        continue;
      }
      ++num_deaths;
      LoseWorker();
      worker_.Restart();
      worker_.model().set_after_forward(hook);
      Connect();
    }
    worker_.model().set_after_forward({});
    return num_deaths;
  }
};

struct OtherBits {
  uint64_t numerics_id;
  uint64_t weights_fingerprint;
};

class ReplicaOtherBitsTest : public ReplicaWorkerChangeTest,
                             public ::testing::WithParamInterface<OtherBits> {};

TEST_P(ReplicaOtherBitsTest, WhatWasBegunFailsAndTheRestGoesOn) {
  worker_.SetBits(1, 2);
  Connect();
  const auto begun = Submit({1, 2, 3, 4}, 12);
  RunSteps(3);
  const auto untouched = Submit({5, 6, 7}, 6);  // in steps that are lost
  LoseWorker();
  worker_.SetBits(GetParam().numerics_id, GetParam().weights_fingerprint);
  worker_.Restart();
  Connect();
  begun->Read();
  ASSERT_TRUE(begun->end.has_value());
  EXPECT_EQ(begun->end->code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(*begun->end), HasSubstr("the worker that came back computes other bits"));
  EXPECT_THAT(begun->tokens[0], SizeIs(3));
  RunUntilIdle();
  untouched->Read();
  EXPECT_EQ(untouched->end, absl::OkStatus());
  EXPECT_THAT(untouched->tokens[0], ElementsAreArray(GreedyTokens({}, {5, 6, 7}, 6)));
  EXPECT_EQ(NumRetried(RetryOutcome::kFailed), 1);
  EXPECT_EQ(NumRetried(RetryOutcome::kResumed), 1);
  ExpectClean();
}

INSTANTIATE_TEST_SUITE_P(All, ReplicaOtherBitsTest,
                         ::testing::Values(OtherBits{9, 2}, OtherBits{1, 9}));

TEST_F(ReplicaWorkerChangeTest, BitsAreComparedWithTheLastLeaseOfAll) {
  worker_.SetBits(1, 2);
  Connect();
  LoseWorker();
  worker_.SetBits(3, 4);
  Connect();
  const auto client = Submit({1, 2, 3, 4}, 8);
  RunSteps(3);
  LoseWorker();
  Connect();
  RunUntilIdle();
  client->Read();
  EXPECT_EQ(client->end, absl::OkStatus());
  EXPECT_THAT(client->tokens[0], ElementsAreArray(GreedyTokens({}, {1, 2, 3, 4}, 8)));
}

TEST_F(ReplicaWorkerChangeTest, ADrainingWorkerFinishesWhatRunsWhileTheRestWaitsForTheNext) {
  Connect();
  const auto running = Submit({1, 2, 3}, 6);
  RunSteps(1);
  worker_.Drain();
  RunSteps(1);
  EXPECT_EQ(replica_.board().worker_state(), WorkerState::kDraining);
  EXPECT_EQ(WorkerIs(WorkerState::kDraining), 1);
  EXPECT_TRUE(replica_.board().CheckWorker().ok());
  const auto waiting = Submit({4, 5}, 5);
  RunUntilIdle();
  running->Read();
  EXPECT_EQ(running->end, absl::OkStatus());
  EXPECT_THAT(running->tokens[0], ElementsAreArray(GreedyTokens({}, {1, 2, 3}, 6)));
  waiting->Read();
  EXPECT_FALSE(waiting->admission.has_value());
  EXPECT_FALSE(waiting->end.has_value());

  LoseWorker();
  EXPECT_EQ(replica_.board().worker_state(), WorkerState::kLost);
  worker_.Restart();
  Connect();
  EXPECT_EQ(replica_.board().worker_state(), WorkerState::kReady);
  RunUntilIdle();
  waiting->Read();
  EXPECT_EQ(waiting->end, absl::OkStatus());
  EXPECT_THAT(waiting->tokens[0], ElementsAreArray(GreedyTokens({}, {4, 5}, 5)));
  ExpectClean();
}

TEST_F(ReplicaWorkerChangeTest, LeasesAreCountedByOwner) {
  const auto leases = [this](WorkerOwner owner) {
    return RouterMetrics::At(metrics_.shard_leases, owner).Value();
  };
  EXPECT_EQ(RouterMetrics::At(metrics_.shard_workers, WorkerOwner::kSelf).Value(), 1);
  EXPECT_EQ(leases(WorkerOwner::kSelf), 0);
  Connect();
  EXPECT_EQ(leases(WorkerOwner::kSelf), 1);
  LoseWorker();
  EXPECT_EQ(leases(WorkerOwner::kSelf), 0);
  EXPECT_EQ(metrics_.shard_takeovers_total->Value(), 0);
  {
    testing::FakeWorker worker;
    testing::ManualLink link(worker);
    Replica stand_in({}, testing::MakeFcfsPolicy(),
                     {.clock = &clock_,
                      .link = &link,
                      .metrics = &metrics_,
                      .worker = "fake:2",
                      .owner = WorkerOwner::kOther});
    EXPECT_EQ(RouterMetrics::At(metrics_.shard_workers, WorkerOwner::kOther).Value(), 1);
    InboxBatch batch;
    batch.link_events.push_back(worker.Claim());
    stand_in.Process(std::move(batch));
    EXPECT_EQ(leases(WorkerOwner::kOther), 1);
    EXPECT_EQ(metrics_.shard_takeovers_total->Value(), 1);
  }
  EXPECT_EQ(leases(WorkerOwner::kOther), 0);
  EXPECT_EQ(RouterMetrics::At(metrics_.shard_workers, WorkerOwner::kOther).Value(), 0);
}

TEST_F(ReplicaWorkerChangeTest, WhoWaitsBehindADrainedWorkerFailsWhenNoneComes) {
  Connect();
  const auto running = Submit({1, 2, 3}, 3);
  worker_.Drain();
  RunSteps(1);
  const auto waiting = Submit({4, 5}, 5);
  RunUntilIdle();
  LoseWorker();
  AdvanceBy(absl::Seconds(30));
  waiting->Read();
  ASSERT_TRUE(waiting->end.has_value());
  EXPECT_EQ(waiting->end->code(), absl::StatusCode::kUnavailable);
}

TEST_F(ReplicaWorkerChangeTest, WhoWaitsBehindADrainingWorkerDoesSoForTheFailoverWait) {
  Connect();
  const auto running = Submit({1, 2, 3}, 6);
  worker_.Drain();
  RunSteps(1);
  const auto waiting = Submit({4, 5}, 5);
  EXPECT_EQ(replica_.NextWakeup(), kStart + absl::Seconds(30));
  AdvanceBy(absl::Seconds(20));
  const auto later = Submit({6, 7}, 5);
  AdvanceBy(absl::Seconds(10));
  waiting->Read();
  ASSERT_TRUE(waiting->end.has_value());
  EXPECT_EQ(waiting->end->code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(*waiting->end), HasSubstr("shutting down and no other one came within 30s"));
  EXPECT_EQ(NumRetried(RetryOutcome::kFailed), 1);
  EXPECT_EQ(replica_.NextWakeup(), kStart + absl::Seconds(50)) << "the later one has its own time";
  RunUntilIdle();
  running->Read();
  EXPECT_EQ(running->end, absl::OkStatus());
  EXPECT_THAT(running->tokens[0], ElementsAreArray(GreedyTokens({}, {1, 2, 3}, 6)));
  later->Read();
  EXPECT_FALSE(later->end.has_value());
}

TEST_F(ReplicaWorkerChangeTest, TheCancelOfTheOnlyRequestFreesTheWorker) {
  Connect();
  const auto client = Submit({1, 2, 3}, 50);
  RunSteps(3);
  worker_.Drain();
  RunSteps(1);
  Cancel(*client, CancelCause::kClient);
  RunUntilIdle();
  EXPECT_EQ(worker_.num_live_slots(), 0u);
  EXPECT_EQ(metrics_.step_batch_sequences->Collect().histogram.sample_count, 6u)
      << "a step without rows is no batch";
}

TEST_F(ReplicaWorkerChangeTest, ADrainedWorkerThatStaysLosesItsLease) {
  Connect();
  const auto running = Submit({1, 2, 3}, 3);
  worker_.Drain();
  RunSteps(1);
  RunUntilIdle();
  AdvanceBy(kIdleCheck);
  EXPECT_EQ(replica_.NextWakeup(), kStart + absl::Seconds(60));
  AdvanceBy(absl::Seconds(60));
  ASSERT_TRUE(link_.drop_reason().has_value());
  EXPECT_THAT(Message(*link_.drop_reason()), HasSubstr("the drained worker did not end its lease"));
  EXPECT_EQ(replica_.board().worker_state(), WorkerState::kLost);
}

TEST_F(ReplicaWorkerChangeTest, ARequestThatKillsWorkersFailsAlone) {
  Connect();
  const auto first = Submit({1, 2, 3}, 6);
  const auto poison = Submit({4, 5, kPoison}, 6);
  const auto second = Submit({6, 7, 8}, 6);
  ASSERT_THAT(GreedyTokens({}, {1, 2, 3}, 6), Not(Contains(kPoison)));
  ASSERT_THAT(GreedyTokens({}, {6, 7, 8}, 6), Not(Contains(kPoison)));
  EXPECT_EQ(CountDeaths(), 4);
  poison->Read();
  ASSERT_TRUE(poison->end.has_value());
  EXPECT_EQ(poison->end->code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Message(*poison->end), HasSubstr("4 workers were lost while they ran this"));
  EXPECT_THAT(Message(*poison->end), HasSubstr("the stream broke"));
  for (Client* const client : {first.get(), second.get()}) {
    client->Read();
    EXPECT_EQ(client->end, absl::OkStatus());
    EXPECT_THAT(client->tokens[0],
                ElementsAreArray(GreedyTokens({}, client->request->prompt_tokens, 6)));
  }
  EXPECT_EQ(NumRetried(RetryOutcome::kFailed), 1);
  ExpectClean();
}

TEST_F(ReplicaWorkerChangeTest, ARequestWhoseResultsNeverFitItsStepsFails) {
  Connect();
  const auto client = Submit({1, 2, 3}, 6);
  for (int i = 1; i <= 4; ++i) {
    EXPECT_FALSE(client->end.has_value());
    LinkResult result = *link_.RunNext();
    result.result.add_sampled_slots(77);
    result.result.add_token_ids(1);
    InboxBatch batch;
    batch.link_events.push_back(result);
    replica_.Process(std::move(batch));
    client->Read();
    if (i < 4) Connect();
  }
  ASSERT_TRUE(client->end.has_value());
  EXPECT_EQ(client->end->code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Message(*client->end), HasSubstr("slot 77 did not run"));
}

TEST_F(ReplicaWorkerChangeTest, WorkersThatComeAndGoDoNotKeepRequestsWaiting) {
  Connect();
  const auto client = Submit({1, 2, 3}, 20);
  RunSteps(3);
  LoseWorker();
  for (int seconds = 5; seconds <= 30; seconds += 5) {
    client->Read();
    EXPECT_FALSE(client->end.has_value()) << "after " << seconds - 5 << " s";
    AdvanceBy(absl::Seconds(5) - absl::Nanoseconds(1));
    InboxBatch batch;
    batch.link_events.push_back(worker_.Claim());
    batch.link_events.push_back(link_.Break(absl::UnavailableError("the stream broke again")));
    replica_.Process(std::move(batch));
    AdvanceBy(absl::Nanoseconds(1));
  }
  client->Read();
  ASSERT_TRUE(client->end.has_value());
  EXPECT_EQ(client->end->code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(*client->end), HasSubstr("none came back within 30s that got any further"));
  EXPECT_THAT(Message(*client->end), HasSubstr("the stream broke again"));
}

TEST_F(ReplicaWorkerChangeTest, OnlyWhatFitsTheNextWorkerIsResumed) {
  Connect();
  const auto finished = Submit({1, 2}, 1);
  const auto large = Submit({1, 2, 3, 4, 5, 6}, 20);
  const auto small = Submit({5, 6, 7}, 6);
  InboxBatch batch;  // the loss and the next lease come with the result that ends a request
  batch.link_events.push_back(*link_.RunNext());
  batch.link_events.push_back(link_.Break(absl::UnavailableError("the stream broke")));
  worker_.Restart();
  LinkUp up = worker_.Claim();
  up.description.set_max_context_tokens(16);
  batch.link_events.push_back(std::move(up));
  replica_.Process(std::move(batch));
  EXPECT_EQ(NumRetried(RetryOutcome::kResumed), 1);
  EXPECT_EQ(NumRetried(RetryOutcome::kFailed), 1);
  RunUntilIdle();
  finished->Read();
  EXPECT_EQ(finished->end, absl::OkStatus());
  large->Read();
  EXPECT_EQ(large->end->code(), absl::StatusCode::kInvalidArgument);
  small->Read();
  EXPECT_EQ(small->end, absl::OkStatus());
  ExpectClean();
}

}  // namespace
}  // namespace lockstep::router
