// Requests that go from one scheduler to another: what they take along, and what they must not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "common/status.h"
#include "tests/router/core/fcfs_policy.h"
#include "tests/router/core/properties/random_source.h"
#include "tests/router/core/scheduler_fixture.h"

namespace lockstep::router::testing {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Two schedulers with a worker each, of which one is at hand; what clients hear is collected over
// both.
class SchedulerTransferTest : public SchedulerTest {
 protected:
  void StartBoth() {
    Start();
    Switch();
    scheduler = std::make_unique<Scheduler>(config, MakeFcfsPolicy());
    AttachWorker(limits);
    Switch();
  }

  void Switch() {
    std::swap(scheduler, other_scheduler_);
    std::swap(worker, other_worker_);
    std::swap(planned, other_planned_);
  }

  // What the scheduler at hand cannot get on with goes to the other one.
  size_t MoveStranded() {
    size_t num_moved = 0;
    for (const StrandedRequest& stranded : scheduler->Stranded()) {
      other_scheduler_->Adopt(scheduler->Release(stranded.request->key));
      ++num_moved;
    }
    for (int side = 0; side < 2; ++side) {
      Cancel(1'000'000);  // of nobody: checks both and takes their events
      Switch();
    }
    return num_moved;
  }

  void RunBothUntilIdle() {
    for (int side = 0; side < 2; ++side) {
      RunUntilIdle();
      Switch();
    }
  }

