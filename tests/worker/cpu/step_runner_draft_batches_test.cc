// Drafts of rows that share a step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/fake_forward_model.h"
#include "tests/worker/steps/step_messages.h"
#include "tests/worker/steps/test_worker.h"
#include "tests/worker/steps/toy_drafters.h"

namespace lockstep::worker {
namespace {

using ::lockstep::testing::AddRow;
using ::lockstep::testing::AnyDrafter;
using ::lockstep::testing::BlockRange;
using ::lockstep::testing::FakeModelOptions;
using ::lockstep::testing::kVocabSize;
using ::lockstep::testing::MakeStarted;
using ::lockstep::testing::MakeTokens;
using ::lockstep::testing::TestWorker;
using ::lockstep::testing::Tokens;
using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr uint32_t kDraftsOfARow = 4;

// A step of eight rows and a prompt, each of the rows to draft four tokens.
v1::StepResult RunBatch(const FakeModelOptions& options, Drafter& drafter, uint64_t* num_passes) {
  TestWorker worker(options, {.max_slots = 16, .max_draft_tokens = kDraftsOfARow}, &drafter);
  for (SlotId slot = 0; slot < 8; ++slot) {
    worker.Prefill(MakeStarted(slot, MakeTokens(3, kVocabSize, slot), BlockRange(4 * slot, 4), 16));
  }
  const uint64_t before = worker.model().num_forwards();
  v1::StepRequest step = worker.NextStep();
  *step.add_started() = MakeStarted(9, MakeTokens(6, kVocabSize, 9), BlockRange(40, 4), 16);
  for (SlotId slot = 0; slot < 8; ++slot) {
    AddRow(step, slot, 1);
    step.add_draft_limits(kDraftsOfARow);
  }
  AddRow(step, 9, 6);
  step.add_draft_limits(0);
  v1::StepResult result = worker.RunAccepted(step);
  *num_passes = worker.model().num_forwards() - before;
  return result;
}

TEST(CpuStepRunnerDraftsTest, DraftsTakeTheRoomThatIsLeftInOnePass) {
  AnyDrafter drafter([](const Slot&, uint32_t limit, std::vector<TokenId>& drafts) {
    drafts.assign(limit, TokenId{1});
  });
  uint64_t num_passes = 0;
  FakeModelOptions options;
  options.max_logits_rows = 64;
  const auto drafted = [&] {
    const v1::StepResult result = RunBatch(options, drafter, &num_passes);
    EXPECT_THAT(result.sampled_slots(), SizeIs(9));
    uint32_t sum = 0;
    for (const uint32_t count : result.drafted_counts()) sum += count;
    return sum;
  };
  EXPECT_EQ(drafted(), 32u);
  EXPECT_EQ(num_passes, 1u);
  options.max_step_tokens = 20;
  EXPECT_EQ(drafted(), 6u) << "14 tokens must be computed";
  EXPECT_EQ(num_passes, 1u);
  options.max_step_tokens = 14;
  EXPECT_EQ(drafted(), 0u);
  EXPECT_EQ(num_passes, 1u);
  options.max_step_tokens = 64;
  options.max_logits_rows = 12;
  EXPECT_EQ(drafted(), 3u) << "9 rows of logits are needed";
  EXPECT_EQ(num_passes, 1u);
}

TEST(CpuStepRunnerDraftsTest, BatchMatesOfARowThatWaitsGoOn) {
  TestWorker worker;
  for (const SlotId slot : {0u, 1u}) {
    worker.Prefill(MakeStarted(slot, MakeTokens(5, kVocabSize, 4), BlockRange(8 * slot, 4), 16));
  }
  worker.executor().set_may_choose([](SlotId slot, uint32_t) { return slot != 0; });
  v1::StepRequest step = worker.NextStep();
  step.add_run_slots(0);
  step.add_run_slots(1);
  const v1::StepResult mate = worker.RunAccepted(step);
  EXPECT_THAT(mate.sampled_slots(), ElementsAre(1));
  worker.executor().set_may_choose(nullptr);
  EXPECT_EQ(Tokens(worker.Decode(0)), Tokens(mate)) << "the same prompt";
}

}  // namespace
}  // namespace lockstep::worker
