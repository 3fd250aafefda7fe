#include "worker/steps/step_validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/worker/steps/bad_steps.h"
#include "tests/worker/steps/step_messages.h"

namespace lockstep::worker {
namespace {

using ::lockstep::testing::AddGroupBlocks;
using ::lockstep::testing::AddGrowth;
using ::lockstep::testing::AddRow;
using ::lockstep::testing::BadStep;
using ::lockstep::testing::BlockRange;
using ::lockstep::testing::kBadStepVocabSize;
using ::lockstep::testing::kBadStepWindowBlocks;
using ::lockstep::testing::MakeStarted;
using ::lockstep::testing::MakeTokens;
using ::testing::HasSubstr;

StepBounds Bounds(bool with_window = false) {
  ForwardModelInfo info;
  info.vocab_size = kBadStepVocabSize;
  info.max_context_tokens = 64;
  info.max_step_tokens = 32;
  info.max_logits_rows = 8;
  info.block_size_tokens = 4;
  info.kv_groups.front().num_blocks = 40;
  if (with_window) {
    info.kv_groups.push_back({.num_blocks = kBadStepWindowBlocks, .window_tokens = 6, .dtype = {}});
  }
  return StepBounds(
      info, {.max_slots = 8, .max_logprobs = 5, .max_decode_iterations = 4, .max_draft_tokens = 3});
}

// Step 5 of a lease that applied step 4. Slot 0 decodes in blocks 0 to 2 (9 of its 10 known tokens
// are computed), slot 1 has 6 of 6 prompt tokens to compute in blocks 3 and 4, slot 2 is inert; the
// step before ran slots 0 and 1.
class StepValidatorTest : public ::testing::Test {
 protected:
  StepValidatorTest() {
    v1::StepRequest setup;
    v1::StartedSlot decoding =
        MakeStarted(0, MakeTokens(10, kBadStepVocabSize, 1), BlockRange(0, 3), 20);
    decoding.set_num_computed_tokens(9);
    *setup.add_started() = decoding;
    *setup.add_started() =
        MakeStarted(1, MakeTokens(6, kBadStepVocabSize, 2), BlockRange(3, 2), 20);
    *setup.add_started() =
        MakeStarted(2, MakeTokens(6, kBadStepVocabSize, 3), BlockRange(5, 2), 20);
    setup.add_run_slots(0);
    setup.add_run_slots(1);
    table_.Apply(setup);
    table_[2].MakeInert();
  }

  static v1::StepRequest Step() {
    v1::StepRequest step;
    step.set_epoch(3);
    step.set_step_id(5);
    return step;
  }
  absl::Status Check(const v1::StepRequest& step) { return validator_.Check(step, order_, table_); }

