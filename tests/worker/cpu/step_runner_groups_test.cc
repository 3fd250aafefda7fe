// Sequences in a model with two KV groups. The second one has a window of ten tokens, in blocks of
// four: the token after n full blocks reads the last three of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/fake_forward_model.h"
#include "tests/worker/steps/step_messages.h"
#include "tests/worker/steps/test_worker.h"

namespace lockstep::worker {
namespace {

using ::lockstep::testing::AddGroupBlocks;
using ::lockstep::testing::AddGrowth;
using ::lockstep::testing::AddRow;
using ::lockstep::testing::BlockRange;
using ::lockstep::testing::FakeModelWithWindow;
using ::lockstep::testing::GreedyReference;
using ::lockstep::testing::kVocabSize;
using ::lockstep::testing::MakeStarted;
using ::lockstep::testing::MakeTokens;
using ::lockstep::testing::TestWorker;
using ::lockstep::testing::Tokens;
using ::testing::HasSubstr;

constexpr uint32_t kMaxTokens = 64;

v1::StartedSlot Started(SlotId slot, const std::vector<TokenId>& tokens,
                        const std::vector<BlockId>& blocks, uint32_t first,
                        const std::vector<BlockId>& window_blocks) {
  v1::StartedSlot started = MakeStarted(slot, tokens, blocks, kMaxTokens);
  AddGroupBlocks(started, first, window_blocks);
  return started;
}

// Decodes with four window blocks in turn, as a router gives them: a block comes back when the
// window has left it.
TEST(CpuStepRunnerGroupsTest, BlocksBehindTheWindowComeBackInTheSameTable) {
  TestWorker worker(FakeModelWithWindow());
  const std::vector<TokenId> prompt = MakeTokens(4, kVocabSize, 1);
  std::vector<TokenId> generated =
      Tokens(worker.Prefill(Started(0, prompt, BlockRange(0, 16), 0, {20, 3, 7, 11})));
  const std::vector<BlockId> window_blocks = {20, 3, 7, 11};
  for (uint32_t computed = 4; computed < 60; ++computed) {
    v1::StepRequest step = worker.NextStep();
    if (computed >= 16 && computed % 4 == 0) {
      AddGrowth(step, 0, 1, {window_blocks[computed / 4 % 4]});
    }
    step.add_run_slots(0);
    generated.push_back(worker.RunAccepted(step).token_ids(0));
  }
  EXPECT_EQ(generated, GreedyReference(worker.model(), prompt, 57));
}

TEST(CpuStepRunnerGroupsTest, ChunksOfAPromptGrowInTheWindowOnly) {
  TestWorker worker(FakeModelWithWindow());
  const std::vector<TokenId> prompt = MakeTokens(40, kVocabSize, 2);
  v1::StepRequest step = worker.NextStep();
  *step.add_started() = Started(0, prompt, BlockRange(0, 16), 0, BlockRange(4, 5));
  AddRow(step, 0, 20);
  worker.RunAccepted(step);
  step = worker.NextStep();
  AddGrowth(step, 0, 1, {0, 1, 2, 4, 5});  // 4 and 5 lie behind the window of token 20
  AddRow(step, 0, 20);
  EXPECT_EQ(Tokens(worker.RunAccepted(step)), GreedyReference(worker.model(), prompt, 1));
}

TEST(CpuStepRunnerGroupsTest, EachListOfGrowthGoesToItsSlotAndGroup) {
  TestWorker worker(FakeModelWithWindow());
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::vector<TokenId>> generated;
  for (const SlotId slot : {0u, 1u}) {
    prompts.push_back(MakeTokens(8, kVocabSize, 9 + slot));
    generated.push_back(Tokens(worker.Prefill(
        Started(slot, prompts[slot], BlockRange(10 * slot, 2), 0, BlockRange(5 * slot, 2)))));
  }
  v1::StepRequest step = worker.NextStep();
  AddGrowth(step, 0, 0, {30});
  AddGrowth(step, 0, 1, {20});
  AddGrowth(step, 1, 1, {21});
  AddGrowth(step, 1, 0, {31});
  AddRow(step, 0, 1);
  AddRow(step, 1, 1);
  const v1::StepResult result = worker.RunAccepted(step);
  for (const SlotId slot : {0u, 1u}) {
    generated[slot].push_back(result.token_ids(static_cast<int>(slot)));
    EXPECT_EQ(generated[slot], GreedyReference(worker.model(), prompts[slot], 2));
  }
}

// What a prefix hit in the middle of a text is: all blocks of group 0, a window of those of
// group 1.
TEST(CpuStepRunnerGroupsTest, ASequenceResumesBehindAWindow) {
  TestWorker worker(FakeModelWithWindow());
  const std::vector<TokenId> prompt = MakeTokens(34, kVocabSize, 3);
  const std::vector<TokenId> expected =
      Tokens(worker.Prefill(Started(0, prompt, BlockRange(0, 10), 0, BlockRange(0, 10))));
  // Another sequence overwrites the blocks that lie behind the window of token 32.
  worker.Prefill(Started(1, MakeTokens(20, kVocabSize, 4), BlockRange(20, 5), 0, BlockRange(0, 5)));

  v1::StartedSlot hit = Started(2, prompt, {0, 1, 2, 3, 4, 5, 6, 7, 30}, 5, {5, 6, 7, 20});
  hit.set_num_computed_tokens(32);
  EXPECT_EQ(Tokens(worker.Prefill(hit)), expected);
}

TEST(CpuStepRunnerGroupsTest, IterationsWriteEveryGroup) {
  TestWorker worker(FakeModelWithWindow());
  const std::vector<TokenId> prompt = MakeTokens(15, kVocabSize, 5);
  std::vector<TokenId> generated =
      Tokens(worker.Prefill(Started(0, prompt, BlockRange(0, 8), 0, BlockRange(9, 8))));
  for (int i = 0; i < 2; ++i) {
    v1::StepRequest step = worker.NextStep();
    step.add_run_slots(0);
    step.set_decode_iterations(8);
    for (const TokenId token : Tokens(worker.RunAccepted(step))) generated.push_back(token);
  }
  EXPECT_EQ(generated, GreedyReference(worker.model(), prompt, 17));
}

// The faults that the fake model is there to find: they would pass the rules of a step.
class WrongWindowDeathTest : public ::testing::Test {
 protected:
  // 33 tokens are computed in window blocks 0 to 8.
  WrongWindowDeathTest() {
    worker_.Prefill(
        Started(0, MakeTokens(33, kVocabSize, 6), BlockRange(0, 10), 0, BlockRange(0, 10)));
  }
  void OverwriteWindowBlock(BlockId block) {
    worker_.Prefill(Started(1, MakeTokens(3, kVocabSize, 7), {40}, 0, {block}));
  }

