// What the rules of the scheduler give in closed loops. The bounds are not of a GPU's speed: the
// clock is virtual, so each holds or fails for ever. They are what a change of a rule must keep.
#include "tests/rigs/closed_loop/closed_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace lockstep::bench {
namespace {

constexpr double kTargetMs = 50.0;

double Quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  return values.at(static_cast<size_t>(q * static_cast<double>(values.size() - 1)));
}

ClosedLoop Streams(uint32_t num_streams, uint32_t prompt) {
  return {.num_streams = num_streams,
          .prompt_tokens = {prompt / 2, prompt + prompt / 2},
          .output_tokens = {64, 192},
          .duration = absl::Seconds(30)};
}

// Two prompts are always there, beside 32 streams.
ClosedLoop LongPromptsBesideStreams(const Range& prompt_tokens) {
  return {.num_streams = 2,
          .prompt_tokens = prompt_tokens,
          .output_tokens = {1, 1},
          .num_endless = 32,
          .duration = absl::Seconds(30)};
}

TEST(ClosedLoopTest, TheSameLoopGivesTheSameFigures) {
  const ClosedLoopFigures first = SimulateClosedLoop(Streams(16, 512));
  const ClosedLoopFigures second = SimulateClosedLoop(Streams(16, 512));
  EXPECT_EQ(first.gap_ms, second.gap_ms);
  EXPECT_EQ(first.first_ms, second.first_ms);
}

// Measured over HTTP on an H200: 6,283, 6,848 and 986 tokens/s.
TEST(ClosedLoopTest, ThroughputIsNearWhatAnH200Gave) {
  EXPECT_NEAR(SimulateClosedLoop(Streams(128, 512)).output_tokens_per_s, 6283, 628);
  EXPECT_NEAR(SimulateClosedLoop(Streams(256, 512)).output_tokens_per_s, 6848, 685);
  EXPECT_NEAR(SimulateClosedLoop(Streams(64, 4096)).output_tokens_per_s, 986, 99);
}

TEST(ClosedLoopTest, FirstTokensComeSoonWhileShortPromptsWait) {
  EXPECT_LT(Quantile(SimulateClosedLoop(Streams(128, 512)).first_ms, 0.5), 70);
  EXPECT_LT(Quantile(SimulateClosedLoop(Streams(256, 512)).first_ms, 0.5), 140);
}

TEST(ClosedLoopTest, FirstTokensComeSoonWhileLongPromptsWait) {
  EXPECT_LT(Quantile(SimulateClosedLoop(Streams(64, 4096)).first_ms, 0.5), 400);
}

TEST(ClosedLoopTest, NoTokenWaitsLongerThanAFewTargets) {
  EXPECT_LT(Quantile(SimulateClosedLoop(Streams(128, 512)).gap_ms, 0.99), kTargetMs);
  EXPECT_LT(Quantile(SimulateClosedLoop(Streams(256, 512)).gap_ms, 0.99), 1.25 * kTargetMs);
  EXPECT_LT(Quantile(SimulateClosedLoop(Streams(64, 4096)).gap_ms, 0.99), 4 * kTargetMs);
}

// Running streams' median grows by half at most, at 85 % of what prompts get without a bound. That
// needs more than half of the steps without prompts, also while the rest of a prompt is short.
TEST(ClosedLoopTest, LongPromptsLeaveTheMedianOfRunningStreamsAlone) {
  for (const Range& prompt_tokens : {Range{8192, 8192}, Range{4096, 12288}}) {
    SCOPED_TRACE(prompt_tokens.low);
    ClosedLoop loop = LongPromptsBesideStreams(prompt_tokens);
    const ClosedLoopFigures bounded = SimulateClosedLoop(loop);
    loop.target_step_time = absl::InfiniteDuration();
    const ClosedLoopFigures unbounded = SimulateClosedLoop(loop);
    loop.num_streams = 0;
    const double alone = Quantile(SimulateClosedLoop(loop).gap_ms, 0.5);
    EXPECT_LE(Quantile(bounded.gap_ms, 0.5), 1.5 * alone);
    EXPECT_GE(bounded.prompt_tokens_per_s, 0.85 * unbounded.prompt_tokens_per_s);
    EXPECT_GT(Quantile(unbounded.gap_ms, 0.5), 5 * alone);
  }
}

}  // namespace
}  // namespace lockstep::bench
