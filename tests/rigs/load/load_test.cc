// What the rules of the scheduler give under load. The clock is virtual, so the result is the
// same on every machine. A change of a rule must keep these bounds.
#include "tests/rigs/load/load.h"

#include <gtest/gtest.h>

#include "tests/rigs/quantile.h"

namespace lockstep::bench {
namespace {

constexpr double kTargetMs = 50.0;

Load Streams(uint32_t num_streams, uint32_t prompt) {
  return {.num_streams = num_streams,
          .prompt_tokens = {prompt / 2, prompt + prompt / 2},
          .output_tokens = {64, 192},
          .duration = absl::Seconds(30)};
}

// Two prompts are always there, beside 32 streams.
Load LongPromptsBesideStreams(const Range& prompt_tokens) {
  return {.num_streams = 2,
          .prompt_tokens = prompt_tokens,
          .output_tokens = {1, 1},
          .num_endless = 32,
          .duration = absl::Seconds(30)};
}

TEST(LoadTest, TheSameLoadGivesTheSameFigures) {
  Load load = Streams(16, 512);
  const LoadFigures first = Simulate(load);
  const LoadFigures second = Simulate(load);
  EXPECT_GT(first.first_ms.size(), 100u);
  EXPECT_GT(first.gap_ms.size(), first.first_ms.size());
  EXPECT_EQ(first.gap_ms, second.gap_ms);
  EXPECT_EQ(first.first_ms, second.first_ms);
  EXPECT_EQ(first.output_tokens_per_s, second.output_tokens_per_s);
  load.seed = 2;
  EXPECT_NE(Simulate(load).first_ms, first.first_ms);
}

struct LoadBounds {
  Load load;
  // Measured over HTTP on an H200, with other numbers in the rule; they change it by 1 % at most.
  double measured_tokens_per_s;
  double first_ms_p50;
  double gap_ms_p99;
};

TEST(LoadTest, FirstTokensAndTokensComeSoon) {
  const LoadBounds loads[] = {{Streams(128, 512), 6283, 70, kTargetMs},
                              {Streams(256, 512), 6848, 140, 1.25 * kTargetMs},
                              {Streams(64, 4096), 986, 400, 4 * kTargetMs}};
  for (const LoadBounds& load : loads) {
    SCOPED_TRACE(load.measured_tokens_per_s);
    const LoadFigures figures = Simulate(load.load);
    EXPECT_NEAR(figures.output_tokens_per_s, load.measured_tokens_per_s,
                0.1 * load.measured_tokens_per_s);
    EXPECT_LT(Quantile(figures.first_ms, 0.5), load.first_ms_p50);
    EXPECT_LT(Quantile(figures.gap_ms, 0.99), load.gap_ms_p99);
  }
}

// Requests that arrive at random times. The machine can serve about 50 a second of these lengths.
TEST(LoadTest, RequestsKeepToTheirBoundsUntilShortOfWhatTheMachineCanServe) {
  Load load = Streams(/*num_streams=*/0, 512);
  load.requests_per_s = 38;
  const LoadFigures below = Simulate(load);
  EXPECT_NEAR(below.requests_per_s, 38, 2);
  EXPECT_GT(below.good_requests_per_s, 0.97 * below.requests_per_s);
  load.requests_per_s = 60;
  const LoadFigures above = Simulate(load);
  EXPECT_LT(above.requests_per_s, 55);
  EXPECT_LT(above.good_requests_per_s, 0.1 * above.requests_per_s);
  EXPECT_GT(Quantile(above.first_ms, 0.5), 5 * Quantile(below.first_ms, 0.99));
}

// With bounds, what cannot be served in time is refused, and the rest keeps to them, however much
// comes. Without them nobody does: the test above.
TEST(LoadTest, WithBoundsTheRestKeepsToThemHoweverMuchComes) {
  Load load = Streams(/*num_streams=*/0, 512);
  load.max_time_per_token = load.good_per_token;
  load.max_time_to_first_token = load.good_first;
  load.requests_per_s = 38;
  const LoadFigures below = Simulate(load);
  EXPECT_LT(below.refused_per_s, 0.02 * load.requests_per_s);
  for (const double requests_per_s : {48.0, 60.0, 120.0}) {
    SCOPED_TRACE(requests_per_s);
    load.requests_per_s = requests_per_s;
    const LoadFigures above = Simulate(load);
    EXPECT_GT(above.requests_per_s, 43);
    EXPECT_GT(above.good_requests_per_s, 0.98 * above.requests_per_s);
    EXPECT_GT(above.refused_per_s, 0.7 * (requests_per_s - above.requests_per_s));
  }
}

// A prompt that takes longer than the bound by itself is served where little waits before it.
TEST(LoadTest, LongPromptsAreNotRefusedForTheirLength) {
  Load load = {.requests_per_s = 6,
               .prompt_tokens = {8192, 8192},
               .output_tokens = {1, 1},
               .num_endless = 32,
               .max_time_per_token = absl::Milliseconds(25),
               .max_time_to_first_token = absl::Milliseconds(200),
               .duration = absl::Seconds(60)};
  const LoadFigures figures = Simulate(load);
  EXPECT_GT(Quantile(figures.first_ms, 0.01), 200);
  EXPECT_GT(figures.requests_per_s, 2.0) << "1.9 if length alone decided";
  EXPECT_LT(Quantile(figures.gap_ms, 0.5), 25);
}

TEST(LoadTest, PrefixesAreComputedOnce) {
  const Load own = {.num_streams = 64,
                    .prompt_tokens = {2176, 2176},
                    .output_tokens = {64, 64},
                    .duration = absl::Seconds(30)};
  Load shared = own;
  shared.prompt_tokens = {128, 128};
  shared.num_prefixes = 8;
  shared.prefix_tokens = 2048;
  EXPECT_GT(Simulate(shared).output_tokens_per_s, 3 * Simulate(own).output_tokens_per_s);
}

// Both pools have room, so a second KV group changes neither a plan nor a hit.
TEST(LoadTest, AWindowWithRoomChangesNothing) {
  Load load = {.num_streams = 32,
               .prompt_tokens = {128, 512},
               .output_tokens = {64, 200},
               .num_prefixes = 8,
               .prefix_tokens = 2048,
               .duration = absl::Seconds(20)};
  const LoadFigures one_group = Simulate(load);
  load.window_tokens = 1024;
  const LoadFigures two_groups = Simulate(load);
  EXPECT_EQ(two_groups.output_tokens_per_s, one_group.output_tokens_per_s);
  EXPECT_EQ(two_groups.first_ms, one_group.first_ms);
}

// Running streams' median grows by half at most, at 85 % of what prompts get without a bound. That
// needs more than half of the steps without prompts, also while the rest of a prompt is short.
TEST(LoadTest, LongPromptsLeaveTheMedianOfRunningStreamsAlone) {
  for (const Range& prompt_tokens : {Range{8192, 8192}, Range{4096, 12288}}) {
    SCOPED_TRACE(prompt_tokens.low);
    Load load = LongPromptsBesideStreams(prompt_tokens);
    const LoadFigures bounded = Simulate(load);
    load.target_step_time = absl::InfiniteDuration();
    const LoadFigures unbounded = Simulate(load);
    load.num_streams = 0;
    const double alone = Quantile(Simulate(load).gap_ms, 0.5);
    EXPECT_LE(Quantile(bounded.gap_ms, 0.5), 1.5 * alone);
    EXPECT_GE(bounded.prompt_tokens_per_s, 0.85 * unbounded.prompt_tokens_per_s);
    EXPECT_GT(Quantile(unbounded.gap_ms, 0.5), 5 * alone);
  }
}

}  // namespace
}  // namespace lockstep::bench
