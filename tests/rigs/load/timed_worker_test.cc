#include "tests/rigs/load/timed_worker.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace lockstep::bench {
namespace {

constexpr StepCosts kCosts = {.decodes_alone = absl::Milliseconds(4),
                              .with_prompts = absl::Milliseconds(5),
                              .decode_row = absl::Microseconds(100),
                              .token = absl::Microseconds(10),
                              .decoded_key = absl::Microseconds(1),
                              .cached_key = 0.25,
                              .thousand_keys = absl::Microseconds(2)};

router::StepPlan Started(uint32_t num_prompt_tokens, uint32_t num_output_tokens, uint32_t chunk,
                         SlotId slot = 0) {
  auto request = std::make_shared<router::Request>();
  request->prompt_tokens.assign(num_prompt_tokens, 7);
  request->sampling.max_new_tokens = num_output_tokens;
  router::StepPlan plan;
  plan.started.push_back({.slot = slot,
                          .request = request,
                          .sample_index = 0,
                          .known_tokens = request->prompt_tokens,
                          .num_computed_tokens = 0,
                          .blocks = {},
                          .first_prompt_logprob = 0});
  plan.rows.push_back({.slot = slot, .num_tokens = chunk, .new_blocks = {}});
  return plan;
}

router::StepPlan Decode() {
  router::StepPlan plan;
  plan.rows.push_back({.slot = 0, .num_tokens = 1, .new_blocks = {}});
  return plan;
}

TEST(TimedWorkerTest, APromptSamplesAtItsEnd) {
  TimedWorker worker(1, kCosts);
  const auto first = worker.Run(Started(3000, 2, 2000), Instant());
  EXPECT_TRUE(first.outcome.rows[0].tokens.empty());
  // 2,000 tokens with 1,000 keys each on average.
  EXPECT_EQ(first.outcome.timings.compute, absl::Milliseconds(5 + 20 + 4));
  router::StepPlan rest = Decode();
  rest.rows[0].num_tokens = 1000;
  const auto second = worker.Run(rest, Instant());
  EXPECT_EQ(second.outcome.rows[0].tokens.size(), 1u);
  EXPECT_EQ(second.outcome.timings.compute, absl::Milliseconds(5 + 10 + 5));
}

TEST(TimedWorkerTest, ASequenceStopsAtItsLengthAndIsInertThen) {
  TimedWorker worker(1, kCosts);
  EXPECT_EQ(worker.Run(Started(100, 2, 100), Instant()).outcome.rows[0].stopped,
            router::StopCause::kNone);
  const auto last = worker.Run(Decode(), Instant());
  EXPECT_EQ(last.outcome.rows[0].stopped, router::StopCause::kLength);
  // 101 keys.
  EXPECT_EQ(last.outcome.timings.compute, absl::Microseconds(4000 + 100 + 101));
  const auto inert = worker.Run(Decode(), Instant());
  EXPECT_TRUE(inert.outcome.rows[0].was_inert);
  EXPECT_EQ(inert.outcome.timings.compute, absl::Milliseconds(4));
}

TEST(TimedWorkerTest, APromptBesideADecodeCostsItsTokensAndBothAttend) {
  TimedWorker worker(2, kCosts);
  worker.Run(Started(100, 9, 100), Instant());
  router::StepPlan mixed = Started(2000, 9, 1000, /*slot=*/1);
  mixed.rows.insert(mixed.rows.begin(), Decode().rows[0]);
  const auto done = worker.Run(mixed, Instant());
  // 1,001 tokens; the decode row has 101 keys, the others 500 on average.
  EXPECT_EQ(done.outcome.timings.compute,
            absl::Milliseconds(5) + absl::Microseconds(10'010 + 101 + 1000));
  EXPECT_EQ(done.outcome.rows[0].tokens.size(), 1u);
  EXPECT_TRUE(done.outcome.rows[1].tokens.empty());
}

TEST(TimedWorkerTest, KeysThatWereCachedCostAQuarter) {
  TimedWorker worker(1, kCosts);
  router::StepPlan plan = Started(100, 9, 20);
  plan.started[0].num_computed_tokens = 80;
  worker.Run(plan, Instant());
  // 101 keys, 80 of them cached.
  EXPECT_EQ(worker.Run(Decode(), Instant()).outcome.timings.compute,
            absl::Microseconds(4000 + 100 + 21 + 20));
}

TEST(TimedWorkerTest, AResumedSequenceKeepsWhatItGenerated) {
  TimedWorker worker(1, kCosts);
  router::StepPlan resumed = Started(100, 3, 102);
  resumed.started[0].known_tokens.assign(102, 7);
  EXPECT_EQ(worker.Run(resumed, Instant()).outcome.rows[0].stopped, router::StopCause::kLength);
}

TEST(TimedWorkerTest, StepsRunOneAfterTheOther) {
  TimedWorker worker(1, kCosts);
  const auto first = worker.Run(Started(100, 9, 100), Instant());
  const auto second = worker.Run(Decode(), Instant());  // sent ahead
  EXPECT_EQ(second.at - first.at, second.outcome.timings.compute);
  const Instant later = second.at + absl::Seconds(1);
  const auto third = worker.Run(Decode(), later);
  EXPECT_EQ(third.at - later, third.outcome.timings.compute);
}

}  // namespace
}  // namespace lockstep::bench
