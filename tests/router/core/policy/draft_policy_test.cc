#include "router/core/policy/draft_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace lockstep::router {
namespace {

using StepSeconds = std::function<double(uint32_t num_tokens)>;

// A worker that takes `seconds` for a step, and some sequences whose drafts are right by chance.
struct Simulation {
  struct Text {
    double chance = 0;  // that a draft is right
    double made = 1;    // that a draft is made
    uint32_t max_drafts = 8;
    DraftRecord record = {};
    uint64_t num_tokens = 0, num_drafted = 0, num_right = 0, num_rounds = 0;
  };
  explicit Simulation(StepSeconds seconds_of_step, uint64_t seed = 1)
      : seconds(std::move(seconds_of_step)), random(seed) {}

  bool Happens(double chance) { return std::uniform_real_distribution<>(0, 1)(random) < chance; }

  // One step, and its result.
  void Step() {
    std::vector<DraftingRow> rows;
    for (Text& text : texts) {
      rows.push_back({.record = &text.record, .max_drafts = text.max_drafts});
    }
    policy.Choose(rows);
    uint32_t num_computed = 0;
    for (size_t i = 0; i < texts.size(); ++i) num_computed += Run(texts[i], rows[i]);
    const double time = seconds(num_computed);
    total_seconds += time;
    const double noise = std::uniform_real_distribution<>(1 - noise_share, 1 + noise_share)(random);
    policy.ObserveStep(num_computed, absl::Seconds(time * noise));
  }
  // Returns how many tokens it computes.
  uint32_t Run(Text& text, const DraftingRow& row) {
    EXPECT_LE(row.num_drafts, text.max_drafts);
    uint32_t num_made = 0, num_right = 0;
    while (num_made < row.num_drafts && Happens(text.made)) ++num_made;
    while (num_right < num_made && Happens(text.chance)) ++num_right;
    policy.ObserveRow(text.record,
                      {.limit = row.num_drafts,
                       .num_made = num_made,
                       .num_right = num_right,
                       .probes = row.probes},
                      num_right + 1);
    text.num_tokens += num_right + 1;
    text.num_drafted += num_made;
    text.num_right += num_right;
    ++text.num_rounds;
    return num_made + 1;
  }
  void Run(int num_steps) {
    for (int i = 0; i < num_steps; ++i) Step();
  }
  // Tokens a second of all texts, of some more steps.
  double Speed(int num_steps) {
    const auto sum = [this] {
      uint64_t tokens = 0;
      for (const Text& text : texts) tokens += text.num_tokens;
      return tokens;
    };
    const uint64_t tokens_before = sum();
    const double seconds_before = total_seconds;
    Run(num_steps);
    return static_cast<double>(sum() - tokens_before) / (total_seconds - seconds_before);
  }
  double PlainSpeed() const {
    return static_cast<double>(texts.size()) / seconds(static_cast<uint32_t>(texts.size()));
  }
  // Over the drafts of a step: those of the last Choose are not kept, so choose again.
  double MeanDrafts(int num_steps) {
    uint64_t before = 0, after = 0;
    for (const Text& text : texts) before += text.num_drafted;
    Run(num_steps);
    for (const Text& text : texts) after += text.num_drafted;
    return static_cast<double>(after - before) / num_steps / static_cast<double>(texts.size());
  }

