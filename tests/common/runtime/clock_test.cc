#include "common/runtime/clock.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(FakeClockTest, StandsStillUntilAdvanced) {
  const Instant start = Instant::After(absl::Seconds(1000));
  FakeClock clock(start);
  EXPECT_EQ(clock.Now(), start);
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(absl::Milliseconds(250));
  EXPECT_EQ(clock.Now(), start + absl::Milliseconds(250));
}

TEST(FakeClockTest, TheTimeOfDayIsSetWithoutTheInstantsKnowing) {
  FakeClock clock;
  const Instant before = clock.Now();
  clock.SetTimeOfDay(absl::FromUnixSeconds(2'000'000'000));
  EXPECT_EQ(clock.Now(), before);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(clock.TimeOfDay(), absl::FromUnixSeconds(2'000'000'001));
}

TEST(RealClockTest, FollowsTheSystem) {
  const absl::Time before = absl::Now();
  const absl::Time time = RealClock().TimeOfDay();
  EXPECT_LE(before - absl::Seconds(1), time);
  EXPECT_LE(time, absl::Now() + absl::Seconds(1));
  const Instant first = RealClock().Now();
  EXPECT_LE(first, RealClock().Now());
  EXPECT_LE(RealClock().Now() - first, absl::Seconds(10));
}

}  // namespace
}  // namespace lockstep
