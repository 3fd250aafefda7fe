#include "router/limits/byte_budget.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace lockstep::router {
namespace {

TEST(ByteBudgetTest, GrantsWhatThereIsAndTakesItBack) {
  ByteBudget budget(100);
  {
    ByteBudget::Share share(budget);
    EXPECT_TRUE(share.Resize(60));
    ByteBudget::Share other(budget);
    EXPECT_FALSE(other.Resize(41));
    EXPECT_EQ(other.bytes(), 0u);
    EXPECT_TRUE(other.Resize(40));
    EXPECT_TRUE(share.Resize(10));
    ByteBudget::Share moved = std::move(share);
    EXPECT_EQ(budget.held_bytes(), 50u);
  }
  EXPECT_EQ(budget.held_bytes(), 0u);
}

TEST(ByteBudgetTest, SaysWhetherThereIsRoom) {
  ByteBudget budget(100);
  ByteBudget::Share share(budget);
  EXPECT_TRUE(budget.HasRoomFor(100));
  EXPECT_FALSE(budget.HasRoomFor(101));
  share.ResizeAnyway(60);
  EXPECT_TRUE(budget.HasRoomFor(40));
  EXPECT_FALSE(budget.HasRoomFor(41));
  share.ResizeAnyway(200);
  EXPECT_FALSE(budget.HasRoomFor(1));
}

TEST(ByteBudgetTest, LargeThingsLeaveRoomForSmallOnes) {
  constexpr size_t kSmall = ByteBudget::kSmallBytes;
  ByteBudget budget(16 * kSmall, /*reserved_bytes=*/2 * kSmall);
  ByteBudget::Share large(budget);
  EXPECT_FALSE(large.Resize(14 * kSmall + 1));
  EXPECT_TRUE(large.Resize(14 * kSmall));
  ByteBudget::Share other(budget);
  EXPECT_FALSE(other.Resize(kSmall + 1));
  EXPECT_TRUE(other.Resize(kSmall));
  EXPECT_FALSE(other.Resize(kSmall + 1)) << "it is large now";
  std::vector<ByteBudget::Share> small;
  small.emplace_back(budget);
  EXPECT_TRUE(small.back().Resize(kSmall));
  small.emplace_back(budget);
  EXPECT_FALSE(small.back().Resize(1)) << "the reserve has an end";
}

TEST(ByteBudgetTest, WhatIsThereAnywayIsCountedBeyondTheEnd) {
  ByteBudget budget(100);
  ByteBudget::Share share(budget);
  EXPECT_TRUE(share.Resize(100));
  ByteBudget::Share error(budget);
  error.ResizeAnyway(20);
  EXPECT_EQ(budget.held_bytes(), 120u);
  error.ResizeAnyway(5);
  EXPECT_EQ(budget.held_bytes(), 105u);
  EXPECT_TRUE(share.Resize(50));
  EXPECT_TRUE(share.Resize(95));
}

TEST(ByteBudgetTest, AnOwnerHoldsAtMostWhatItLeavesToOthers) {
  ByteBudget budget(120);
  EXPECT_EQ(budget.AccountOf(""), nullptr);
  ByteBudget::Account* const greedy = budget.AccountOf("greedy");
  EXPECT_EQ(budget.AccountOf("greedy"), greedy);
  ByteBudget::Share first(&budget, greedy);
  ByteBudget::Share second(&budget, greedy);
  EXPECT_TRUE(first.Resize(40));
  EXPECT_FALSE(second.Resize(21));
  EXPECT_TRUE(second.Resize(20));
  EXPECT_EQ(greedy->held_bytes(), 60u);
  ByteBudget::Share other(&budget, budget.AccountOf("other"));
  EXPECT_TRUE(other.Resize(30));
  EXPECT_FALSE(other.Resize(31));
  ByteBudget::Share stranger(&budget, &budget.strangers());
  EXPECT_FALSE(stranger.Resize(16));
  EXPECT_TRUE(stranger.Resize(15));
  EXPECT_FALSE(first.Resize(41)) << "it has more than is left";
  ByteBudget::Share nobody(budget);
  EXPECT_TRUE(nobody.Resize(15)) << "the budget alone bounds it";
  nobody.Resize(0);
  second.Resize(0);
  EXPECT_EQ(greedy->held_bytes(), 40u);
  EXPECT_EQ(budget.held_bytes(), 85u);
  ByteBudget::Share moved = std::move(first);
  moved.ChargeTo(budget.AccountOf("other"));
  EXPECT_EQ(greedy->held_bytes(), 0u);
  EXPECT_EQ(budget.AccountOf("other")->held_bytes(), 70u);
  moved.ResizeAnyway(100);
  EXPECT_EQ(budget.AccountOf("other")->held_bytes(), 130u);
  EXPECT_EQ(budget.held_bytes(), 145u);
}

TEST(ByteBudgetTest, AShareOfNoBudgetIsAlwaysGranted) {
  ByteBudget::Share share;
  EXPECT_TRUE(share.Resize(SIZE_MAX));
  share.ResizeAnyway(5);
  EXPECT_EQ(share.bytes(), 0u);
}

}  // namespace
}  // namespace lockstep::router