  std::unique_ptr<Scheduler> other_scheduler_;
  std::unique_ptr<ModelWorker> other_worker_;
  std::deque<StepPlan> other_planned_;
};

TEST_F(SchedulerTransferTest, TokensGoOnWhereTheyStopped) {
  StartBoth();
  auto running = MakeRequest(1, TextOf(1, 9), 12);
  auto branching = MakeRequest(2, TextOf(2, 10), 8);
  branching->num_samples = 3;
  branching->sampling.temperature = 1;
  branching->sampling.num_prompt_logprobs = 1;
  Submit(running);
  Submit(branching);
  ASSERT_TRUE(RunUntil([this] { return Tokens(2, 1).size() == 3; }));
  const auto untouched = MakeRequest(3, TextOf(3, 5), 4);
  Submit(untouched);
  DetachWorker();
  EXPECT_EQ(MoveStranded(), 3u);
  EXPECT_TRUE(scheduler->Idle());
  Switch();
  RunUntilIdle();
  ExpectComplete(*running);
  for (uint32_t sample = 0; sample < 3; ++sample) ExpectComplete(*branching, sample);
  ExpectComplete(*untouched);
  EXPECT_THAT(prompt_logprobs.at(2), SizeIs(9));
}

TEST_F(SchedulerTransferTest, NothingIsStrandedWithAWorkerThatStartsRequests) {
  StartBoth();
  Submit(1, TextOf(1, 9), 4);
  EXPECT_THAT(scheduler->Stranded(), SizeIs(0));
}

TEST_F(SchedulerTransferTest, OfADrainingWorkerOnlyWhatDoesNotRunIsStranded) {
  config.max_running_sequences = 1;
  StartBoth();
  auto running = MakeRequest(1, TextOf(1, 9), 6);
  auto waiting = MakeRequest(2, TextOf(2, 9), 6);
  Submit(running);
  Submit(waiting);
  ASSERT_TRUE(RunUntil([this] { return Tokens(1).size() == 2; }));
  scheduler->DrainWorker(now);
  const std::vector<StrandedRequest> stranded = scheduler->Stranded();
  ASSERT_THAT(stranded, SizeIs(1));
  EXPECT_EQ(stranded[0].request, waiting);
  EXPECT_THAT(stranded[0].known_tokens, ElementsAreArray(waiting->prompt_tokens));
  EXPECT_FALSE(stranded[0].has_output);
  EXPECT_EQ(MoveStranded(), 1u);
  RunBothUntilIdle();
  ExpectComplete(*running);
  ExpectComplete(*waiting);
}

TEST_F(SchedulerTransferTest, LossesOnAllWorkersCountTogether) {
  StartBoth();
  auto poison = MakeRequest(1, TextOf(1, 9), 6);
  auto healthy = MakeRequest(2, TextOf(2, 9), 6);
  Submit(poison);
  for (int loss = 1; loss <= 3; ++loss) {
    ASSERT_NE(Plan(), nullptr);
    DetachWorker();
    ASSERT_THAT(scheduler->Stranded(), SizeIs(1));
    EXPECT_EQ(scheduler->Stranded()[0].suspect, loss >= 2);
    MoveStranded();
    AttachWorker(limits);
    Switch();
  }
  Submit(healthy);
  const StepPlan* const plan = Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_THAT(plan->rows, SizeIs(1)) << "a suspect runs alone";
  EXPECT_EQ(plan->started[0].request, poison);
  EXPECT_EQ(Plan(), nullptr);
  DetachWorker();
  ASSERT_NE(Ending(1), nullptr);
  EXPECT_EQ(Ending(1)->error.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Message(Ending(1)->error), HasSubstr("4 workers were lost"));
  EXPECT_EQ(MoveStranded(), 1u);
  RunBothUntilIdle();
  // The first scheduler ran nothing else, and the healthy one went on there.
  ExpectComplete(*healthy);
}

TEST_F(SchedulerTransferTest, WhatOneWorkerRefusedAnotherMayTake) {
  config.max_steps_in_flight = 1;
  StartBoth();
  const auto request = MakeRequest(1, TextOf(1, 9), 4);
  Submit(request);
  for (int i = 0; i < 2; ++i) {
    ASSERT_NE(Plan(), nullptr);
    Done({.refuse = true});
  }
  scheduler->DrainWorker(now);
  ASSERT_THAT(scheduler->Stranded(), SizeIs(1));
  EXPECT_FALSE(scheduler->Stranded()[0].suspect) << "no worker was lost over it";
  EXPECT_EQ(MoveStranded(), 1u);
  Switch();
  ASSERT_NE(Plan(), nullptr);
  Done({.refuse = true});
  EXPECT_EQ(Ending(1), nullptr) << "the first refusal here";
  RunUntilIdle();
  ExpectComplete(*request);
}

TEST_F(SchedulerTransferTest, WhatIsStillToBeDescribedIsNoCachedPrefix) {
  StartBoth();
  auto described = MakeRequest(1, TextOf(1, 9), 4);
  described->sampling.num_prompt_logprobs = 0;
  auto bypassing = MakeRequest(2, TextOf(2, 9), 4);
  bypassing->bypass_prefix_cache = true;
  Submit(described);
  Submit(bypassing);
  Submit(3, TextOf(3, 9), 4);
  DetachWorker();
  std::vector<StrandedRequest> stranded = scheduler->Stranded();
  ASSERT_THAT(stranded, SizeIs(3));
  EXPECT_EQ(stranded[0].max_cached_tokens, 0u);
  EXPECT_EQ(stranded[1].max_cached_tokens, 0u);
  EXPECT_EQ(stranded[2].max_cached_tokens, 8u);
  AttachWorker(limits);
  ASSERT_TRUE(RunUntil([this] { return Tokens(1).size() == 2; }));
  DetachWorker();
  stranded = scheduler->Stranded();
  EXPECT_EQ(stranded[0].max_cached_tokens, 10u) << "the prompt has been described";
}

TEST_F(SchedulerTransferTest, APrefillInProgressIsCounted) {
  config.max_prefill_tokens_per_step = 4;
  config.max_steps_in_flight = 1;
  StartBoth();
  Submit(1, TextOf(1, 10), 4);
  EXPECT_EQ(Stats().waiting_tokens, 10u);
  EXPECT_EQ(Stats().prefill_tokens, 0u);
  for (const uint64_t left : {10u, 6u, 2u, 0u}) {
    ASSERT_NE(Plan(), nullptr);
    EXPECT_EQ(Stats().waiting_tokens, 0u);
    EXPECT_EQ(Stats().prefill_tokens, left);
    Done();
  }
}

TEST_F(SchedulerTransferTest, ASmallerWorkerRefusesWhatItCannotHold) {
  StartBoth();
  Submit(1, TextOf(1, 30), 100);
  Switch();
  WorkerLimits small = limits;
  small.max_context_tokens = 64;
  AttachWorker(small);
  Switch();
  DetachWorker();
  EXPECT_EQ(MoveStranded(), 1u);
  ASSERT_NE(Ending(1), nullptr);
  EXPECT_EQ(Ending(1)->error.code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SchedulerTransferTest, WhoWasLetInIsNotRefusedForAFullQueue) {
  config.max_waiting_requests = 1;
  StartBoth();
  Switch();
  Submit(1, TextOf(1, 5), 3);
  Switch();
  Submit(2, TextOf(2, 5), 3);
  DetachWorker();
  EXPECT_EQ(MoveStranded(), 1u);
  RunBothUntilIdle();
  for (RequestKey key : {1, 2}) {
    ASSERT_NE(Ending(key), nullptr);
    EXPECT_TRUE(Ending(key)->error.ok());
  }
}

TEST_F(SchedulerTransferTest, TheWaitForAWorkerGoesOn) {
  StartBoth();
  Switch();
  DetachWorker();  // long before
  Switch();
  now += absl::Seconds(100);
  Submit(1, TextOf(1, 5), 9);
  ASSERT_TRUE(RunUntil([this] { return Tokens(1).size() == 2; }));
  now += absl::Seconds(1);
  const Instant lost_at = now;
  DetachWorker();
  now += absl::Seconds(5);
  MoveStranded();
  Switch();
  EXPECT_EQ(scheduler->UnservedSince(), lost_at);
}

// Workers come and go on both sides at random; whatever is stranded moves over.
class SchedulerTransferPropertyTest : public SchedulerTransferTest,
                                      public ::testing::WithParamInterface<uint64_t> {};

TEST_P(SchedulerTransferPropertyTest, EveryRequestGetsTheTextOfItsLoneRun) {
  RandomSource random(GetParam());
  config.max_steps_in_flight = random.Between(1, 4);
  config.max_running_sequences = random.Between(2, 6);
  StartBoth();
  std::vector<std::shared_ptr<Request>> requests;
  size_t num_moved = 0;
  for (int step = 0; step < 3000 && !HasFailure(); ++step) {
    if (random.OneIn(2)) Switch();
    if (requests.size() < 150 && random.OneIn(6)) {
      const auto key = static_cast<RequestKey>(requests.size() + 1);
      // Some share their prompts.
      auto request = MakeRequest(key, TextOf(random.Between(1, 9), random.Between(1, 24)),
                                 random.Between(1, 9));
      request->num_samples = random.OneIn(3) ? 3 : 1;
      request->sampling.temperature = random.OneIn(2) ? 1 : 0;
      if (random.OneIn(4)) request->sampling.num_prompt_logprobs = 2;
      requests.push_back(request);
      Submit(request);
    }
    // Between losses there is progress, so nobody is blamed for them.
    if (random.OneIn(20) && planned.empty()) {
      DetachWorker();
      num_moved += MoveStranded();
      AttachWorker(limits);
    } else if (random.OneIn(2) || Plan() == nullptr) {
      if (!planned.empty()) Done();
    }
  }
  RunBothUntilIdle();
  for (const auto& request : requests) {
    for (uint32_t sample = 0; sample < request->num_samples; ++sample) {
      ExpectComplete(*request, sample);
    }
  }
  EXPECT_GT(num_moved, 10u);
  EXPECT_THAT(requests, SizeIs(150));
}

INSTANTIATE_TEST_SUITE_P(Seeds, SchedulerTransferPropertyTest, ::testing::Range<uint64_t>(1, 21));

}  // namespace
}  // namespace lockstep::router::testing
