#include "tests/rigs/simulation/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace lockstep::bench {
namespace {

std::vector<Turn> AllOf(const TraceOptions& options) {
  std::vector<Turn> turns;
  Trace trace(options);
  while (trace.NextAt().has_value()) {
    const absl::Duration at = *trace.NextAt();
    turns.push_back(trace.Next());
    EXPECT_EQ(turns.back().at, at);
  }
  return turns;
}

TEST(TraceTest, TheSameSeedGivesTheSameRequestsInOrderOfTime) {
  const std::vector<Turn> turns = AllOf({.num_requests = 300});
  const std::vector<Turn> again = AllOf({.num_requests = 300});
  ASSERT_EQ(turns.size(), 300u);
  for (size_t i = 0; i < turns.size(); ++i) {
    EXPECT_EQ(turns[i].prompt, again[i].prompt);
    EXPECT_EQ(turns[i].output, again[i].output);
    EXPECT_EQ(turns[i].at, again[i].at);
    EXPECT_GE(turns[i].at, turns[i == 0 ? 0 : i - 1].at);
  }
  EXPECT_NE(AllOf({.seed = 2, .num_requests = 1})[0].prompt, turns[0].prompt);
}

TEST(TraceTest, ATurnContinuesWhatWasSaid) {
  const std::vector<Turn> turns = AllOf({.num_requests = 300, .max_context_tokens = 2000});
  const auto continues = [](const Turn& before, const Turn& after) {
    std::vector<TokenId> said = before.prompt;
    said.insert(said.end(), before.output.begin(), before.output.end());
    return after.prompt.size() > said.size() && after.at > before.at &&
           std::equal(said.begin(), said.end(), after.prompt.begin());
  };
  int num_continued = 0;
  for (const Turn& turn : turns) {
    EXPECT_LE(turn.prompt.size() + turn.output.size(), 2000u);
    num_continued +=
        std::ranges::any_of(turns, [&](const Turn& before) { return continues(before, turn); });
  }
  EXPECT_GT(num_continued, 100);
}

TEST(TraceTest, SystemPromptsFollowZipfsLaw) {
  std::map<TokenId, int> count_of;
  for (const Turn& turn : AllOf({.num_requests = 2000, .num_system_prompts = 8, .mean_turns = 1})) {
    ++count_of[turn.prompt[0]];
  }
  ASSERT_EQ(count_of.size(), 8u);
  std::vector<int> counts;
  for (const auto& [token, count] : count_of) counts.push_back(count);
  std::ranges::sort(counts, std::greater());
  // 1 / (1 + 1/2 + ... + 1/8) is 0.368, and a half of it.
  EXPECT_NEAR(counts[0], 736, 80);
  EXPECT_NEAR(counts[1], 368, 60);
}

}  // namespace
}  // namespace lockstep::bench