  StepOrder order_{.epoch = 3, .last_step_id = 4, .refusing = false};
  SlotTable table_{8, /*num_groups=*/1};
  StepValidator validator_{Bounds()};
};

TEST_F(StepValidatorTest, EveryRuleRefusesWithItsField) {
  for (const std::vector<BadStep>& cases :
       {lockstep::testing::BadStarts(), lockstep::testing::BadStartedBlocks(),
        lockstep::testing::BadSampling(), lockstep::testing::BadTokenLists(),
        lockstep::testing::BadReleases(), lockstep::testing::BadGrowth(),
        lockstep::testing::BadRows(), lockstep::testing::BadDrafts(),
        lockstep::testing::BadRepeats(), lockstep::testing::BadOrder()}) {
    for (const BadStep& bad : cases) {
      v1::StepRequest step = Step();
      *step.add_started() =
          MakeStarted(5, MakeTokens(6, kBadStepVocabSize, 4), BlockRange(20, 2), 20);
      AddRow(step, 5, 6);
      ASSERT_TRUE(Check(step).ok()) << Check(step);
      bad.spoil(step);
      const absl::Status status = Check(step);
      EXPECT_EQ(status.code(), bad.code) << bad.name << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(bad.message)) << bad.name;
    }
  }
}

TEST_F(StepValidatorTest, BordersAreInside) {
  v1::StepRequest step = Step();
  v1::StartedSlot started =
      MakeStarted(7, MakeTokens(63, kBadStepVocabSize, 5), BlockRange(24, 16), 64);
  started.set_num_computed_tokens(40);
  started.set_first_prompt_logprob(41);
  v1::SlotSampling& sampling = *started.mutable_sampling();
  sampling.set_num_prompt_logprobs(5);
  sampling.set_num_logprobs(5);
  sampling.set_min_p(1);
  sampling.set_top_k(~0u);
  sampling.set_min_total_tokens(~0u);
  sampling.add_stop_token_ids(kBadStepVocabSize - 1);
  *step.add_started() = started;
  AddRow(step, 7, 23);
  AddRow(step, 0, 3);
  AddRow(step, 1, 6);
  EXPECT_TRUE(Check(step).ok()) << Check(step);
}

TEST_F(StepValidatorTest, WhatTheMessageChangesCounts) {
  // Released and started again, grown in the same step, with blocks that the former sequence had.
  v1::StepRequest step = Step();
  step.add_released_slots(0);
  *step.add_started() = MakeStarted(0, MakeTokens(9, kBadStepVocabSize, 6), {2, 1}, 20);
  step.add_grown_slots(0);
  step.add_grown_counts(1);
  step.add_grown_blocks(0);
  AddRow(step, 0, 9);
  EXPECT_TRUE(Check(step).ok()) << Check(step);
}

TEST_F(StepValidatorTest, InertRowsAndRowsWithoutAnyCostNothing) {
  v1::StepRequest step = Step();
  step.add_run_slots(2);
  step.add_run_slots(0);
  step.set_decode_iterations(3);
  EXPECT_TRUE(Check(step).ok()) << Check(step);
  EXPECT_TRUE(Check(Step()).ok());
}

TEST_F(StepValidatorTest, IterationsEndWithTheSequence) {
  // Of 4 iterations only 2 fit before max_total_tokens: positions 9 and 10, so 11 tokens of KV.
  v1::StartedSlot started =
      MakeStarted(6, MakeTokens(10, kBadStepVocabSize, 7), BlockRange(20, 3), 12);
  started.set_num_computed_tokens(9);
  v1::StepRequest step = Step();
  *step.add_started() = started;
  step.add_run_slots(6);
  step.set_decode_iterations(4);
  EXPECT_TRUE(Check(step).ok()) << Check(step);
}

TEST_F(StepValidatorTest, DraftsEndWithTheSequence) {
  // Of 3 drafts only 1 fits before max_total_tokens: positions 9 and 10, so 11 tokens of KV.
  v1::StartedSlot started = MakeStarted(6, MakeTokens(10, kBadStepVocabSize, 7), {20, 21, 22}, 12);
  started.set_num_computed_tokens(9);
  v1::StepRequest step = Step();
  *step.add_started() = started;
  step.add_run_slots(6);
  step.add_run_slots(2);  // inert
  step.add_draft_limits(3);
  step.add_draft_limits(3);
  EXPECT_TRUE(Check(step).ok()) << Check(step);
}

// Slot 0 has blocks for 12 tokens, and computes the tenth next, or a later one.
TEST_F(StepValidatorTest, BlocksCoverWhatRowsUnderWayMayKeep) {
  v1::StepRequest step = Step();
  step.add_run_slots(0);
  table_[0].ExpectDrafts(2);
  EXPECT_TRUE(Check(step).ok()) << Check(step);
  step.add_draft_limits(1);
  EXPECT_THAT(std::string(Check(step).message()), HasSubstr("run_slots[0]"));
  step.clear_draft_limits();
  table_[0].ExpectDrafts(1);
  EXPECT_THAT(std::string(Check(step).message()), HasSubstr("run_slots[0]"));
  table_[0].TakeDrafts(2, 0);
  EXPECT_TRUE(Check(step).ok()) << Check(step);
}

TEST_F(StepValidatorTest, RepeatedRowsKeepTheirDraftLimits) {
  v1::StepRequest setup;
  setup.add_run_slots(0);
  setup.add_draft_limits(3);
  table_.Apply(setup);
  v1::StepRequest step = Step();
  step.set_repeat_rows(true);
  EXPECT_THAT(std::string(Check(step).message()), HasSubstr("slot 0 reaches 13 tokens"));
  setup.set_draft_limits(0, 2);
  table_.Apply(setup);
  EXPECT_TRUE(Check(step).ok()) << Check(step);
}

TEST_F(StepValidatorTest, AWorkerWithoutDraftsRefusesTheirLimits) {
  StepBounds bounds = Bounds();
  bounds.max_draft_tokens = 0;
  StepValidator validator(bounds);
  v1::StepRequest step = Step();
  step.add_run_slots(0);
  step.add_draft_limits(0);
  const absl::Status status = validator.Check(step, order_, table_);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("draft_limits"));
}

