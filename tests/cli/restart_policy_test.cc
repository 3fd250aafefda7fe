#include "cli/serve/processes/restart_policy.h"

#include <gtest/gtest.h>

#include "common/instant.h"
#include "common/runtime/clock.h"

namespace lockstep::cli {
namespace {

// Starts, lives for `life`, ends; the wait that follows.
absl::Duration WaitAfter(RestartPolicy& policy, FakeClock& clock, absl::Duration life) {
  policy.OnStarted(clock.Now());
  policy.OnReady();
  clock.Advance(life);
  const RestartPolicy::Verdict verdict = policy.OnEnded(clock.Now());
  EXPECT_FALSE(verdict.gives_up);
  return verdict.wait;
}

TEST(RestartPolicyTest, WaitsDoubleUpToTheirBound) {
  FakeClock clock;
  RestartPolicy policy(RestartLimits{});
  for (const int seconds : {1, 2, 4, 8, 16, 30, 30}) {
    EXPECT_EQ(WaitAfter(policy, clock, absl::Seconds(5)), absl::Seconds(seconds));
  }
}

TEST(RestartPolicyTest, AMinuteOfLifeStartsTheWaitsOver) {
  FakeClock clock;
  RestartPolicy policy(RestartLimits{});
  WaitAfter(policy, clock, absl::ZeroDuration());
  WaitAfter(policy, clock, absl::ZeroDuration());
  EXPECT_EQ(WaitAfter(policy, clock, absl::Seconds(59)), absl::Seconds(4));
  EXPECT_EQ(WaitAfter(policy, clock, absl::Seconds(60)), absl::Seconds(1));
  EXPECT_EQ(WaitAfter(policy, clock, absl::ZeroDuration()), absl::Seconds(2));
}

TEST(RestartPolicyTest, GivesUpAfterFiveStartsWithoutReadiness) {
  RestartPolicy policy(RestartLimits{});
  for (int i = 0; i < 4; ++i) {
    policy.OnStarted(Instant());
    EXPECT_FALSE(policy.OnEnded(Instant()).gives_up);
  }
  policy.OnStarted(Instant());
  EXPECT_TRUE(policy.OnEnded(Instant()).gives_up);
}

TEST(RestartPolicyTest, GivesUpAtOnceWhatRefusesToStart) {
  RestartPolicy policy(RestartLimits{});
  policy.OnStarted(Instant());
  EXPECT_TRUE(policy.OnEnded(Instant(), /*refuses=*/true).gives_up);
}

TEST(RestartPolicyTest, NeverGivesUpWhatWasReadyOnce) {
  FakeClock clock;
  RestartPolicy policy(RestartLimits{});
  WaitAfter(policy, clock, absl::ZeroDuration());
  for (int i = 0; i < 20; ++i) {
    policy.OnStarted(clock.Now());
    EXPECT_FALSE(policy.OnEnded(clock.Now(), /*refuses=*/i % 2 == 0).gives_up);
  }
}

}  // namespace
}  // namespace lockstep::cli