  StepSeconds seconds;
  std::mt19937_64 random;
  double noise_share = 0;
  std::vector<Text> texts;
  DraftPolicy policy;
  double total_seconds = 0;
};

// A GPU with one sequence: memory decides.
double Flat(uint32_t num_tokens) { return 0.0047 + 0.00003 * (num_tokens - 1); }
// A CPU: a token costs half of what the first one costs.
double Steep(uint32_t num_tokens) { return 0.004 + 0.004 * num_tokens; }
// Every token costs the same.
double Proportional(uint32_t num_tokens) { return 0.004 * num_tokens; }

// Expected tokens a second with `num_drafts` for one text.
double Expected(const StepSeconds& seconds, double chance, uint32_t num_drafts) {
  double kept = 0, power = 1;
  for (uint32_t i = 0; i <= num_drafts; ++i, power *= chance) kept += power;
  return kept / seconds(num_drafts + 1);
}

double BestExpected(const StepSeconds& seconds, double chance) {
  double best = 0;
  for (uint32_t i = 0; i <= 8; ++i) best = std::max(best, Expected(seconds, chance, i));
  return best;
}

TEST(DraftPolicyTest, NothingIsDraftedBeforeAStepWasMeasured) {
  DraftPolicy policy;
  DraftRecord record;
  std::vector<DraftingRow> rows = {{.record = &record, .max_drafts = 4}};
  policy.Choose(rows);
  EXPECT_EQ(rows[0].num_drafts, 0u);
  EXPECT_FALSE(rows[0].probes);
  policy.ObserveStep(1, absl::Milliseconds(5));
  policy.Choose(rows);
  EXPECT_GT(rows[0].num_drafts, 0u) << "it is tried";
  policy.Choose({});
}

TEST(DraftPolicyTest, ARowThatMayNotDraftDraftsNothing) {
  Simulation simulation(Flat);
  simulation.texts = {{.chance = 1, .max_drafts = 0}, {.chance = 1, .max_drafts = 3}};
  simulation.Run(200);
  EXPECT_EQ(simulation.texts[0].num_drafted, 0u);
  EXPECT_GT(simulation.texts[1].num_right, 500u);
}

TEST(DraftPolicyTest, MoreIsDraftedWhereMoreIsRight) {
  double last = -1;
  for (const double chance : {0.0, 0.3, 0.6, 0.9, 1.0}) {
    Simulation simulation(Steep);
    simulation.texts = {{.chance = chance}};
    simulation.Run(300);
    const double drafts = simulation.MeanDrafts(500);
    EXPECT_GE(drafts, last - 0.05) << chance;
    last = drafts;
  }
  EXPECT_GT(last, 6);
}

TEST(DraftPolicyTest, FindsNearlyTheBestNumber) {
  for (const auto& [name, seconds] : {std::pair<const char*, StepSeconds>{"flat", Flat},
                                      {"steep", Steep},
                                      {"proportional", Proportional}}) {
    for (const double chance : {0.0, 0.2, 0.4, 0.66, 0.8, 0.95}) {
      SCOPED_TRACE(::testing::Message() << name << ", chance " << chance);
      Simulation simulation(seconds);
      simulation.texts = {{.chance = chance}};
      simulation.Run(500);
      EXPECT_GE(simulation.Speed(4000), 0.92 * BestExpected(seconds, chance));
    }
  }
}

// The bar of the design: never slower than 0.98 of no drafts, with any cost of a row.
TEST(DraftPolicyTest, CostsAtMostTwoPercentWhereDraftsAreWrong) {
  for (const StepSeconds& seconds :
       {StepSeconds(Flat), StepSeconds(Steep), StepSeconds(Proportional)}) {
    for (const size_t num_texts : {1u, 4u, 32u}) {
      Simulation simulation(seconds);
      simulation.texts.resize(num_texts);
      simulation.Run(100);
      EXPECT_GE(simulation.Speed(2000), 0.98 * simulation.PlainSpeed()) << num_texts;
    }
  }
}

TEST(DraftPolicyTest, SilentDraftsCostNothing) {
  Simulation simulation(Steep);
  simulation.texts = {{.chance = 0.9, .made = 0}};
  simulation.Run(500);
  EXPECT_DOUBLE_EQ(simulation.total_seconds, 500 * Steep(1));
}

// New sequences come all the time, each for 100 tokens. What others drafted counts for them.
TEST(DraftPolicyTest, ShortTextsWithWrongDraftsCostLittle) {
  Simulation simulation(Steep);
  simulation.texts.resize(4);
  simulation.Run(200);
  double seconds = 0;
  uint64_t tokens = 0;
  for (int i = 0; i < 20; ++i) {
    for (Simulation::Text& text : simulation.texts) text = {};
    const double before = simulation.total_seconds;
    simulation.Run(100);
    seconds += simulation.total_seconds - before;
    for (const Simulation::Text& text : simulation.texts) tokens += text.num_tokens;
  }
  EXPECT_GE(static_cast<double>(tokens) / seconds, 0.97 * simulation.PlainSpeed());
}

TEST(DraftPolicyTest, NoticesATextThatBeginsToCopy) {
  Simulation simulation(Steep);
  simulation.texts = {{.chance = 0}};
  simulation.Run(1000);
  simulation.texts[0].chance = 1;
  const uint64_t tokens_before = simulation.texts[0].num_tokens;
  simulation.Run(280);
  EXPECT_GT(simulation.texts[0].num_tokens - tokens_before, 300u) << "after one probe at most";
  EXPECT_GT(simulation.Speed(100), 0.95 * BestExpected(Steep, 1));
  simulation.texts[0].chance = 0;
  simulation.Run(30);
  EXPECT_GE(simulation.Speed(500), 0.98 * simulation.PlainSpeed()) << "and that it ended";
}

TEST(DraftPolicyTest, EachTextHasItsOwnNumber) {
  Simulation simulation([](uint32_t num_tokens) { return 0.008 + 0.001 * num_tokens; });
  simulation.texts = {{.chance = 0.95}, {.chance = 0.05}};
  simulation.Run(300);
  for (Simulation::Text& text : simulation.texts) text.num_drafted = text.num_rounds = 0;
  simulation.Run(500);
  const auto mean = [](const Simulation::Text& text) {
    return static_cast<double>(text.num_drafted) / static_cast<double>(text.num_rounds);
  };
  EXPECT_GT(mean(simulation.texts[0]), 1.5);
  EXPECT_LT(mean(simulation.texts[1]), 0.1);
}

// Beside texts without drafts, a text that copies gets as many as cost the others a quarter.
TEST(DraftPolicyTest, DraftsOfOthersSlowATextByAQuarterAtMost) {
  Simulation simulation([](uint32_t num_tokens) { return 0.001 + 0.001 * num_tokens; });
  simulation.texts.resize(4);
  simulation.texts[0] = {.chance = 1};
  simulation.Run(300);
  const double seconds_before = simulation.total_seconds;
  const uint64_t tokens_before = simulation.texts[1].num_tokens;
  simulation.Run(1000);
  const double seconds = simulation.total_seconds - seconds_before;
  const auto tokens = static_cast<double>(simulation.texts[1].num_tokens - tokens_before);
  EXPECT_GE(tokens / seconds, 0.78 / 0.005) << "a step without drafts takes 5 ms";
  EXPECT_GT(simulation.texts[0].num_right, 1000u);
}

TEST(DraftPolicyTest, KeepsToTheTimePerToken) {
  Simulation simulation(Steep);
  simulation.policy = DraftPolicy(absl::Milliseconds(17));  // 4 + 4 * 3 = 16
  simulation.texts = {{.chance = 1}};
  simulation.Run(300);
  EXPECT_LE(simulation.MeanDrafts(300), 2.1);
  EXPECT_GE(simulation.MeanDrafts(300), 1.9);
}

// With many sequences a token costs as much as a sequence.
TEST(DraftPolicyTest, StopsWhereTheBatchIsLarge) {
  const StepSeconds seconds = [](uint32_t num_tokens) {
    return 0.005 + 0.0002 * std::max(0, static_cast<int>(num_tokens) - 16);
  };
  for (const size_t num_texts : {1u, 64u}) {
    Simulation simulation(seconds);
    simulation.texts.assign(num_texts, {.chance = 0.6});
    simulation.Run(300);
    const double drafts = simulation.MeanDrafts(300);
    if (num_texts == 1) {
      EXPECT_GT(drafts, 3);
    } else {
      EXPECT_LT(drafts, 1);
    }
    EXPECT_GE(simulation.Speed(500), 0.98 * simulation.PlainSpeed());
  }
}

TEST(DraftPolicyTest, NoisyTimesDoNotMakeItSlow) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    for (const double chance : {0.0, 0.5, 0.9}) {
      Simulation simulation(Steep, seed);
      simulation.noise_share = 0.5;
      simulation.texts = {{.chance = chance}, {.chance = chance}};
      simulation.Run(300);
      EXPECT_GE(simulation.Speed(3000), 0.95 * simulation.PlainSpeed()) << seed << ' ' << chance;
    }
  }
}