TEST_F(StepValidatorTest, WhileRefusingOnlyAResyncIsTaken) {
  order_.refusing = true;
  EXPECT_EQ(Check(Step()).code(), absl::StatusCode::kFailedPrecondition);
  v1::StepRequest resync = Step();
  resync.set_resync(true);
  EXPECT_TRUE(Check(resync).ok());
  resync.set_step_id(9);  // refused steps used ids up
  EXPECT_TRUE(Check(resync).ok());
}

TEST_F(StepValidatorTest, WithoutALeaseNothingIsTaken) {
  order_ = {};
  v1::StepRequest step = Step();
  step.set_epoch(0);
  step.set_step_id(1);
  EXPECT_EQ(Check(step).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StepValidatorTest, IsAPureFunction) {
  v1::StepRequest good = Step();
  AddRow(good, 0, 1);
  v1::StepRequest bad = good;
  bad.add_run_slots(6);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Check(good).ok());
    EXPECT_FALSE(Check(bad).ok());
  }
}

// The same slots in a model whose second group has a window of six tokens. There slot 0 has blocks
// 9, 7 and 8. Its token 9 reads positions 4 to 9, so block 9 lies behind the window.
class GroupsValidatorTest : public ::testing::Test {
 protected:
  GroupsValidatorTest() {
    v1::StepRequest setup;
    v1::StartedSlot decoding =
        MakeStarted(0, MakeTokens(10, kBadStepVocabSize, 1), BlockRange(0, 3), 20);
    AddGroupBlocks(decoding, 0, {9, 7, 8});
    decoding.set_num_computed_tokens(9);
    *setup.add_started() = decoding;
    table_.Apply(setup);
  }

  // Good, starting slot 5.
  static v1::StepRequest Step() {
    v1::StepRequest step;
    step.set_epoch(3);
    step.set_step_id(5);
    *step.add_started() =
        MakeStarted(5, MakeTokens(6, kBadStepVocabSize, 4), BlockRange(20, 2), 20);
    AddGroupBlocks(*step.mutable_started(0), 0, {4, 5});
    AddRow(step, 5, 6);
    return step;
  }
  absl::Status Check(const v1::StepRequest& step) { return validator_.Check(step, order_, table_); }

  const StepOrder order_{.epoch = 3, .last_step_id = 4, .refusing = false};
  SlotTable table_{8, /*num_groups=*/2};
  StepValidator validator_{Bounds(/*with_window=*/true)};
};

TEST_F(GroupsValidatorTest, EveryRuleRefusesWithItsField) {
  for (const std::vector<BadStep>& cases :
       {lockstep::testing::BadGroupStarts(), lockstep::testing::BadGroupGrowth()}) {
    for (const BadStep& bad : cases) {
      v1::StepRequest step = Step();
      ASSERT_TRUE(Check(step).ok()) << Check(step);
      bad.spoil(step);
      const absl::Status status = Check(step);
      EXPECT_EQ(status.code(), bad.code) << bad.name << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(bad.message)) << bad.name;
    }
  }
}

TEST_F(GroupsValidatorTest, ATableMayBeginWhereTheWindowDoes) {
  v1::StepRequest step = Step();
  v1::StartedSlot started =
      MakeStarted(7, MakeTokens(62, kBadStepVocabSize, 5), BlockRange(20, 16), 64);
  started.set_num_computed_tokens(13);  // token 13 reads positions 8 to 13
  AddGroupBlocks(started, 2, BlockRange(0, 7));
  *step.add_started() = started;
  AddRow(step, 7, 23);  // up to position 35
  EXPECT_TRUE(Check(step).ok()) << Check(step);
  step.mutable_started(1)->mutable_group_blocks(0)->mutable_blocks()->RemoveLast();
  EXPECT_THAT(std::string(Check(step).message()),
              HasSubstr("group 1: slot 7 reaches 36 tokens, its 8 blocks hold 32"));
}

TEST_F(GroupsValidatorTest, SlotsGrowInEveryGroupAtOnce) {
  v1::StepRequest step = Step();
  AddGrowth(step, 0, 0, {39});  // group 0 has more blocks than group 1
  AddGrowth(step, 0, 1, {11});
  AddGrowth(step, 5, 1, {0});
  EXPECT_TRUE(Check(step).ok()) << Check(step);
}

TEST_F(GroupsValidatorTest, ABlockBehindTheWindowMayComeBack) {
  v1::StepRequest step = Step();
  AddGrowth(step, 0, 1, {9});
  EXPECT_TRUE(Check(step).ok()) << Check(step);
  step.set_grown_blocks(0, 7);
  EXPECT_FALSE(Check(step).ok()) << "token 9 reads it";
}

}  // namespace
}  // namespace lockstep::worker
