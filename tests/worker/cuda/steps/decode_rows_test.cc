#include "worker/cuda/steps/decode_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/slots/slot_state.h"
#include "tests/worker/steps/step_messages.h"

namespace lockstep::worker {
namespace {

using ::lockstep::testing::BlockRange;
using ::lockstep::testing::GreedySampling;
using ::lockstep::testing::MakeStarted;
using ::lockstep::testing::MakeTokens;
using ::testing::ElementsAre;

constexpr SlotId kNone = kernels::kNoSlot;

// A slot that decodes: all but the last of its `num_known` tokens are computed.
Slot Decoding(uint32_t num_known, uint32_t max_total_tokens, BlockId first_block = 0) {
  Slot slot(/*num_groups=*/1);
  v1::StartedSlot started =
      MakeStarted(0, MakeTokens(num_known, 64, 1), BlockRange(first_block, 64), max_total_tokens);
  started.set_num_computed_tokens(num_known - 1);
  slot.Start(started);
  return slot;
}

TEST(DecodeRowsTest, DraftsFollowTheirSequence) {
  DecodeRows rows(1000);
  const Slot slot = Decoding(20, 100);
  rows.AddRunning(4, slot, 0);
  rows.AddRunning(7, slot, 2);
  rows.AddPadding();
  rows.AddEnded(2);
  rows.AddRunning(1, slot, 1);
  EXPECT_EQ(rows.num_rows(), 8);
  rows.PadTo(10);
  EXPECT_EQ(rows.num_rows(), 8);
  EXPECT_THAT(rows.slots(), ElementsAre(4, 7, 7, 7, kNone, 2, 1, 1, kNone, kNone));
  EXPECT_THAT(rows.draft_numbers(), ElementsAre(0, 0, 1, 2, 0, 0, 0, 1, 0, 0));
  EXPECT_TRUE(rows.has_drafts());
  rows.Clear();
  EXPECT_EQ(rows.num_rows(), 0);
  EXPECT_FALSE(rows.has_drafts());
  rows.AddRunning(4, slot, 0);
  EXPECT_FALSE(rows.has_drafts());
}

TEST(DecodeRowsTest, KeysAreCountedUpToTheLastDraftThatMayBeComputed) {
  DecodeRows rows(1000);
  rows.AddEnded(1);
  EXPECT_EQ(rows.max_keys(), 0);
  rows.AddRunning(0, Decoding(20, 100), 0);
  EXPECT_EQ(rows.max_keys(), 20);
  rows.AddRunning(1, Decoding(20, 100), 3);
  EXPECT_EQ(rows.max_keys(), 23);
  Slot slot = Decoding(20, 100);
  slot.ExpectDrafts(4);
  rows.AddRunning(2, slot, 3);
  EXPECT_EQ(rows.max_keys(), 27);
  // The last of 100 tokens is never computed.
  Slot nearly_done = Decoding(97, 100);
  nearly_done.ExpectDrafts(4);
  rows.AddRunning(3, nearly_done, 3);
  EXPECT_EQ(rows.max_keys(), 99);
  EXPECT_EQ(MaxKeysOf(nearly_done, 0), 99u);
  EXPECT_EQ(MaxKeysOf(slot, 0), 24u);
}

TEST(DecodeRowsTest, RowsOfOneSequenceShareItsKeys) {
  DecodeRows rows(1000);
  rows.AddRunning(0, Decoding(600, 1000, 0), 0);
  rows.AddRunning(1, Decoding(600, 1000, 100), 0);
  EXPECT_FALSE(rows.rows_share());
  rows.Clear();
  rows.AddRunning(0, Decoding(600, 1000), 1);
  EXPECT_TRUE(rows.rows_share());
}

TEST(DecodeRowsTest, WhatOneSequenceWantsDecidesForAll) {
  DecodeRows rows(1000);
  EXPECT_TRUE(rows.all_plain_greedy());
  EXPECT_FALSE(rows.describes());
  rows.AddRunning(0, Decoding(20, 100), 0);
  EXPECT_TRUE(rows.all_plain_greedy());
  Slot sampled(1);
  v1::StartedSlot started = MakeStarted(0, MakeTokens(20, 64, 1), BlockRange(0, 8), 100);
  started.mutable_sampling()->set_temperature(1);
  started.mutable_sampling()->set_num_logprobs(0);
  sampled.Start(started);
  rows.AddRunning(1, sampled, 0);
  EXPECT_FALSE(rows.all_plain_greedy());
  EXPECT_TRUE(rows.describes());
}

TEST(DecodeRowsTest, DraftsEndBeforeTheLastToken) {
  EXPECT_EQ(MaxDraftsOf(Decoding(20, 100), 4), 4u);
  EXPECT_EQ(MaxDraftsOf(Decoding(96, 100), 4), 3u);
  EXPECT_EQ(MaxDraftsOf(Decoding(99, 100), 4), 0u);
  EXPECT_EQ(MaxDraftsOf(Decoding(20, 100), 0), 0u);
}

TEST(SlotTest, DraftsCountOnceTheyAreReported) {
  Slot slot = Decoding(20, 100);
  slot.ExpectDrafts(3);
  slot.ExpectDrafts(2);
  EXPECT_EQ(slot.num_known(), 20u);
  EXPECT_EQ(slot.max_unreported(), 5u);
  slot.TakeDrafts(3, 1);
  EXPECT_EQ(slot.num_known(), 21u);
  EXPECT_EQ(slot.num_computed(), 20u);
  EXPECT_EQ(slot.max_unreported(), 2u);
  slot.TakeDrafts(2, 0);
  EXPECT_EQ(slot.num_known(), 21u);
  EXPECT_EQ(slot.max_unreported(), 0u);
  // Another sequence begins.
  slot.ExpectDrafts(3);
  slot.Start(MakeStarted(0, MakeTokens(7, 64, 1), BlockRange(0, 1), 10));
  EXPECT_EQ(slot.max_unreported(), 0u);
  EXPECT_EQ(slot.num_known(), 7u);
}

}  // namespace
}  // namespace lockstep::worker
