#include "router/core/policy/prefill_speed.h"

#include <gtest/gtest.h>

namespace lockstep::router {
namespace {

TEST(PrefillSpeedTest, NothingIsKnownBeforeTheFirstFullStep) {
  PrefillSpeed speed;
  EXPECT_EQ(speed.per_token(), absl::ZeroDuration());
  speed.ObserveFull(0, absl::Milliseconds(5));
  EXPECT_EQ(speed.per_token(), absl::ZeroDuration());
  speed.ObserveFull(100, absl::ZeroDuration());
  EXPECT_EQ(speed.per_token(), absl::ZeroDuration());
}

TEST(PrefillSpeedTest, ApproachesWhatStepsTake) {
  PrefillSpeed speed;
  speed.ObserveFull(100, absl::Milliseconds(10));
  EXPECT_EQ(speed.per_token(), absl::Microseconds(100));
  for (int i = 0; i < 100; ++i) speed.ObserveFull(100, absl::Milliseconds(20));
  EXPECT_NEAR(absl::ToDoubleMicroseconds(speed.per_token()), 200.0, 0.1);
}

TEST(PrefillSpeedTest, StepsOfDecodesBetweenChunksCount) {
  PrefillSpeed speed;
  for (int i = 0; i < 100; ++i) {
    speed.ObserveFull(100, absl::Milliseconds(10));
    speed.ObserveFull(0, absl::Milliseconds(5));
  }
  EXPECT_NEAR(absl::ToDoubleMicroseconds(speed.per_token()), 150.0, 0.1);
}

}  // namespace
}  // namespace lockstep::router
