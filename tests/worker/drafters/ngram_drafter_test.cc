#include "worker/drafters/ngram_drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "worker/steps/slot.h"

namespace lockstep::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

void Start(Slot& slot, const std::vector<TokenId>& tokens) {
  v1::StartedSlot message;
  message.mutable_known_tokens()->Assign(tokens.begin(), tokens.end());
  message.set_num_prompt_tokens(static_cast<uint32_t>(tokens.size()));
  slot.Start(message);
}

Slot SlotWith(const std::vector<TokenId>& tokens) {
  Slot slot(/*num_groups=*/1);
  Start(slot, tokens);
  return slot;
}

std::vector<TokenId> Drafts(Drafter& drafter, const Slot& slot, uint32_t limit = 4) {
  std::vector<TokenId> drafts;
  drafter.Draft(slot, limit, drafts);
  return drafts;
}

// Of a sequence and a drafter of their own.
std::vector<TokenId> DraftsFor(const std::vector<TokenId>& text, uint32_t limit = 4,
                               const NgramDrafterOptions& options = {}) {
  NgramDrafter drafter(options);
  return Drafts(drafter, SlotWith(text), limit);
}

std::vector<TokenId> CountedTokens(uint32_t first, uint32_t count) {
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

// What the drafter promises, without an index.
std::vector<TokenId> SlowDrafts(const std::vector<TokenId>& text, uint32_t min_repeat,
                                uint32_t limit) {
  for (size_t length = text.size() - 1; length >= min_repeat; --length) {
    for (size_t end = length; end < text.size(); ++end) {
      if (!std::equal(text.end() - static_cast<ptrdiff_t>(length), text.end(),
                      text.begin() + static_cast<ptrdiff_t>(end - length))) {
        continue;
      }
      std::vector<TokenId> longer = text;
      while (longer.size() < text.size() + limit) {
        longer.push_back(longer[end + longer.size() - text.size()]);
      }
      return {longer.begin() + static_cast<ptrdiff_t>(text.size()), longer.end()};
    }
  }
  return {};
}

TEST(NgramDrafterTest, DraftsWhatFollowedTheLongestRepeat) {
  EXPECT_THAT(DraftsFor({1, 2, 3, 4, 5, 6, 7, 1, 2}), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(DraftsFor({2, 3, 9, 9, 1, 2, 3, 8, 8, 1, 2, 3}, 2), ElementsAre(8, 8))
      << "three tokens repeat at their second place, two at their first";
}

TEST(NgramDrafterTest, IsSilentWithoutARepeat) {
  EXPECT_THAT(DraftsFor({1}), IsEmpty());
  EXPECT_THAT(DraftsFor({1, 2, 3, 4, 5}), IsEmpty());
  EXPECT_THAT(DraftsFor({1, 2, 3, 4, 2}), IsEmpty()) << "one token says little";
  EXPECT_THAT(DraftsFor({1, 2, 3, 4, 2}, 4, {.min_repeat_tokens = 1}), ElementsAre(3, 4, 2, 3));
}

TEST(NgramDrafterTest, ATextThatTurnsInACircleGoesOn) {
  EXPECT_THAT(DraftsFor({7, 7, 7}), ElementsAre(7, 7, 7, 7));
  EXPECT_THAT(DraftsFor({1, 2, 3, 1, 2, 3, 1, 2}, 7), ElementsAre(3, 1, 2, 3, 1, 2, 3));
}

TEST(NgramDrafterTest, FollowsASequenceThatGrows) {
  std::mt19937_64 random(3);
  NgramDrafter drafter;
  Slot slot = SlotWith({1, 2});
  for (int i = 0; i < 300; ++i) {
    // Sometimes several tokens are kept, and not every token has a call.
    for (uint64_t n = random() % 4; n > 0; --n) {
      slot.AppendSampled(static_cast<TokenId>(random() % 5));
    }
    const auto limit = static_cast<uint32_t>(1 + random() % 6);
    ASSERT_THAT(Drafts(drafter, slot, limit),
                ElementsAreArray(SlowDrafts(slot.known_tokens(), 2, limit)));
  }
  EXPECT_EQ(drafter.num_indexed_tokens(), slot.num_known());
}

// Started again with the same number of tokens, or with more that begin alike.
TEST(NgramDrafterTest, ASlotThatStartsAgainHasAnotherText) {
  NgramDrafter drafter;
  Slot slot = SlotWith({1, 2, 3, 4, 1, 2});
  EXPECT_THAT(Drafts(drafter, slot, 1), ElementsAre(3));
  Start(slot, {1, 2, 9, 4, 1, 2});
  EXPECT_THAT(Drafts(drafter, slot, 1), ElementsAre(9));
  Start(slot, {1, 2, 9, 4, 1, 2, 9, 8, 1, 2, 9});
  EXPECT_THAT(Drafts(drafter, slot, 1), ElementsAre(4));
  Start(slot, {1, 2});
  EXPECT_THAT(Drafts(drafter, slot, 1), IsEmpty());
  EXPECT_EQ(drafter.num_indexed_tokens(), 2u);
}

TEST(NgramDrafterTest, SlotsDoNotSeeEachOther) {
  NgramDrafter drafter;
  const Slot first = SlotWith({1, 2, 3, 4, 5});
  const Slot second = SlotWith({8, 1, 2});
  EXPECT_THAT(Drafts(drafter, first), IsEmpty());
  EXPECT_THAT(Drafts(drafter, second), IsEmpty()) << "only the other text repeats";
}

TEST(NgramDrafterTest, ALongTextForgetsItsOldestHalf) {
  NgramDrafter drafter({.max_slot_tokens = 64});
  Slot slot = SlotWith({1, 2, 3});
  for (const TokenId token : CountedTokens(100, 59)) slot.AppendSampled(token);
  slot.AppendSampled(1);
  slot.AppendSampled(2);
  EXPECT_THAT(Drafts(drafter, slot, 1), ElementsAre(3));
  EXPECT_EQ(drafter.num_indexed_tokens(), 64u);
  slot.AppendSampled(3);
  EXPECT_THAT(Drafts(drafter, slot, 1), IsEmpty()) << "its beginning is forgotten";
  EXPECT_EQ(drafter.num_indexed_tokens(), 32u);
  for (const TokenId token : {140u, 141u}) slot.AppendSampled(token);
  EXPECT_THAT(Drafts(drafter, slot, 2), ElementsAre(142, 143)) << "its end is not";
}

TEST(NgramDrafterTest, ALongPromptIsIndexedInPart) {
  NgramDrafter drafter({.max_slot_tokens = 64});
  std::vector<TokenId> prompt = CountedTokens(0, 1000);
  prompt.insert(prompt.end(), {985, 986});
  EXPECT_THAT(Drafts(drafter, SlotWith(prompt), 2), ElementsAre(987, 988));
  EXPECT_EQ(drafter.num_indexed_tokens(), 32u);
}

TEST(NgramDrafterTest, ALongPromptIsIndexedInPieces) {
  NgramDrafter drafter({.max_tokens_per_call = 100});
  std::vector<TokenId> prompt = CountedTokens(0, 298);
  prompt.insert(prompt.end(), {5, 6});
  Slot slot = SlotWith(prompt);
  EXPECT_THAT(Drafts(drafter, slot, 2), IsEmpty());
  EXPECT_EQ(drafter.num_indexed_tokens(), 300u) << "all have room from the first call on";
  EXPECT_THAT(Drafts(drafter, slot, 2), IsEmpty()) << "200 of 300 tokens";
  EXPECT_THAT(Drafts(drafter, slot, 2), ElementsAre(7, 8));
  for (const TokenId token : CountedTokens(1000, 250)) slot.AppendSampled(token);
  for (const TokenId token : {1003u, 1004u}) slot.AppendSampled(token);
  for (int i = 0; i < 2; ++i) EXPECT_THAT(Drafts(drafter, slot, 1), IsEmpty());
  EXPECT_THAT(Drafts(drafter, slot, 1), ElementsAre(1005)) << "it catches up again";
  Start(slot, {1, 2, 3, 1, 2});
  EXPECT_THAT(Drafts(drafter, slot, 1), ElementsAre(3));
  EXPECT_EQ(drafter.num_indexed_tokens(), 5u);
}

// The others have room for their texts only if those that are not indexed yet count.
TEST(NgramDrafterTest, WhatIsNotIndexedYetTakesRoom) {
  NgramDrafter drafter({.max_indexed_tokens = 100, .max_tokens_per_call = 10});
  const std::vector<TokenId> text = CountedTokens(0, 60);
  const Slot first = SlotWith(text), second = SlotWith(text);
  for (int i = 0; i < 10; ++i) {
    Drafts(drafter, first);
    Drafts(drafter, second);
    EXPECT_EQ(drafter.num_indexed_tokens(), 60u);
  }
}

TEST(NgramDrafterTest, MemoryOfAllSlotsIsBounded) {
  NgramDrafter drafter({.max_indexed_tokens = 100});
  const std::vector<TokenId> text = {1, 2, 3, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 1, 2};
  std::vector<Slot> slots;
  for (int i = 0; i < 10; ++i) slots.push_back(SlotWith(text));
  uint32_t num_silent = 0;
  for (int round = 0; round < 8; ++round) {
    num_silent = 0;
    for (const Slot& slot : slots) {
      const std::vector<TokenId> drafts = Drafts(drafter, slot, 1);
      if (drafts.empty()) {
        ++num_silent;
      } else {
        EXPECT_THAT(drafts, ElementsAre(3));
      }
      EXPECT_LE(drafter.num_indexed_tokens(), 100u);
    }
    EXPECT_EQ(num_silent, 5u) << "five texts have room, and keep it";
  }
  // The first five are not used any more.
  for (int round = 0; round < 12; ++round) {
    for (size_t i = 5; i < slots.size(); ++i) {
      Drafts(drafter, slots[i], 1);
    }
  }
  for (size_t i = 5; i < slots.size(); ++i) {
    EXPECT_THAT(Drafts(drafter, slots[i], 1), ElementsAre(3)) << i;
  }
  EXPECT_LE(drafter.num_indexed_tokens(), 100u);
}

TEST(NgramDrafterTest, ATextLargerThanAllRoomIsSilent) {
  NgramDrafter drafter({.max_indexed_tokens = 3});
  EXPECT_THAT(Drafts(drafter, SlotWith({1, 1, 1, 1})), IsEmpty());
  EXPECT_EQ(drafter.num_indexed_tokens(), 0u);
}

}  // namespace
}  // namespace lockstep::worker