  TestWorker worker_{FakeModelWithWindow()};
};

TEST_F(WrongWindowDeathTest, ABlockThatWasFreedOneBlockEarly) {
  OverwriteWindowBlock(5);  // token 33 reads positions 24 to 33
  EXPECT_EQ(worker_.Decode(0).token_ids_size(), 1);
  OverwriteWindowBlock(6);
  EXPECT_DEATH(worker_.Decode(0), "group 1: the KV at position 25 is not of the text");
}

TEST_F(WrongWindowDeathTest, AHitWhoseBlocksLieOnePlaceTooEarly) {
  v1::StartedSlot hit =
      Started(2, MakeTokens(33, kVocabSize, 6), {0, 1, 2, 3, 4, 5, 6, 7, 30}, 4, {5, 6, 7, 8, 9});
  hit.set_num_computed_tokens(32);
  EXPECT_DEATH(worker_.Prefill(hit), "group 1: the KV at position 23 is not of the text");
}

TEST_F(WrongWindowDeathTest, AHitOnTheSameTokensOfAnotherText) {
  std::vector<TokenId> other = MakeTokens(33, kVocabSize, 6);
  other.front() = (other.front() + 1) % kVocabSize;
  worker_.Prefill(Started(1, other, BlockRange(40, 10), 0, BlockRange(10, 10)));
  v1::StartedSlot hit =
      Started(2, MakeTokens(33, kVocabSize, 6), {0, 1, 2, 3, 4, 5, 6, 7, 30}, 5, {15, 16, 17, 20});
  hit.set_num_computed_tokens(32);
  EXPECT_DEATH(worker_.Prefill(hit), "group 1: the KV at position 23 is not of the text");
}

TEST(CpuStepRunnerGroupsTest, ASlotThatDoesNotGrowInAGroupIsRefused) {
  TestWorker worker(FakeModelWithWindow());
  worker.Prefill(Started(0, MakeTokens(8, kVocabSize, 8), BlockRange(0, 3), 0, {2, 1}));
  v1::StepRequest step = worker.NextStep();
  step.add_run_slots(0);
  EXPECT_THAT(worker.Run(step).refusal().message(),
              HasSubstr("group 1: slot 0 reaches 9 tokens, its 2 blocks hold 8"));
}

}  // namespace
}  // namespace lockstep::worker
