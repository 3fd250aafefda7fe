// The step runner of GPUs against the one of the CPU, on the same logits: two models with the same
// random weights, one, on one or two ranks, under a CudaStepRunner, the other, through
// CudaForwardModel, under a CpuStepRunner. Greedy, so that both samplers must pick the same token.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>

#include "tests/support/cuda_test.h"
#include "tests/worker/cuda/steps/step_runner_cuda_fixture.h"
#include "tests/worker/steps/random_steps.h"
#include "tests/worker/steps/step_messages.h"
#include "worker/cpu/step_runner.h"
#include "worker/cuda/model.h"
#include "worker/cuda/steps/step_memory.h"
#include "worker/cuda/steps/step_runner.h"

namespace lockstep::worker {
namespace {

using ::lockstep::testing::RandomSteps;

void MakeGreedy(v1::StepRequest& step) {
  for (v1::StartedSlot& started : *step.mutable_started()) {
    if (started.has_sampling() && started.sampling().temperature() >= 0) {
      started.mutable_sampling()->set_temperature(0.0f);
    }
  }
}

// Takes the log-probabilities out and compares them with a tolerance: the CPU adds in fp64.
void ExpectSameLogprobs(google::protobuf::RepeatedPtrField<v1::TokenLogprobs>& actual,
                        google::protobuf::RepeatedPtrField<v1::TokenLogprobs>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (int i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(actual[i].slot(), expected[i].slot());
    EXPECT_EQ(actual[i].token_id(), expected[i].token_id());
    EXPECT_EQ(actual[i].rank(), expected[i].rank());
    EXPECT_NEAR(actual[i].logprob(), expected[i].logprob(), 1e-4);
    ASSERT_EQ(actual[i].top_ids_size(), expected[i].top_ids_size());
    for (int j = 0; j < actual[i].top_ids_size(); ++j) {
      EXPECT_EQ(actual[i].top_ids(j), expected[i].top_ids(j));
      EXPECT_NEAR(actual[i].top_logprobs(j), expected[i].top_logprobs(j), 1e-4);
    }
  }
  actual.Clear();
  expected.Clear();
}

void ExpectSameResult(v1::StepResult actual, v1::StepResult expected) {
  actual.clear_timings();
  expected.clear_timings();
  ExpectSameLogprobs(*actual.mutable_logprobs(), *expected.mutable_logprobs());
  ASSERT_EQ(actual.prompt_logprobs_size(), expected.prompt_logprobs_size());
  for (int i = 0; i < actual.prompt_logprobs_size(); ++i) {
    ExpectSameLogprobs(*actual.mutable_prompt_logprobs(i)->mutable_entries(),
                       *expected.mutable_prompt_logprobs(i)->mutable_entries());
  }
  EXPECT_EQ(actual.ShortDebugString(), expected.ShortDebugString());
}

TEST_P(StepRunnerCudaTest, GivesTheResultsOfTheCpuRunnerForAnySteps) {
  for (const uint64_t seed : {1, 2, 3}) {
    CpuStepRunner executor(*forward_model_, kLimits, /*incarnation=*/1);
    executor.BeginLease(seed);
    runner_->BeginLease(seed);
    // Where rows collide, both runners are right and yet their pools differ.
    RandomSteps steps(/*epoch=*/seed, seed, /*rows_collide=*/false);
    int num_refused = 0, num_sampled = 0, num_logprobs = 0, num_stopped = 0;
    for (int i = 0; i < 3000; ++i) {
      v1::StepRequest step = steps.Next();
      MakeGreedy(step);
      SCOPED_TRACE(fmt::format("seed {}, step {}: {}", seed, i, step.ShortDebugString()));
      v1::StepResult expected;
      executor.Execute(step, &expected);
      const v1::StepResult actual = RunOnDevice(step);
      num_refused += expected.has_refusal() ? 1 : 0;
      num_sampled += expected.token_ids_size();
      num_logprobs += expected.logprobs_size();
      num_stopped += expected.stopped_slots_size();
      ExpectSameResult(actual, expected);
      if (HasFailure()) return;
      steps.Observe(expected);
    }
    runner_->EndLease();
    EXPECT_GT(num_refused, 300);
    EXPECT_GT(num_sampled, 300);
    EXPECT_GT(num_logprobs, 30);
    EXPECT_GT(num_stopped, 30);
  }
}

TEST_P(StepRunnerCudaTest, StepsUnderWayAreAnsweredInOrderWithTheSameTokens) {
  constexpr uint32_t kNumTokens = 40;
  constexpr size_t kDepth = 4;
  const auto first_step = [](testing::StepSequence& steps) {
    v1::StepRequest step = steps.Next();
    for (SlotId slot = 0; slot < 4; ++slot) {
      *step.add_started() =
          testing::MakeStarted(slot, testing::MakeTokens(5 + slot, 64, slot),
                               testing::BlockRange(4 * slot, 4), 5 + slot + kNumTokens);
      testing::AddRow(step, slot, 5 + slot);
    }
    return step;
  };
  const auto next_step = [](testing::StepSequence& steps) {
    v1::StepRequest step = steps.Next();
    for (SlotId slot = 0; slot < 4; ++slot) step.add_run_slots(slot);
    return step;
  };
  std::vector<std::string> one_by_one, ahead;
  for (const size_t depth : {size_t{1}, kDepth}) {
    std::vector<std::string>& results = depth == 1 ? one_by_one : ahead;
    runner_->BeginLease(depth);
    testing::StepSequence steps(depth);
    for (uint32_t i = 0; i < kNumTokens; ++i) {
      runner_->Submit(i == 0 ? first_step(steps) : next_step(steps));
      if (runner_->num_pending() < depth) continue;
      v1::StepResult result = TakeResult();
      result.clear_timings();
      result.clear_epoch();
      results.push_back(result.ShortDebugString());
    }
    while (runner_->num_pending() > 0) {
      v1::StepResult result = TakeResult();
      result.clear_timings();
      result.clear_epoch();
      results.push_back(result.ShortDebugString());
    }
    runner_->EndLease();
  }
  ASSERT_EQ(one_by_one.size(), kNumTokens);
  EXPECT_EQ(ahead, one_by_one);
}

// A sequence grows, is released, and another starts in its slot on a cached prefix, all while the
// device is busy with the steps before: what the host writes for the new one must not reach the
// growth of the old one, which would then write over the prefix.
TEST_P(StepRunnerCudaTest, ASlotStartedAnewLeavesTheGrowthBeforeItAlone) {
  constexpr int kNumRounds = 60;
  const auto run = [this](size_t depth) {
    std::vector<std::string> results;
    const auto take = [&] {
      v1::StepResult result = TakeResult();
      EXPECT_FALSE(result.has_refusal()) << result.refusal().message();
      result.clear_timings();
      result.clear_epoch();
      results.push_back(result.ShortDebugString());
    };
    runner_->BeginLease(depth);
    testing::StepSequence steps(depth);
    const auto submit = [&](const v1::StepRequest& step) {
      runner_->Submit(step);
      while (runner_->num_pending() >= depth) take();
    };
    constexpr BlockId kPrefixBlocks[] = {62, 63};
    const std::vector<TokenId> prefix = testing::MakeTokens(33, 64, 7);
    v1::StepRequest fill = steps.Next();
    *fill.add_started() = testing::MakeStarted(1, prefix, {62, 63, 61}, 40);
    testing::AddRow(fill, 1, 33);
    submit(fill);
    for (int round = 0; round < kNumRounds; ++round) {
      const BlockId first = static_cast<BlockId>(8 * (round % 8));
      // 15 tokens in one block, then growth by a block at the border.
      v1::StepRequest start = steps.Next();
      if (round > 0) start.add_released_slots(0);
      *start.add_started() = testing::MakeStarted(
          0, testing::MakeTokens(15, 64, static_cast<uint64_t>(round)), {first}, 40);
      testing::AddRow(start, 0, 15);
      submit(start);
      v1::StepRequest grow = steps.Next();
      grow.add_grown_slots(0);
      grow.add_grown_counts(1);
      grow.add_grown_blocks(first + 1);
      testing::AddRow(grow, 0, 1);
      submit(grow);
      for (int i = 0; i < 2; ++i) {
        v1::StepRequest decode = steps.Next();
        testing::AddRow(decode, 0, 1);
        submit(decode);
      }
      // Its second block is the prefix's where the old sequence's was the grown one.
      v1::StepRequest restart = steps.Next();
      restart.add_released_slots(0);
      *restart.add_started() =
          testing::MakeStarted(0, prefix, {kPrefixBlocks[0], kPrefixBlocks[1], 60}, 40);
      restart.mutable_started(0)->set_num_computed_tokens(32);
      testing::AddRow(restart, 0, 1);
      submit(restart);
    }
    while (runner_->num_pending() > 0) take();
    runner_->EndLease();
    return results;
  };
  const std::vector<std::string> one_by_one = run(1);
  EXPECT_EQ(run(4), one_by_one);
}

class LongStepRunnerCudaTest : public StepRunnerCudaTest {
 protected:
  using Tokens = std::map<SlotId, std::vector<TokenId>>;

