#include "router/core/policy/step_budget.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::router {
namespace {

void ObserveDecodes(StepBudget& budget, absl::Duration compute, uint32_t iterations = 1) {
  for (int i = 0; i < 40; ++i) {
    budget.Observe({.num_prefill_tokens = 0,
                    .num_decode_tokens = 8,
                    .decode_iterations = iterations,
                    .compute = compute});
  }
}

void ObservePrefills(StepBudget& budget, uint32_t num_tokens, absl::Duration compute) {
  for (int i = 0; i < 40; ++i) {
    budget.Observe({.num_prefill_tokens = num_tokens,
                    .num_decode_tokens = 8,
                    .decode_iterations = 1,
                    .compute = compute});
  }
}

// What decodes leave of half the target, for a few prompt tokens.
uint32_t ShortChunk(const StepBudget& budget, uint32_t bound = 5000) {
  return budget.PrefillTokensBesideDecodes(bound, /*num_decodes=*/8, /*num_waiting=*/0, {});
}

TEST(StepBudgetTest, WithoutATargetNothingIsHeldBack) {
  StepBudget budget(absl::InfiniteDuration());
  ObserveDecodes(budget, absl::Seconds(1));
  ObservePrefills(budget, 10, absl::Seconds(10));
  EXPECT_EQ(ShortChunk(budget), 5000u);
  EXPECT_EQ(budget.DecodeIterations(8), 8u);
}

TEST(StepBudgetTest, TheFirstChunkIsSmall) {
  const StepBudget budget(absl::Milliseconds(10));
  EXPECT_EQ(budget.PrefillTokensBesideDecodes(5000, 8, 100'000, {}), 64u);
  EXPECT_EQ(ShortChunk(budget, 10), 10u);
  EXPECT_EQ(budget.DecodeIterations(8), 1u);
}

TEST(StepBudgetTest, AFewTokensFillWhatDecodesLeaveOfHalfTheTarget) {
  StepBudget budget(absl::Milliseconds(60));
  ObserveDecodes(budget, absl::Milliseconds(10));
  ObservePrefills(budget, 100, absl::Milliseconds(20));  // 0.1 ms a token beside the decodes
  EXPECT_EQ(budget.decode_time(), absl::Milliseconds(10));
  EXPECT_EQ(ShortChunk(budget), 200u);
  EXPECT_EQ(ShortChunk(budget, 150), 150u);
}

TEST(StepBudgetTest, StepsGrowWithWhatWaits) {
  StepBudget budget(absl::Milliseconds(60));
  ObserveDecodes(budget, absl::Milliseconds(10));
  ObservePrefills(budget, 100, absl::Milliseconds(20));
  const auto chunk = [&budget](uint64_t num_waiting) {
    return budget.PrefillTokensBesideDecodes(5000, /*num_decodes=*/0, num_waiting, {});
  };
  EXPECT_EQ(chunk(1000), 500u);   // 100 ms wait: the step may take 30 ms more
  EXPECT_EQ(chunk(2000), 768u);   // 200 ms wait. 800 fit, and 768 are six whole tiles
  EXPECT_EQ(chunk(7000), 2048u);  // 4 times the target: 2,300
  EXPECT_EQ(chunk(1'000'000), 2048u);
}

TEST(StepBudgetTest, AChunkFillsTheTilesThatItShares) {
  // A chunk beside `num_decodes` if time is left for `num_tokens` tokens, and twice as many wait.
  const auto chunk = [](uint32_t num_tokens, uint32_t num_decodes) {
    StepBudget budget(absl::Milliseconds(50));
    ObserveDecodes(budget, absl::Milliseconds(17));
    ObservePrefills(budget, num_tokens, absl::Milliseconds(37));
    return budget.PrefillTokensBesideDecodes(8000, num_decodes, 2 * num_tokens, {});
  };
  EXPECT_EQ(chunk(500, 8), 500u) << "few rows";
  EXPECT_EQ(chunk(500, 12), 500u);
  EXPECT_EQ(chunk(500, 32), 480u) << "4 tiles of 128";
  EXPECT_EQ(chunk(1000, 8), 888u) << "7";
  EXPECT_EQ(chunk(1000, 24), 1000u) << "8";
  EXPECT_EQ(chunk(1000, 151), 873u) << "8";
  EXPECT_EQ(chunk(4000, 8), 3832u) << "15 tiles of 256";
  EXPECT_EQ(chunk(4000, 96), 4000u) << "16";
  EXPECT_EQ(chunk(200, 490), 150u) << "5; a quarter is given up";
  EXPECT_EQ(chunk(200, 491), 200u) << "more than a quarter would be";
  for (uint32_t num_decodes = 490; num_decodes < 520; ++num_decodes) {
    EXPECT_GE(chunk(20, num_decodes), 16u) << num_decodes;
  }
  // Prompts get on beside any number of decodes.
  for (const uint32_t num_tokens : {20u, 100u, 1000u, 4000u}) {
    for (uint32_t num_decodes = 1; num_decodes < 2400; num_decodes += 7) {
      EXPECT_GE(chunk(num_tokens, num_decodes), num_tokens * 3 / 4)
          << num_tokens << " beside " << num_decodes;
      EXPECT_LE(chunk(num_tokens, num_decodes), num_tokens)
          << num_tokens << " beside " << num_decodes;
    }
  }
}

TEST(StepBudgetTest, WhatFitsIsNotCutToFillTiles) {
  StepBudget budget(absl::Milliseconds(50));
  ObserveDecodes(budget, absl::Milliseconds(5));
  ObservePrefills(budget, 1000, absl::Milliseconds(25));  // 0.02 ms a token
  const auto chunk = [&budget](uint64_t num_waiting) {
    return budget.PrefillTokensBesideDecodes(8000, /*num_decodes=*/8, num_waiting, {});
  };
  // 1,000 tokens in half of the target, and three tenths of what waits.
  EXPECT_GE(chunk(1100), 1100u);
  EXPECT_GE(chunk(1400), 1400u);
  EXPECT_EQ(chunk(1600), 1400u) << "1,480 fit, 11 tiles are full";
}

// 10 ms for decodes alone, 0.1 ms for a prompt token, and what the steps that taught this saved of
// 20 ms a token: two tokens' time.
StepBudget WithPace(absl::Duration target) {
  StepBudget budget(target, /*max_time_per_token=*/absl::Milliseconds(20) / 0.95);
  ObserveDecodes(budget, absl::Milliseconds(10));
  ObservePrefills(budget, 100, absl::Milliseconds(20));
  return budget;
}

uint32_t ChunkBesides(const StepBudget& budget, const StepBudget::InFlight& in_flight) {
  return budget.PrefillTokensBesideDecodes(5000, /*num_decodes=*/8, /*num_waiting=*/100'000,
                                           in_flight);
}

TEST(StepBudgetTest, ATimePerTokenBoundsStepsThatTheTargetAllows) {
  for (const absl::Duration target : {absl::Milliseconds(60), absl::InfiniteDuration()}) {
    StepBudget budget = WithPace(target);
    EXPECT_NEAR(ChunkBesides(budget, {}), 500, 2) << "20 ms, and 40 that were saved";
    // Steps in flight spend what was saved: 10 ms and 40 for prompts, of 20.
    EXPECT_NEAR(ChunkBesides(budget, {.num_iterations = 1, .num_prefill_tokens = 400}), 200, 2);
    budget.Observe(
        {.num_prefill_tokens = 500, .num_decode_tokens = 8, .compute = absl::Milliseconds(60)});
    EXPECT_NEAR(ChunkBesides(budget, {}), 100, 2) << "nothing is left but the step's own 20 ms";
    budget.Observe(
        {.num_prefill_tokens = 500, .num_decode_tokens = 8, .compute = absl::Milliseconds(60)});
    EXPECT_EQ(ChunkBesides(budget, {}), 16u) << "prompts advance even so";
  }
}

TEST(StepBudgetTest, ATargetBoundsStepsThatTheTimePerTokenAllows) {
  EXPECT_EQ(ShortChunk(WithPace(absl::Milliseconds(40))), 100u) << "half of 40 ms";
}

TEST(StepBudgetTest, StepsThatNobodyDecodesInSaveAndOweNothing) {
  StepBudget budget = WithPace(absl::InfiniteDuration());
  for (int i = 0; i < 10; ++i) {
    budget.Observe({.num_prefill_tokens = 5000, .compute = absl::Milliseconds(500)});
  }
  EXPECT_NEAR(ChunkBesides(budget, {}), 500, 2);
}

double TimeToPrefillMs(const StepBudget& budget, double num_tokens, uint32_t max_chunk = 5000,
                       bool beside_decodes = true) {
  return absl::ToDoubleMilliseconds(budget.TimeToPrefill(num_tokens, max_chunk, beside_decodes));
}

// Decodes alone take this long, a prompt token 0.1 ms.
StepBudget WithTarget(absl::Duration target, absl::Duration decode = absl::Milliseconds(10)) {
  StepBudget budget(target);
  ObserveDecodes(budget, decode);
  ObservePrefills(budget, 100, decode + absl::Milliseconds(10));
  return budget;
}

TEST(StepBudgetTest, TimeToPrefillIsUnknownBeforeTheFirstMeasurement) {
  EXPECT_EQ(TimeToPrefillMs(StepBudget(absl::Milliseconds(60)), 1000), 0);
}

TEST(StepBudgetTest, TimeToPrefillCountsTheDecodesBetween) {
  const StepBudget paced = WithPace(absl::InfiniteDuration());
  EXPECT_NEAR(TimeToPrefillMs(paced, 1000, 5000, /*beside_decodes=*/false), 100, 0.1);
  // Half of each step of 20 ms is for prompts.
  EXPECT_NEAR(TimeToPrefillMs(paced, 1000), 2 * 100 + 15, 1);
  EXPECT_NEAR(TimeToPrefillMs(paced, 1), 20, 0.1) << "a whole step: others fill it";
  const StepBudget free = WithTarget(absl::InfiniteDuration());
  EXPECT_NEAR(TimeToPrefillMs(free, 1000), 100 + 10, 0.1) << "all in one step";
  EXPECT_NEAR(TimeToPrefillMs(free, 1000, 200), 100 + 5 * 10, 10) << "200 in a step";
}

TEST(StepBudgetTest, TimeToPrefillKnowsThatStepsGetShorter) {
  const StepBudget budget = WithTarget(absl::Milliseconds(60));
  // At most 240 ms, 230 of them for prompts; long, so 12.5 ms of decodes are owed after each.
  EXPECT_NEAR(TimeToPrefillMs(budget, 100'000), 10'000 * 252.5 / 230, 100);
  EXPECT_NEAR(TimeToPrefillMs(budget, 200), 30 + 0.3 * 20, 0.1) << "one step for a few";
  // Decodes leave nothing of half the target. Only while much waits is there more than 16 a step.
  const StepBudget busy = WithTarget(absl::Milliseconds(50), absl::Milliseconds(40));
  EXPECT_GT(TimeToPrefillMs(busy, 1000), 1000);
}

TEST(StepBudgetTest, MoreTokensNeverTakeMuchLess) {
  for (const StepBudget& budget :
       {WithPace(absl::Milliseconds(50)), WithTarget(absl::Milliseconds(60)),
        WithTarget(absl::Milliseconds(50), absl::Milliseconds(40))}) {
    double most = 0;
    for (double num_tokens = 1; num_tokens < 20'000; num_tokens *= 1.1) {
      const double time = TimeToPrefillMs(budget, num_tokens);
      EXPECT_GT(time, 0.8 * most) << num_tokens;
      most = std::max(most, time);
    }
  }
}

TEST(StepBudgetTest, NothingStartsBesideDecodesThatAreTooSlow) {
  StepBudget budget = WithPace(absl::InfiniteDuration());
  budget.Started();
  EXPECT_TRUE(budget.MayStartBesideDecodes({}));
  EXPECT_FALSE(budget.DecodesMissThePace());
  ObserveDecodes(budget, absl::Milliseconds(30));
  EXPECT_FALSE(budget.MayStartBesideDecodes({}));
  EXPECT_TRUE(budget.DecodesMissThePace());
  for (int i = 0; i < 15; ++i) budget.Planned(0, 8);
  EXPECT_FALSE(budget.MayStartBesideDecodes({}));
  budget.Planned(0, 8);
  EXPECT_TRUE(budget.MayStartBesideDecodes({})) << "one in sixteen steps";
  budget.Started();
  EXPECT_FALSE(budget.MayStartBesideDecodes({}));
  ObserveDecodes(budget, absl::Milliseconds(10));
  EXPECT_TRUE(budget.MayStartBesideDecodes({}));
  // A chunk in flight spends what is left of 20 ms, and 40 ms that were saved.
  EXPECT_TRUE(budget.MayStartBesideDecodes({.num_iterations = 1, .num_prefill_tokens = 590}));
  EXPECT_FALSE(budget.MayStartBesideDecodes({.num_iterations = 1, .num_prefill_tokens = 610}));
}

TEST(StepBudgetTest, WithoutATimePerTokenAnythingMayStart) {
  EXPECT_TRUE(WithTarget(absl::Milliseconds(1), absl::Seconds(1))
                  .MayStartBesideDecodes({.num_iterations = 1, .num_prefill_tokens = 5000}));
}

TEST(StepBudgetTest, ShortPromptsThatHitSayLittleOfLongOnesThatDoNot) {
  StepBudget budget(absl::Milliseconds(50));
  for (int i = 0; i < 40; ++i) {
    for (int j = 0; j < 4; ++j) budget.ObserveCached(100, 100);
    budget.ObserveCached(4000, 0);
  }
  EXPECT_GT(budget.UncachedTokens(1000), 900u);
}

TEST(StepBudgetTest, WhatTheCacheHasDoesNotWait) {
  StepBudget budget(absl::Milliseconds(50));
  EXPECT_EQ(budget.UncachedTokens(1000), 1000u) << "nothing is known of the cache yet";
  for (int i = 0; i < 100; ++i) budget.ObserveCached(2000, 1500);
  EXPECT_NEAR(static_cast<double>(budget.UncachedTokens(1000)), 250, 1);
  for (int i = 0; i < 100; ++i) budget.ObserveCached(2000, 0);
  EXPECT_NEAR(static_cast<double>(budget.UncachedTokens(1000)), 1000, 1);
}

TEST(StepBudgetTest, ChunksFollowWhatIsMeasured) {
  StepBudget budget(absl::Milliseconds(60));
  ObserveDecodes(budget, absl::Milliseconds(10));
  ObservePrefills(budget, 100, absl::Milliseconds(20));
  const uint32_t before = ShortChunk(budget);
  ObservePrefills(budget, 100, absl::Milliseconds(50));
  EXPECT_LT(ShortChunk(budget), before / 2);
  ObservePrefills(budget, 100, absl::Milliseconds(15));
  EXPECT_GT(ShortChunk(budget), before);
}

TEST(StepBudgetTest, PromptsAdvanceEvenWhenTheTargetIsMissed) {
  StepBudget budget(absl::Milliseconds(5));
  ObserveDecodes(budget, absl::Milliseconds(10));
  ObservePrefills(budget, 100, absl::Milliseconds(100));
  EXPECT_EQ(ShortChunk(budget), 16u);
  EXPECT_EQ(ShortChunk(budget, 3), 3u);
}

// Of steps 1 .. num_steps, with a chunk whenever one is allowed: how many carried one.
int CountChunks(StepBudget& budget, int num_steps, uint32_t chunk) {
  int num_chunks = 0;
  for (int i = 0; i < num_steps; ++i) {
    const bool has_chunk = !budget.OwesDecodes();
    num_chunks += has_chunk;
    budget.Planned(has_chunk ? chunk : 0, 8);
  }
  return num_chunks;
}

// 5 ms for decodes alone, 0.04 ms for a prompt token.
StepBudget WithLongChunks() {
  StepBudget budget(absl::Milliseconds(50));
  ObserveDecodes(budget, absl::Milliseconds(5));
  ObservePrefills(budget, 1000, absl::Milliseconds(45));
  return budget;
}

TEST(StepBudgetTest, LongChunksTakeTurnsWithALittleMoreStepsOfDecodes) {
  StepBudget budget = WithLongChunks();
  CountChunks(budget, 4, 2000);
  EXPECT_EQ(CountChunks(budget, 9 * 10, 2000), 4 * 10);
}

TEST(StepBudgetTest, FourLongChunksRunWithoutATurnBetween) {
  StepBudget budget = WithLongChunks();
  for (int burst = 0; burst < 10; ++burst) {
    EXPECT_EQ(CountChunks(budget, 4, 2000), 4);
    EXPECT_TRUE(budget.OwesDecodes());
    for (int i = 0; i < 5; ++i) budget.Planned(0, 8);  // nothing waits: all is paid
  }
  for (int i = 0; i < 100; ++i) budget.Planned(0, 8);
  EXPECT_EQ(CountChunks(budget, 5, 2000), 4) << "more than all is not paid";
}

// Only the last of their rows decodes, and no step asks whether decodes are owed.
TEST(StepBudgetTest, PromptsThatWantOneTokenEachLeaveTwoTurnsAtMost) {
  StepBudget budget = WithLongChunks();
  for (int i = 0; i < 1000; ++i) budget.Planned(2000, 1);
  EXPECT_EQ(CountChunks(budget, 2, 2000), 0);
  EXPECT_EQ(CountChunks(budget, 1, 2000), 1);
}

TEST(StepBudgetTest, TimeToPrefillKnowsWhichChunksTakeNoTurns) {
  StepBudget budget = WithLongChunks();
  const double fresh = TimeToPrefillMs(budget, 50'000);
  CountChunks(budget, 4, 2000);
  EXPECT_NEAR(TimeToPrefillMs(budget, 50'000) - fresh, 4 * 1.25 * 5, 0.1);
}

TEST(StepBudgetTest, ChunksThatTakeLessThanEightStepsOfDecodesTakeNoTurns) {
  StepBudget budget = WithLongChunks();
  EXPECT_EQ(CountChunks(budget, 100, 980), 100);
  EXPECT_LT(CountChunks(budget, 100, 1020), 50);
}

TEST(StepBudgetTest, ChunksThatNobodyWaitsBesideTakeNoTurns) {
  StepBudget budget = WithLongChunks();
  for (int i = 0; i < 10; ++i) budget.Planned(2000, 0);
  EXPECT_FALSE(budget.OwesDecodes());
}

TEST(StepBudgetTest, WithoutATargetThereAreNoTurns) {
  StepBudget budget(absl::InfiniteDuration());
  ObserveDecodes(budget, absl::Milliseconds(5));
  ObservePrefills(budget, 1000, absl::Milliseconds(45));
  EXPECT_EQ(CountChunks(budget, 100, 2000), 100);
}

TEST(StepBudgetTest, AFreePrefillGrowsStepByStep) {
  StepBudget budget(absl::Milliseconds(40));
  ObserveDecodes(budget, absl::Milliseconds(10));
  ObservePrefills(budget, 64, absl::Milliseconds(10));  // no slower than decodes alone
  const uint32_t chunk = ShortChunk(budget, 100'000);
  EXPECT_GT(chunk, 64u);
  EXPECT_LE(chunk, 64u * 8);
}

TEST(StepBudgetTest, IterationsFillTheTarget) {
  StepBudget budget(absl::Milliseconds(10));
  ObserveDecodes(budget, absl::Milliseconds(9), 3);
  EXPECT_EQ(budget.decode_time(), absl::Milliseconds(3));
  EXPECT_EQ(budget.DecodeIterations(8), 3u);
  EXPECT_EQ(budget.DecodeIterations(2), 2u);
  ObserveDecodes(budget, absl::Milliseconds(40));
  EXPECT_EQ(budget.DecodeIterations(8), 1u);
}

TEST(StepBudgetTest, UnmeasuredStepsTeachNothing) {
  StepBudget budget(absl::Milliseconds(10));
  budget.Observe({.num_prefill_tokens = 0,
                  .num_decode_tokens = 1,
                  .decode_iterations = 1,
                  .compute = absl::ZeroDuration()});
  budget.Observe({.num_prefill_tokens = 9,
                  .num_decode_tokens = 1,
                  .decode_iterations = 1,
                  .compute = absl::Milliseconds(-1)});
  EXPECT_EQ(budget.decode_time(), absl::ZeroDuration());
  EXPECT_EQ(budget.time_per_prefill_token(), absl::ZeroDuration());
}

}  // namespace
}  // namespace lockstep::router
