#include "router/core/policy/token_pace.h"

#include <gtest/gtest.h>

namespace lockstep::router {
namespace {

constexpr absl::Duration kBound = absl::Milliseconds(100);

TEST(TokenPaceTest, WithoutABoundAStepTakesAsLongAsItLikes) {
  TokenPace pace(absl::InfiniteDuration());
  pace.Observe(1, absl::Hours(1));
  EXPECT_EQ(pace.NextStep(2, absl::Hours(1)), absl::InfiniteDuration());
  EXPECT_EQ(pace.per_token(), absl::InfiniteDuration());
}

TEST(TokenPaceTest, AimsALittleBelowTheBound) {
  const TokenPace pace(kBound);
  EXPECT_EQ(pace.per_token(), absl::Milliseconds(95));
  EXPECT_EQ(pace.NextStep(0, absl::ZeroDuration()), absl::Milliseconds(95));
}

TEST(TokenPaceTest, AStepMayTakeWhatEarlierOnesSaved) {
  TokenPace pace(kBound);
  pace.Observe(1, absl::Milliseconds(35));
  EXPECT_EQ(pace.NextStep(0, absl::ZeroDuration()), absl::Milliseconds(95 + 60));
  pace.Observe(1, absl::Milliseconds(155));
  EXPECT_EQ(pace.NextStep(0, absl::ZeroDuration()), absl::Milliseconds(95));
  pace.Observe(1, absl::Milliseconds(135));
  EXPECT_EQ(pace.NextStep(0, absl::ZeroDuration()), absl::Milliseconds(95 - 40)) << "it owes";
}

TEST(TokenPaceTest, AStepOfSeveralIterationsMayTakeThatManyTokensTime) {
  TokenPace pace(kBound);
  pace.Observe(3, absl::Milliseconds(3 * 95 - 10));
  EXPECT_EQ(pace.NextStep(0, absl::ZeroDuration()), absl::Milliseconds(95 + 10));
}

TEST(TokenPaceTest, StepsInFlightCountBeforeTheyAreObserved) {
  const TokenPace pace(kBound);
  EXPECT_EQ(pace.NextStep(2, absl::Milliseconds(150)), absl::Milliseconds(95 + 40));
  EXPECT_EQ(pace.NextStep(1, absl::Milliseconds(200)), absl::Milliseconds(95 - 105));
}

TEST(TokenPaceTest, WhatIsSavedOrOwedIsAtMostTwoTokensTime) {
  TokenPace pace(kBound);
  for (int i = 0; i < 1000; ++i) pace.Observe(1, absl::Milliseconds(1));
  EXPECT_EQ(pace.NextStep(0, absl::ZeroDuration()), absl::Milliseconds(95 + 190));
  pace.Observe(1, absl::Hours(1));
  EXPECT_EQ(pace.NextStep(0, absl::ZeroDuration()), absl::Milliseconds(95 - 190));
  for (int i = 0; i < 3; ++i) pace.Observe(1, absl::Milliseconds(5));
  EXPECT_GE(pace.NextStep(0, absl::ZeroDuration()), absl::Milliseconds(95)) << "soon forgiven";
}

}  // namespace
}  // namespace lockstep::router
