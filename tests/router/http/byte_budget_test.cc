#include "router/http/byte_budget.h"

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

TEST(ByteBudgetTest, AShareOfNoBudgetIsAlwaysGranted) {
  ByteBudget::Share share;
  EXPECT_TRUE(share.Resize(SIZE_MAX));
  share.ResizeAnyway(5);
  EXPECT_EQ(share.bytes(), 0u);
}

}  // namespace
}  // namespace lockstep::router
