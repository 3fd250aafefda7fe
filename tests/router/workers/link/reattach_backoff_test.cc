#include "router/workers/link/reattach_backoff.h"

#include <gtest/gtest.h>

#include "common/instant.h"

namespace lockstep::router {
namespace {

ReattachBackoff Backoff() {
  return ReattachBackoff({.min_pause = absl::Milliseconds(100),
                          .max_pause = absl::Seconds(1),
                          .max_lease_pause = absl::Seconds(5)});
}

TEST(ReattachBackoffTest, PausesGrowToTheLargest) {
  ReattachBackoff backoff = Backoff();
  for (const int expected_ms : {100, 200, 400, 800, 1000, 1000}) {
    EXPECT_EQ(backoff.AfterFailedAttempt(), absl::Milliseconds(expected_ms));
  }
}

TEST(ReattachBackoffTest, UselessLeasesGrowBeyondFailedAttempts) {
  ReattachBackoff backoff = Backoff();
  for (const int expected_ms : {100, 200, 400, 800, 1600, 3200, 5000, 5000}) {
    EXPECT_EQ(backoff.AfterLease(false), absl::Milliseconds(expected_ms));
  }
  // A worker that restarts is looked for no more rarely for it, and distrusted no less.
  EXPECT_EQ(backoff.AfterFailedAttempt(), absl::Seconds(1));
  EXPECT_EQ(backoff.AfterFailedAttempt(), absl::Seconds(1));
  EXPECT_EQ(backoff.AfterLease(false), absl::Seconds(5));
}

TEST(ReattachBackoffTest, ALeaseThatWasWellBeginsAnew) {
  ReattachBackoff backoff = Backoff();
  for (int i = 0; i < 5; ++i) backoff.AfterFailedAttempt();
  EXPECT_EQ(backoff.AfterLease(true), absl::Milliseconds(100));
  EXPECT_EQ(backoff.AfterFailedAttempt(), absl::Milliseconds(200));
}

const Instant kUp = Instant::After(absl::Seconds(1000));
constexpr absl::Duration kStable = absl::Seconds(2);

TEST(LeaseRecordTest, AWorkerThatHangsAtOnceWasNotWellHoweverLongItHung) {
  LeaseRecord record;
  record.OnUp(kUp);
  record.OnStepSent();
  EXPECT_FALSE(record.WasWell(kUp + absl::Hours(1), kStable));
  record.OnResult(kUp + absl::Minutes(1));
  record.OnStepSent();
  EXPECT_FALSE(record.WasWell(kUp + absl::Hours(1), kStable)) << "one result is no time";
}

TEST(LeaseRecordTest, AWorkerThatRefusesWasNotWellHoweverLongItAnswered) {
  LeaseRecord record;
  record.OnUp(kUp);
  for (int i = 0; i < 10; ++i) {
    record.OnStepSent();
    record.OnRefusal();
  }
  EXPECT_FALSE(record.WasWell(kUp + absl::Hours(1), kStable));
  record.OnStepSent();
  record.OnResult(kUp + absl::Hours(1));
  EXPECT_TRUE(record.WasWell(kUp + absl::Hours(1), kStable)) << "refusals of the past are over";
}

TEST(LeaseRecordTest, ResultsOverTimeShowThatItWasWell) {
  LeaseRecord record;
  record.OnUp(kUp);
  for (int i = 0; i < 3; ++i) record.OnStepSent();
  record.OnResult(kUp + absl::Seconds(5));
  record.OnResult(kUp + absl::Seconds(7) - absl::Nanoseconds(1));
  EXPECT_FALSE(record.WasWell(kUp + absl::Seconds(8), kStable));
  record.OnStepSent();
  record.OnResult(kUp + absl::Seconds(7));
  EXPECT_TRUE(record.WasWell(kUp + absl::Seconds(8), kStable));
}

TEST(LeaseRecordTest, OneThatWasAskedForNothingIsWellOnceItIsOld) {
  LeaseRecord record;
  record.OnUp(kUp);
  EXPECT_FALSE(record.WasWell(kUp + absl::Seconds(1), kStable));
  EXPECT_TRUE(record.WasWell(kUp + absl::Seconds(2), kStable));
  record.OnStepSent();
  record.OnResult(kUp + absl::Milliseconds(1));
  EXPECT_TRUE(record.WasWell(kUp + absl::Seconds(2), kStable));
  record.OnStepSent();
  EXPECT_FALSE(record.WasWell(kUp + absl::Seconds(2), kStable));
}

}  // namespace
}  // namespace lockstep::router
