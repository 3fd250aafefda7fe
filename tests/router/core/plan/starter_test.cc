#include "router/core/plan/starter.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "router/core/policy/priority_policy.h"

namespace lockstep::router {
namespace {

class StarterTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kBlockSize = 4;
  static constexpr uint32_t kNumBlocks = 8;

  StarterTest() : state_(SchedulerConfig(), MakePriorityPolicy(absl::Seconds(1))) { Attach(2); }
  ~StarterTest() override {
    // The blocks of running sequences go back before the lease ends.
    state_.population.LeaveWorker(*state_.lease, absl::CancelledError("the test is over"), now_);
  }

  void Attach(uint32_t max_slots) {
    state_.lease = std::make_unique<WorkerLease>(WorkerLimits{
        .kv_groups = {KvGroup{.block_size_tokens = kBlockSize, .num_blocks = kNumBlocks}},
        .max_slots = max_slots,
        .max_step_tokens = 64,
        .max_context_tokens = 1024});
  }

  Sequence& Add(uint32_t num_prompt_tokens, const std::string& tenant = "a") {
    auto request = std::make_shared<Request>();
    request->key = ++num_requests_;
    request->tenant = tenant;
    request->arrival = now_;
    request->prompt_tokens.assign(num_prompt_tokens, static_cast<TokenId>(num_requests_));
    return state_.population.Add(std::move(request)).samples.front();
  }

  // A step of its own for each call, as the planner has.
  Sequence* StartNext(const Sequence* rival = nullptr) {
    OpenStep step(state_, now_);
    const FairOrder order(*state_.policy, state_.population.tenants(), now_);
    Sequence* const started = Starter(step, order).StartNext(rival);
    changed_ = step.changed;
    started_ = std::move(step.plan.started);
    return started;
  }
  void End(Sequence& sequence) {
    state_.population.End(sequence, {}, state_.lease.get(), now_);
    state_.population.ForgetEnded();
  }

  const Instant now_ = Instant::After(absl::Seconds(100));
  SchedulerState state_;
  RequestKey num_requests_ = 0;
  bool changed_ = false;              // of the last step
  std::vector<StartedSlot> started_;  // likewise
};

TEST_F(StarterTest, AStartTakesASlotAndBlocksForAllTokens) {
  Sequence& sequence = Add(9);
  EXPECT_EQ(StartNext(), &sequence);
  ASSERT_NE(sequence.running(), nullptr);
  EXPECT_EQ(sequence.running()->blocks.num_covered(), 3u);
  EXPECT_EQ(state_.lease->kv.num_available(), kNumBlocks - 3);
  ASSERT_EQ(started_.size(), 1u);
  EXPECT_EQ(started_[0].slot, sequence.running()->slot);
  EXPECT_EQ(started_[0].known_tokens.size(), 9u);
  EXPECT_EQ(state_.population.TakeEvents().size(), 1u);
}

TEST_F(StarterTest, NothingStartsWithoutASlot) {
  Add(1);
  Add(1);
  Add(1);
  EXPECT_NE(StartNext(), nullptr);
  EXPECT_NE(StartNext(), nullptr);
  EXPECT_EQ(StartNext(), nullptr);
}

TEST_F(StarterTest, ASequenceThatDoesNotFitYetIsNotOvertaken) {
  Sequence& large = Add(20);
  EXPECT_EQ(StartNext(), &large);  // holds 5 of 8 blocks
  Sequence& waits = Add(16);
  Sequence& small = Add(1);
  EXPECT_EQ(StartNext(), nullptr);
  EXPECT_EQ(small.running(), nullptr);
  End(large);
  EXPECT_EQ(StartNext(), &waits);
  EXPECT_EQ(StartNext(), &small);
}

TEST_F(StarterTest, ASequenceThatNeverFitsEndsAndTheNextStarts) {
  Add(kNumBlocks * kBlockSize + 1);
  Sequence& small = Add(1);
  EXPECT_EQ(StartNext(), &small);
  EXPECT_TRUE(changed_);
}

TEST_F(StarterTest, ARivalThatGoesFirstKeepsItFromStarting) {
  Sequence& rival = Add(1);
  EXPECT_EQ(StartNext(), &rival);
  Sequence& next = Add(1);
  EXPECT_EQ(StartNext(&rival), nullptr) << "the same tenant, and the rival came first";
  rival.request->share->Charge(10, TenantShare::kPromptWeight, 1);
  Sequence& poor = Add(1, "b");
  poor.request->share->served = 0;
  EXPECT_EQ(StartNext(&rival), &poor);
  EXPECT_EQ(next.running(), nullptr);
}

TEST_F(StarterTest, EverySixteenthStartTakesThePolicysFirst) {
  Attach(16);
  Sequence& rich = Add(1, "rich");
  rich.request->share->Charge(1000, TenantShare::kPromptWeight, 1);
  // Served least, so it goes first fifteen times.
  for (int i = 0; i < 15; ++i) {
    Sequence& poor = Add(1, "poor");
    poor.request->share->served = 0;
    ASSERT_EQ(StartNext(), &poor) << i;
    End(poor);
  }
  Sequence& poor = Add(1, "poor");
  poor.request->share->served = 0;
  EXPECT_EQ(StartNext(), &rich);
}

TEST_F(StarterTest, TheLastSlotsAreKeptForTenantsThatRunLess) {
  constexpr uint32_t kNumSlots = 16;  // one of them is kept
  state_.lease = std::make_unique<WorkerLease>(
      WorkerLimits{.kv_groups = {KvGroup{.block_size_tokens = kBlockSize, .num_blocks = 1024}},
                   .max_slots = kNumSlots,
                   .max_step_tokens = 64,
                   .max_context_tokens = 1024});
  for (uint32_t i = 0; i < kNumSlots; ++i) Add(1, "greedy");
  for (uint32_t i = 0; i + 2 < kNumSlots; ++i) ASSERT_NE(StartNext(), nullptr) << i;
  Sequence& modest = Add(1, "modest");
  modest.request->share->served = 1e6;  // it is not next
  ASSERT_NE(StartNext(), nullptr);
  EXPECT_EQ(StartNext(), nullptr) << "one slot is left, and it is not for the greedy tenant";
  modest.request->share->served = 0;
  for (const Sequence* sequence : state_.population.running()) {
    sequence->request->share->served = 1;
  }
  EXPECT_EQ(StartNext(), &modest);
}

}  // namespace
}  // namespace lockstep::router
