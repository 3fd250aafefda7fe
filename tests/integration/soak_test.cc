// The soaks of tests/rigs/soak, for a few seconds each: whatever fails, clients notice nothing.
#include "tests/rigs/soak/soak.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace lockstep::bench {
namespace {

using ::testing::Each;
using ::testing::Key;

// A sanitizer makes steps slow, and a router that is impatient with them gives up workers that are
// well.
#ifdef LOCKSTEP_SLOW_STEPS
constexpr absl::Duration kStepTimeout = absl::Seconds(3);
constexpr uint32_t kNumStreams = 12;
#else
constexpr absl::Duration kStepTimeout = absl::Seconds(1);
constexpr uint32_t kNumStreams = 24;
#endif

class SoakTest : public ::testing::Test {
 protected:
  void Run(SoakMode mode) {
    options_ = {.mode = mode,
                .duration = absl::Seconds(mode == SoakMode::kOverload ? 2 : 6),
                .seed = 20261121,
                .num_streams = kNumStreams,
                .step_timeout = kStepTimeout,
                .programs = LOCKSTEP_BIN_DIR,
                .model = "tests/golden/tiny-llama"};
    absl::StatusOr<SoakReport> report = RunSoak(options_);
    ASSERT_TRUE(report.ok()) << report.status();
    report_ = *std::move(report);
    RecordProperty("report", ToJson(options_, report_));
    EXPECT_EQ(report_.leaked, 0) << ToJson(options_, report_);
  }

  void ExpectHonestClientsUnhurt() {
    const std::string json = ToJson(options_, report_);
    EXPECT_TRUE(report_.clients.all_right()) << json;
    EXPECT_GT(report_.clients.num_finished, 0u);
    EXPECT_EQ(report_.clients.num_finished, report_.clients.num_requests) << json;
    for (const PhaseReport& phase : report_.hostile.attacked) {
      for (const AttackReport& attack : phase.attacks) {
        EXPECT_GT(attack.num_attempts, 0u) << attack.name;
      }
    }
#ifndef LOCKSTEP_SLOW_STEPS  // a sanitizer has a heap of its own
    EXPECT_TRUE(report_.hostile.within_budget()) << json;
    EXPECT_TRUE(report_.hostile.given_back()) << json;
#endif
  }

  void ExpectRightTokens() {
    EXPECT_TRUE(report_.clients.all_right()) << ToJson(options_, report_);
    EXPECT_GT(report_.clients.num_finished, 0u);
    EXPECT_GE(report_.num_faults, 1u);
  }

  // Every request that a client sent has finished.
  void ExpectNothingNoticed() {
    ExpectRightTokens();
    EXPECT_EQ(report_.clients.num_finished, report_.clients.num_requests)
        << ToJson(options_, report_);
    EXPECT_GT(report_.num_resumed, 0) << "no request was with a worker that was lost";
  }

  SoakOptions options_;
  SoakReport report_;
};

TEST_F(SoakTest, KilledWorkersAreInvisible) {
  ASSERT_NO_FATAL_FAILURE(Run(SoakMode::kKill));
  ExpectNothingNoticed();
}

TEST_F(SoakTest, StoppedWorkersAreInvisible) {
  ASSERT_NO_FATAL_FAILURE(Run(SoakMode::kStop));
  ExpectNothingNoticed();
}

TEST_F(SoakTest, HalfOpenLinksAreInvisible) {
  ASSERT_NO_FATAL_FAILURE(Run(SoakMode::kHalfOpen));
  ExpectNothingNoticed();
}

TEST_F(SoakTest, ClientsOfARouterThatLostItsWorkersSeeUnavailable) {
  ASSERT_NO_FATAL_FAILURE(Run(SoakMode::kTakeover));
  ExpectRightTokens();
  EXPECT_GE(report_.num_fenced_routers, 1u);
  EXPECT_EQ(report_.num_disturbances, 0u);
  EXPECT_THAT(report_.clients.num_failed, Each(Key("UNAVAILABLE"))) << ToJson(options_, report_);
}

TEST_F(SoakTest, OverloadIsRefusedAndTheRestFinish) {
  ASSERT_NO_FATAL_FAILURE(Run(SoakMode::kOverload));
  ASSERT_EQ(report_.loads.size(), 4u);
  for (const LoadReport& load : report_.loads) {
    EXPECT_GT(load.num_finished, 0u);
    EXPECT_LE(load.peak_queue_requests, 64);
    EXPECT_THAT(load.num_failed, Each(Key("DEADLINE_EXCEEDED"))) << ToJson(options_, report_);
    uint64_t num_ended = load.num_finished + load.num_refused;
    for (const auto& [status, count] : load.num_failed) num_ended += count;
    EXPECT_EQ(num_ended, load.num_requests);
  }
  EXPECT_GT(report_.loads.back().num_refused, report_.loads.back().num_finished);
}

TEST_F(SoakTest, AttackersHurtNobody) {
  Run(SoakMode::kHostile);
  ExpectHonestClientsUnhurt();
}

}  // namespace
}  // namespace lockstep::bench