  int max_positions() const override { return 1024; }

  // Takes the results of all steps under way. Only slot 0 may fail. Returns how often it did.
  int TakeAll(Tokens& tokens) {
    int num_errors = 0;
    while (runner_->num_pending() > 0) {
      const v1::StepResult result = TakeResult();
      EXPECT_FALSE(result.has_refusal()) << result.refusal().message();
      for (const v1::SlotError& error : result.errors()) {
        EXPECT_EQ(error.slot(), 0u) << error.message();
        ++num_errors;
      }
      EXPECT_EQ(result.sampled_slots_size(), result.token_ids_size());
      for (int i = 0; i < std::min(result.sampled_slots_size(), result.token_ids_size()); ++i) {
        tokens[result.sampled_slots(i)].push_back(result.token_ids(i));
      }
    }
    return num_errors;
  }

  // The tokens of slots 1 and 2, which have few keys. If `beside_failures`, slot 0 has many and
  // fails in its prompt, again and again.
  Tokens TokensOfShortSequences(uint64_t epoch, bool beside_failures) {
    constexpr int kNumRounds = 20;
    constexpr uint32_t kPromptTokens = 140;
    constexpr uint32_t kStepTokens = 28;
    constexpr uint32_t kCachedTokens = 592;
    runner_->BeginLease(epoch);
    testing::StepSequence steps(epoch);
    Tokens tokens;
    for (uint32_t done = 0; done < kPromptTokens; done += kStepTokens) {
      v1::StepRequest step = steps.Next();
      for (const SlotId slot : {SlotId{1}, SlotId{2}}) {
        if (done == 0) {
          *step.add_started() =
              testing::MakeStarted(slot, testing::MakeTokens(kPromptTokens, 64, slot),
                                   testing::BlockRange(12 * (slot - 1), 12), kPromptTokens + 50);
        }
        testing::AddRow(step, slot, kStepTokens);
      }
      runner_->Submit(step);
    }
    EXPECT_EQ(TakeAll(tokens), 0);
    const auto add_short_rows = [](v1::StepRequest& step) {
      for (const SlotId slot : {SlotId{1}, SlotId{2}}) testing::AddRow(step, slot, 1);
    };
    for (int round = 0; round < kNumRounds; ++round) {
      v1::StepRequest fail = steps.Next();
      if (beside_failures) {
        if (round > 0) fail.add_released_slots(0);
        v1::StartedSlot& started = *fail.add_started();
        started = testing::MakeStarted(0, testing::MakeTokens(kCachedTokens + 8, 64, 4),
                                       testing::BlockRange(24, 38), kCachedTokens + 16);
        started.set_num_computed_tokens(kCachedTokens);  // NaN, so there are no probabilities
        started.set_first_prompt_logprob(kCachedTokens + 1);
        started.mutable_sampling()->set_num_prompt_logprobs(0);
        testing::AddRow(fail, 0, 7);
      }
      add_short_rows(fail);
      runner_->Submit(fail);
      // The ring of passes is full then. The next step is accepted while slot 0 still runs, and
      // waits for the result that says otherwise before it is enqueued.
      for (uint32_t i = 1; i < CudaStepMemory::kNumPasses; ++i) runner_->Submit(steps.Next());
      v1::StepRequest decode = steps.Next();
      if (beside_failures) testing::AddRow(decode, 0, 1);
      add_short_rows(decode);
      runner_->Submit(decode);
      EXPECT_EQ(TakeAll(tokens), beside_failures ? 1 : 0);
    }
    runner_->EndLease();
    return tokens;
  }
};

// The device does not know that a row failed in its prompt. If it went on, it would write its parts
// of attention where a graph for fewer keys has those of the next row.
TEST_P(LongStepRunnerCudaTest, ARowThatFailedInItsPromptLeavesItsBatchMatesAlone) {
  FillPool(*runner_model_, 0xFF);  // NaN
  const Tokens alone = TokensOfShortSequences(1, /*beside_failures=*/false);
  ASSERT_EQ(alone.size(), 2u);
  for (const auto& [slot, tokens] : alone) EXPECT_EQ(tokens.size(), 41u) << "slot " << slot;
  EXPECT_EQ(TokensOfShortSequences(2, /*beside_failures=*/true), alone);
}

INSTANTIATE_TEST_SUITE_P(Ranks, LongStepRunnerCudaTest, ::testing::Values(1, 2));

class StepRunnerCudaDeathTest : public StepRunnerCudaTest {
 protected:
  // A pass of one row of padding on rank 0 alone.
  void LetOneRankNotLaunch() {
    const testing::DeviceArray<uint32_t> slots(std::vector<uint32_t>{kernels::kNoSlot});
    const auto begin = std::chrono::steady_clock::now();
    const absl::Status status = runner_model_->Enqueue({.decode_slots = slots.data(),
                                                        .num_decode_rows = 1,
                                                        .max_decode_keys = 1,
                                                        .num_tokens = 1,
                                                        .num_logits_rows = 1});
    LOCKSTEP_CHECK(status.ok(), "{}", Message(status));
    while (runner_model_->HangReport().empty()) {
      LOCKSTEP_CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5),
                     "it took too long");
    }
    LOCKSTEP_CHECK(false, "{}", runner_model_->HangReport());
  }
};

TEST_P(StepRunnerCudaDeathTest, ARankThatDoesNotLaunchEndsTheProcessWithinFiveSeconds) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(LetOneRankNotLaunch(), "rank 0 has waited 3000 ms for rank 1");
}

INSTANTIATE_TEST_SUITE_P(Ranks, StepRunnerCudaDeathTest, ::testing::Values(2));

}  // namespace
}  // namespace lockstep::worker
