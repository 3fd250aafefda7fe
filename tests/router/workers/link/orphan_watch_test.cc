#include "router/workers/link/orphan_watch.h"

#include <gtest/gtest.h>

namespace lockstep::router {
namespace {

constexpr absl::Duration kWait = absl::Seconds(30);
const Instant kStart = Instant::After(absl::Seconds(1'000'000));

Instant At(int seconds) { return kStart + absl::Seconds(seconds); }

TEST(OrphanWatchTest, AWorkerWithoutALeaseIsAnOrphanAfterTheWait) {
  OrphanWatch watch(kWait);
  EXPECT_EQ(watch.Look({.incarnation = 1}, At(0)), kWait);
  EXPECT_EQ(watch.Look({.incarnation = 1}, At(10)), absl::Seconds(20));
  EXPECT_LE(watch.Look({.incarnation = 1}, At(30)), absl::ZeroDuration());
  EXPECT_LE(watch.Look({.incarnation = 1}, At(99)), absl::ZeroDuration());
}

TEST(OrphanWatchTest, ALivingLeaseIsRespectedForEver) {
  OrphanWatch watch(kWait);
  for (int second = 0; second < 1000; second += 50) {
    EXPECT_EQ(watch.Look({.incarnation = 1, .last_epoch = 5, .live_epoch = 5}, At(second)),
              absl::InfiniteDuration());
  }
  EXPECT_EQ(watch.Look({.incarnation = 1, .last_epoch = 5}, At(1000)), kWait);
}

TEST(OrphanWatchTest, ALeaseBetweenTwoLooksIsNoticed) {
  OrphanWatch watch(kWait);
  watch.Look({.incarnation = 1, .last_epoch = 5}, At(0));
  EXPECT_EQ(watch.Look({.incarnation = 1, .last_epoch = 6}, At(29)), kWait);
  EXPECT_EQ(watch.Look({.incarnation = 1, .last_epoch = 6}, At(30)), absl::Seconds(29));
}

TEST(OrphanWatchTest, ARestartedWorkerIsWatchedAnew) {
  OrphanWatch watch(kWait);
  watch.Look({.incarnation = 1}, At(0));
  EXPECT_EQ(watch.Look({.incarnation = 2}, At(29)), kWait);
}

}  // namespace
}  // namespace lockstep::router
