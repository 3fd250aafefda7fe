#include "router/worker_client/reattach_backoff.h"

#include <gtest/gtest.h>

namespace lockstep::router {
namespace {

ReattachBackoff Backoff() {
  return {absl::Milliseconds(100), absl::Seconds(1), /*stable_lease=*/absl::Seconds(2)};
}

TEST(ReattachBackoffTest, PausesGrowToTheLargest) {
  ReattachBackoff backoff = Backoff();
  for (const int expected_ms : {100, 200, 400, 800, 1000, 1000}) {
    EXPECT_EQ(backoff.AfterFailedAttempt(), absl::Milliseconds(expected_ms));
  }
}

TEST(ReattachBackoffTest, LeasesThatEndYoungCountAsFailures) {
  ReattachBackoff backoff = Backoff();
  for (const int expected_ms : {100, 200, 400}) {
    EXPECT_EQ(backoff.AfterLease(absl::Milliseconds(1999)), absl::Milliseconds(expected_ms));
  }
  EXPECT_EQ(backoff.AfterFailedAttempt(), absl::Milliseconds(800));
}

TEST(ReattachBackoffTest, AStableLeaseBeginsAnew) {
  ReattachBackoff backoff = Backoff();
  for (int i = 0; i < 5; ++i) backoff.AfterFailedAttempt();
  EXPECT_EQ(backoff.AfterLease(absl::Seconds(2)), absl::Milliseconds(100));
  EXPECT_EQ(backoff.AfterFailedAttempt(), absl::Milliseconds(200));
}

}  // namespace
}  // namespace lockstep::router