// Contexts grow: every step takes longer than before. The time without drafts is measured anew.
TEST(DraftPolicyTest, FollowsTimesThatChange) {
  double factor = 1;
  Simulation simulation([&factor](uint32_t num_tokens) { return factor * Flat(num_tokens); });
  simulation.texts = {{.chance = 0.8}};
  for (int i = 0; i < 3000; ++i) {
    factor = 1 + i / 500.0;
    simulation.Step();
  }
  EXPECT_GT(simulation.MeanDrafts(200), 4);
  // Drafts become dear, and later cheap again.
  simulation.seconds = Proportional;
  simulation.Run(1500);
  EXPECT_GE(simulation.Speed(1000), 0.95 * simulation.PlainSpeed());
  simulation.seconds = Flat;
  simulation.Run(3000);
  EXPECT_GT(simulation.Speed(1000), 1.5 * simulation.PlainSpeed());
}

// Whatever it knows, it never expects less than without drafts, and hurts no sequence.
TEST(DraftPolicyTest, NeverExpectsLessThanWithoutDrafts) {
  std::mt19937_64 random(17);
  const auto chance = [&random] { return std::uniform_real_distribution<>(0, 1)(random); };
  for (int run = 0; run < 300; ++run) {
    Simulation simulation(
        [a = chance() * 0.01, b = chance() * 0.002](uint32_t n) { return 1e-4 + a + b * n; },
        random());
    simulation.noise_share = 0.9 * chance();
    simulation.texts.resize(1 + random() % 12);
    for (Simulation::Text& text : simulation.texts) {
      text = {.chance = chance(),
              .made = chance(),
              .max_drafts = static_cast<uint32_t>(random() % (kMaxDrafts + 1))};
    }
    for (int step = 0; step < 60; ++step) {
      if (random() % 8 == 0) simulation.texts[random() % simulation.texts.size()].record = {};
      simulation.Step();
      const DraftPolicy::Goodput& goodput = simulation.policy.goodput();
      ASSERT_GE(goodput.chosen, goodput.off) << "run " << run << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace lockstep::router
