#include "common/runtime/clock.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(FakeClockTest, StandsStillUntilAdvanced) {
  const absl::Time start = absl::FromUnixSeconds(1000);
  FakeClock clock(start);
  EXPECT_EQ(clock.Now(), start);
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(absl::Milliseconds(250));
  EXPECT_EQ(clock.Now(), start + absl::Milliseconds(250));
}

TEST(RealClockTest, FollowsTheSystem) {
  const absl::Time before = absl::Now();
  const absl::Time now = RealClock().Now();
  EXPECT_LE(before - absl::Seconds(1), now);
  EXPECT_LE(now, absl::Now() + absl::Seconds(1));
}

}  // namespace
}  // namespace lockstep
