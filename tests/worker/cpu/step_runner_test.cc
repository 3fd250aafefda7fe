#include "worker/cpu/step_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/fake_forward_model.h"
#include "tests/worker/steps/step_messages.h"
#include "tests/worker/steps/test_worker.h"

namespace lockstep::worker {
namespace {

using ::lockstep::testing::AddRow;
using ::lockstep::testing::BlockRange;
using ::lockstep::testing::FakeModelOptions;
using ::lockstep::testing::GreedyReference;
using ::lockstep::testing::kEpoch;
using ::lockstep::testing::kVocabSize;
using ::lockstep::testing::MakeStarted;
using ::lockstep::testing::MakeTokens;
using ::lockstep::testing::RichSampling;
using ::lockstep::testing::StepSequence;
using ::lockstep::testing::TestWorker;
using ::lockstep::testing::Tokens;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CpuStepRunnerTest, GreedyDecodingFollowsTheModel) {
  TestWorker worker;
  const std::vector<TokenId> prompt = MakeTokens(9, kVocabSize, 1);
  // Blocks in no particular order.
  const v1::StartedSlot started = MakeStarted(3, prompt, {11, 2, 60, 7}, 16);
  std::vector<TokenId> generated = Tokens(worker.Prefill(started));
  for (int i = 0; i < 5; ++i) generated.push_back(worker.Decode(3).token_ids(0));
  EXPECT_EQ(generated, GreedyReference(worker.model(), prompt, 6));
  // A decode step computes one token.
  EXPECT_EQ(worker.model().num_tokens(), 9u + 5u);
}

TEST(CpuStepRunnerTest, ReportsOnlyRowsThatReachTheirLastKnownToken) {
  TestWorker worker;
  const std::vector<TokenId> prompt = MakeTokens(10, kVocabSize, 2);
  v1::StepRequest step = worker.NextStep();
  *step.add_started() = MakeStarted(0, prompt, BlockRange(0, 4), 16);
  AddRow(step, 0, 9);
  EXPECT_THAT(worker.RunAccepted(step).sampled_slots(), IsEmpty());
  // A bound above what is known is only a bound.
  step = worker.NextStep();
  AddRow(step, 0, 5);
  const v1::StepResult result = worker.RunAccepted(step);
  EXPECT_THAT(result.sampled_slots(), ElementsAre(0));
  EXPECT_THAT(result.sampled_counts(), IsEmpty());
  EXPECT_EQ(Tokens(result), GreedyReference(worker.model(), prompt, 1));
}

struct Trace {
  std::vector<TokenId> tokens;
  std::map<uint32_t, uint64_t> logit_hashes;
  bool operator==(const Trace&) const = default;
};

// Runs one sequence with prompt chunks of `chunk` tokens, `restart_after` generated tokens then
// moving it to another slot and other blocks.
Trace RunSampled(uint32_t chunk, std::optional<uint32_t> restart_after, uint32_t num_new) {
  TestWorker worker;
  const std::vector<TokenId> prompt = MakeTokens(13, kVocabSize, 3);
  SlotId slot = 4;
  v1::StartedSlot started = MakeStarted(slot, prompt, BlockRange(8, 8), 60);
  *started.mutable_sampling() = RichSampling(60);
  Trace trace;
  uint32_t num_left = prompt.size();
  bool start = true;
  while (trace.tokens.size() < num_new) {
    v1::StepRequest step = worker.NextStep();
    if (restart_after && trace.tokens.size() == *restart_after && num_left == 1) {
      step.add_released_slots(slot);
      restart_after.reset();
      slot = 1;
      started.set_slot(slot);
      *started.mutable_blocks() = MakeStarted(0, prompt, BlockRange(30, 8), 60).blocks();
      started.mutable_known_tokens()->Clear();
      started.mutable_known_tokens()->Add(prompt.begin(), prompt.end());
      started.mutable_known_tokens()->Add(trace.tokens.begin(), trace.tokens.end());
      num_left = started.known_tokens_size();
      start = true;
    }
    if (start) *step.add_started() = started;
    start = false;
    AddRow(step, slot, chunk);
    num_left -= std::min(num_left, chunk);
    const v1::StepResult result = worker.RunAccepted(step);
    if (result.token_ids_size() > 0) {
      trace.tokens.push_back(result.token_ids(0));
      num_left = 1;
    }
  }
  for (const SlotId used : {SlotId{4}, SlotId{1}})
    trace.logit_hashes.merge(std::map(worker.logit_hashes(used)));
  return trace;
}

TEST(CpuStepRunnerTest, ChunksOfThePromptDoNotChangeTokensOrLogits) {
  const Trace whole = RunSampled(13, std::nullopt, 12);
  EXPECT_EQ(whole.tokens.size(), 12u);
  EXPECT_EQ(whole.logit_hashes.size(), 12u);
  for (const uint32_t chunk : {1u, 2u, 3u, 5u, 12u, 60u}) {
    EXPECT_EQ(RunSampled(chunk, std::nullopt, 12), whole) << "chunk " << chunk;
  }
}

TEST(CpuStepRunnerTest, RestartAfterPreemptionDoesNotChangeTokensOrLogits) {
  const Trace undisturbed = RunSampled(13, std::nullopt, 12);
  for (const uint32_t restart_after : {1u, 4u, 11u}) {
    for (const uint32_t chunk : {3u, 60u}) {
      EXPECT_EQ(RunSampled(chunk, restart_after, 12), undisturbed) << restart_after << " " << chunk;
    }
  }
}

TEST(CpuStepRunnerTest, BatchMatesDoNotChangeTokens) {
  const Trace alone = RunSampled(13, std::nullopt, 8);
  TestWorker worker;
  v1::StepRequest step = worker.NextStep();
  for (const SlotId slot : {0u, 4u, 9u}) {
    v1::StartedSlot started =
        MakeStarted(slot, MakeTokens(slot == 4 ? 13 : 11, kVocabSize, slot == 4 ? 3 : slot),
                    BlockRange(slot * 6, 6), 24);
    *started.mutable_sampling() = RichSampling(24);
    if (slot != 4) started.mutable_sampling()->set_seed(slot);
    *step.add_started() = started;
    AddRow(step, slot, 13);
  }
  std::vector<TokenId> tokens;
  v1::StepResult result = worker.RunAccepted(step);
  for (int i = 0; i < 8; ++i) {
    ASSERT_THAT(result.sampled_slots(), ElementsAre(0, 4, 9));
    tokens.push_back(result.token_ids(1));
    step = worker.NextStep();
    step.set_repeat_rows(true);
    result = worker.RunAccepted(step);
  }
  EXPECT_EQ(tokens, alone.tokens);
}

TEST(CpuStepRunnerTest, MoreRowsAndTokensThanOnePassHolds) {
  FakeModelOptions options;
  options.max_step_tokens = 7;
  options.max_logits_rows = 2;
  TestWorker worker(options, {.max_slots = 16, .max_step_tokens = 7});
  std::vector<std::vector<TokenId>> prompts;
  std::vector<TokenId> expected;
  for (SlotId slot = 0; slot < 5; ++slot) {
    prompts.push_back(MakeTokens(3, kVocabSize, slot));
    worker.Prefill(MakeStarted(slot, prompts.back(), BlockRange(slot * 2, 2), 8));
    expected.push_back(GreedyReference(worker.model(), prompts.back(), 2)[1]);
  }
  v1::StepRequest step = worker.NextStep();
  for (SlotId slot = 0; slot < 5; ++slot) step.add_run_slots(slot);
  const uint64_t forwards_before = worker.model().num_forwards();
  const v1::StepResult result = worker.RunAccepted(step);
  EXPECT_THAT(result.sampled_slots(), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(Tokens(result), expected);
  EXPECT_EQ(worker.model().num_forwards() - forwards_before, 3u);
}

TEST(CpuStepRunnerTest, DecodeIterationsEqualSingleSteps) {
  const auto start = [](TestWorker& worker) {
    for (const SlotId slot : {0u, 1u, 2u}) {
      v1::StartedSlot started =
          MakeStarted(slot, MakeTokens(6, kVocabSize, slot), BlockRange(slot * 6, 6), 20);
      *started.mutable_sampling() = RichSampling(slot == 1 ? 10 : 20);
      started.mutable_sampling()->set_num_logprobs(slot == 2 ? 2 : -1);
      worker.Prefill(started);
    }
  };
  TestWorker single, multiple;
  start(single);
  start(multiple);
  std::map<SlotId, std::vector<TokenId>> expected;
  std::vector<std::string> expected_logprobs;
  for (int i = 0; i < 5; ++i) {
    v1::StepRequest step = single.NextStep();
    for (const SlotId slot : {0u, 1u, 2u}) step.add_run_slots(slot);
    const v1::StepResult result = single.RunAccepted(step);
    for (int row = 0; row < result.sampled_slots_size(); ++row) {
      expected[result.sampled_slots(row)].push_back(result.token_ids(row));
    }
    for (const v1::TokenLogprobs& entry : result.logprobs())
      expected_logprobs.push_back(entry.SerializeAsString());
  }
  v1::StepRequest step = multiple.NextStep();
  for (const SlotId slot : {0u, 1u, 2u}) step.add_run_slots(slot);
  step.set_decode_iterations(5);
  const v1::StepResult result = multiple.RunAccepted(step);
  EXPECT_THAT(result.sampled_slots(), ElementsAre(0, 1, 2));
  EXPECT_THAT(result.sampled_counts(),
              ElementsAre(5, 3, 5));  // slot 1 reaches its length on the way
  std::vector<TokenId> flat;
  for (const auto& [slot, tokens] : expected) flat.insert(flat.end(), tokens.begin(), tokens.end());
  EXPECT_EQ(Tokens(result), flat);
  EXPECT_THAT(result.stopped_slots(), ElementsAre(1));
  EXPECT_THAT(result.inert_slots(), IsEmpty());
  std::vector<std::string> logprobs;
  for (const v1::TokenLogprobs& entry : result.logprobs())
    logprobs.push_back(entry.SerializeAsString());
  EXPECT_EQ(logprobs, expected_logprobs);
}

TEST(CpuStepRunnerTest, GrownBlocksAreAppended) {
  TestWorker worker;
  const std::vector<TokenId> prompt = MakeTokens(4, kVocabSize, 9);
  std::vector<TokenId> generated = Tokens(worker.Prefill(MakeStarted(0, prompt, {5}, 16)));
  for (int i = 0; i < 6; ++i) {
    v1::StepRequest step = worker.NextStep();
    if (i == 0 || i == 4) {
      step.add_grown_slots(0);
      step.add_grown_counts(1);
      step.add_grown_blocks(i == 0 ? 3 : 9);
    }
    step.add_run_slots(0);
    generated.push_back(worker.RunAccepted(step).token_ids(0));
  }
  EXPECT_EQ(generated, GreedyReference(worker.model(), prompt, 7));
}

TEST(CpuStepRunnerTest, CachedPrefixIsReadFromSharedBlocks) {
  TestWorker worker;
  const std::vector<TokenId> prompt = MakeTokens(11, kVocabSize, 10);
  const TokenId first = worker.Prefill(MakeStarted(0, prompt, {0, 1, 2}, 16)).token_ids(0);
  v1::StartedSlot hit = MakeStarted(1, prompt, {0, 1, 20}, 16);
  hit.set_num_computed_tokens(8);
  const uint64_t computed = worker.model().num_tokens();
  EXPECT_EQ(worker.Prefill(hit).token_ids(0), first);
  EXPECT_EQ(worker.model().num_tokens() - computed, 3u);
}

TEST(CpuStepRunnerTest, OneStepReleasesAndStartsTheSameSlot) {
  TestWorker worker;
  worker.Prefill(MakeStarted(0, MakeTokens(4, kVocabSize, 11), {0, 1}, 8));
  const std::vector<TokenId> prompt = MakeTokens(7, kVocabSize, 12);
  v1::StepRequest step = worker.NextStep();
  step.add_released_slots(0);
  *step.add_started() = MakeStarted(0, prompt, {1, 0}, 8);
  AddRow(step, 0, 7);
  EXPECT_EQ(Tokens(worker.RunAccepted(step)), GreedyReference(worker.model(), prompt, 1));
}

TEST(CpuStepRunnerTest, AStepWithoutRowsFreesSlotsAndAnswersNothing) {
  TestWorker worker;
  worker.Prefill(MakeStarted(0, MakeTokens(4, kVocabSize, 11), {0, 1}, 8));
  worker.Prefill(MakeStarted(1, MakeTokens(4, kVocabSize, 12), {2, 3}, 8));
  const uint64_t num_forwards = worker.model().num_forwards();
  v1::StepRequest release = worker.NextStep();
  release.add_released_slots(0);
  v1::StepResult result = worker.RunAccepted(release);
  EXPECT_THAT(result.sampled_slots(), IsEmpty());
  EXPECT_THAT(result.inert_slots(), IsEmpty());
  EXPECT_EQ(worker.executor().last_step().num_live_slots, 1u);

  worker.Run(release);  // out of order: refused
  v1::StepRequest resync = worker.NextStep();
  resync.set_resync(true);
  worker.RunAccepted(resync);
  EXPECT_EQ(worker.executor().last_step().num_live_slots, 0u);
  EXPECT_EQ(worker.model().num_forwards(), num_forwards);
}

TEST(CpuStepRunnerTest, ARefusedStepAppliesNothingAndBlocksUntilResync) {
  TestWorker worker;
  const std::vector<TokenId> prompt = MakeTokens(5, kVocabSize, 16);
  worker.Prefill(MakeStarted(0, prompt, {0, 1}, 16));
  const uint64_t computed = worker.model().num_tokens();

  v1::StepRequest bad = worker.NextStep();
  bad.add_released_slots(0);
  bad.add_run_slots(15);
  v1::StepResult result = worker.Run(bad);
  EXPECT_EQ(result.refusal().code(), static_cast<uint32_t>(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(result.refusal().message(), HasSubstr("run_slots[0]: slot 15 is empty"));
  EXPECT_TRUE(worker.executor().last_step().refused);
  // Nothing was released.
  EXPECT_EQ(worker.executor().last_step().num_live_slots, 1u);

  v1::StepRequest good = worker.NextStep();
  good.add_run_slots(0);
  result = worker.Run(good);
  EXPECT_EQ(result.refusal().code(), static_cast<uint32_t>(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(result.refusal().message(), HasSubstr("resync"));
  EXPECT_EQ(worker.model().num_tokens(), computed);

  // A resync that is itself wrong changes nothing: the slot is gone in its view.
  v1::StepRequest wrong_resync = worker.NextStep();
  wrong_resync.set_resync(true);
  wrong_resync.add_run_slots(0);
  EXPECT_TRUE(worker.Run(wrong_resync).has_refusal());

  v1::StepRequest resync = worker.NextStep();
  resync.set_resync(true);
  *resync.add_started() = MakeStarted(2, prompt, {0, 1}, 16);
  AddRow(resync, 2, 5);
  EXPECT_EQ(Tokens(worker.RunAccepted(resync)), GreedyReference(worker.model(), prompt, 1));
  EXPECT_EQ(worker.executor().last_step().num_live_slots, 1u);
  worker.Decode(2);
}

TEST(CpuStepRunnerTest, LeasesStartEmptyAndStepsOutsideOneAreRefused) {
  TestWorker worker;
  worker.Prefill(MakeStarted(0, MakeTokens(5, kVocabSize, 17), {0, 1}, 16));
  worker.executor().EndLease();
  v1::StepResult result;
  worker.executor().Execute(worker.NextStep(), &result);
  EXPECT_THAT(result.refusal().message(), HasSubstr("no lease"));

  worker.executor().BeginLease(kEpoch + 1);
  StepSequence steps(kEpoch + 1);
  v1::StepRequest step = steps.Next();
  step.add_run_slots(0);
  worker.executor().Execute(step, &result);
  EXPECT_THAT(result.refusal().message(), HasSubstr("slot 0 is empty"));
}

TEST(CpuStepRunnerTest, CountsRowsByKindAndReportsTimes) {
  TestWorker worker;
  v1::StepResult result = worker.Prefill(MakeStarted(0, MakeTokens(5, kVocabSize, 18), {0, 1}, 16));
  EXPECT_EQ(worker.executor().last_step().num_prefill_rows, 1u);
  EXPECT_EQ(worker.executor().last_step().num_decode_rows, 0u);
  EXPECT_EQ(result.timings().idle_ns(), 0u);
  EXPECT_GT(result.timings().compute_ns(), 0u);
  result = worker.Decode(0);
  EXPECT_EQ(worker.executor().last_step().num_prefill_rows, 0u);
  EXPECT_EQ(worker.executor().last_step().num_decode_rows, 1u);
  EXPECT_GT(result.timings().idle_ns(), 0u);
}

}  // namespace
}  // namespace lockstep::worker
