#include "kernels/sampling/sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "kernels/sampling/noise/philox.h"
#include "tests/kernels/sampling/random_rows.h"
#include "tests/kernels/sampling/sample_reference.h"

namespace lockstep::kernels {
namespace {

using ::lockstep::testing::DeviationOf;
using ::lockstep::testing::GaussianRow;
using ::lockstep::testing::kInf;
using ::lockstep::testing::kNan;
using ::lockstep::testing::ManyParams;
using ::lockstep::testing::ReferenceDistribution;
using ::lockstep::testing::ReferenceDraw;

// Samples with a workspace of its own; `logits` is left alone.
absl::StatusOr<TokenId> Sample(const SampleParams& params, std::vector<float> logits,
                               uint32_t position = 0, const std::vector<TokenCount>& seen = {},
                               bool mask_stop_ids = false) {
  SampleWorkspace workspace(static_cast<uint32_t>(logits.size()));
  return SampleToken(params, {logits, seen, mask_stop_ids, position}, workspace);
}

SampleParams Greedy() { return {{.temperature = 0.0f}}; }

TEST(SampleTest, GreedyTakesTheBestAndTiesGoToTheLowestId) {
  EXPECT_EQ(*Sample(Greedy(), {1, 5, 3, 5}), 1u);
  EXPECT_EQ(*Sample(Greedy(), {kNan, -7, kNan, -7}), 1u);
  EXPECT_EQ(*Sample(Greedy(), {0, kInf, kNan, kInf}), 1u);
}

TEST(SampleTest, GreedyIgnoresTheFilters) {
  SampleParams params = Greedy();
  params.top_k = 2;
  params.top_p = 0.1f;
  params.min_p = 0.9f;
  EXPECT_EQ(*Sample(params, GaussianRow(1000, 1, 2.0f)),
            *Sample(Greedy(), GaussianRow(1000, 1, 2.0f)));
}

TEST(SampleTest, NoCandidateIsAnErrorThatNamesThePosition) {
  SampleParams params = Greedy();
  EXPECT_EQ(Sample(params, {kNan, kNan}).status().code(), absl::StatusCode::kInternal);
  params.allowed_token_ids = {1, 2};
  params.stop_token_ids = {2, 1};
  EXPECT_TRUE(Sample(params, {9, 1, 2, 9}).ok());
  const auto masked = Sample(params, {9, 1, 2, 9}, 17, {}, /*mask_stop_ids=*/true);
  EXPECT_EQ(masked.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(masked.status().message()), ::testing::HasSubstr("position 17"));
  params.temperature = 1.0f;
  EXPECT_FALSE(Sample(params, {9, 1, 2, 9}, 17, {}, /*mask_stop_ids=*/true).ok());
}

// A row's mask does what a list of allowed tokens does.
TEST(SampleTest, AMaskAllowsItsTokens) {
  std::mt19937 random(5);
  for (const uint32_t vocab_size : {1u, 31u, 32u, 33u, 100u, 1000u}) {
    const std::vector<float> logits = GaussianRow(vocab_size, vocab_size, 2.0f);
    std::vector<uint32_t> mask((vocab_size + 31) / 32, 0);
    std::vector<TokenId> allowed;
    for (TokenId token = 0; token < vocab_size; ++token) {
      // Words of all kinds: empty, full and mixed.
      const bool allows = token / 32 % 3 == 0 ? random() % 2 == 0 : token / 32 % 3 == 1;
      if (!allows && token + 1 < vocab_size) continue;
      allowed.push_back(token);
      mask[token / 32] |= 1u << token % 32;
    }
    for (const float temperature : {0.0f, 1.0f}) {
      SampleParams listed{{.temperature = temperature}};
      listed.allowed_token_ids = allowed;
      const SampleParams masked{{.temperature = temperature}};
      for (uint32_t position = 0; position < 50; ++position) {
        SampleWorkspace workspace(vocab_size);
        std::vector<float> row = logits;
        EXPECT_EQ(
            *SampleToken(masked,
                         {.logits = row, .seen_tokens = {}, .position = position, .mask = mask},
                         workspace),
            *Sample(listed, logits, position));
      }
    }
  }
  SampleWorkspace workspace(3);
  std::vector<float> row = {1, 2, 3};
  const std::vector<uint32_t> none = {0};
  EXPECT_FALSE(
      SampleToken(Greedy(), {.logits = row, .seen_tokens = {}, .mask = none}, workspace).ok());
}

// What the router sends for bad words.
TEST(SampleTest, TheLowestBiasForbidsAToken) {
  std::vector<float> logits = GaussianRow(1000, 3, 2.0f);
  logits[5] = 1e6f;
  logits[7] = 1e30f;
  for (const float temperature : {0.0f, 0.001f, 1.0f, 100.0f}) {
    for (const float repetition_penalty : {0.1f, 1.0f, 10.0f}) {
      SampleParams params{{.temperature = temperature, .repetition_penalty = repetition_penalty}};
      params.logit_bias_ids = {5, 7};
      params.logit_bias_values = {std::numeric_limits<float>::lowest(),
                                  std::numeric_limits<float>::lowest()};
      for (uint32_t position = 0; position < 200; ++position) {
        const TokenId token = *Sample(params, logits, position, {{.token = 5}, {.token = 7}});
        EXPECT_TRUE(token != 5 && token != 7) << token << " at temperature " << temperature;
      }
    }
  }
}

TEST(SampleTest, AdjustmentsBeforeSampling) {
  SampleParams params = Greedy();
  params.allowed_token_ids = {3, 0};
  EXPECT_EQ(*Sample(params, {1, 9, 9, 2}), 3u);
  params = Greedy();
  params.logit_bias_ids = {0, 2};
  params.logit_bias_values = {-4.0f, 3.5f};
  EXPECT_EQ(*Sample(params, {5, 4, 1, 2}), 2u);
  params = Greedy();
  params.stop_token_ids = {1};
  EXPECT_EQ(*Sample(params, {1, 9, 8}), 1u);
  EXPECT_EQ(*Sample(params, {1, 9, 8}, 0, {}, /*mask_stop_ids=*/true), 2u);
}

TEST(SampleTest, BiasCannotBringBackWhatIsMasked) {
  SampleParams params = Greedy();
  params.allowed_token_ids = {0};
  params.logit_bias_ids = {1};
  params.logit_bias_values = {std::numeric_limits<float>::max()};
  EXPECT_EQ(*Sample(params, {1, 1}), 0u);
  EXPECT_EQ(*Sample(params, {1, kNan}), 0u);
}

TEST(SampleTest, PenaltiesCountPromptAndGeneratedTokensAsDefined) {
  const std::vector<TokenCount> seen = {{0, 0}, {1, 2}};  // 0 in the prompt only, 1 generated twice
  SampleParams params = Greedy();
  params.repetition_penalty = 2.0f;
  EXPECT_EQ(*Sample(params, {4, 5, 2.4f}, 0, seen), 1u);     // 2, 2.5, 2.4
  EXPECT_EQ(*Sample(params, {-1, -1, -1.5f}, 0, seen), 2u);  // -2, -2, -1.5
  params = Greedy();
  params.presence_penalty = 1.0f;
  EXPECT_EQ(*Sample(params, {4, 4.5f, 3.6f}, 0, seen), 0u);  // 4, 3.5, 3.6
  params = Greedy();
  params.frequency_penalty = 0.5f;
  EXPECT_EQ(*Sample(params, {3.4f, 4.5f, 3.6f}, 0, seen), 2u);  // 3.4, 3.5, 3.6
}

TEST(SampleTest, TopKOfOneIsGreedy) {
  SampleParams params{{.temperature = 1.0f, .top_k = 1}};
  for (uint32_t position = 0; position < 50; ++position)
    EXPECT_EQ(*Sample(params, {1, 5, 3, 5}, position), 1u);
}

TEST(SampleTest, TiesAtTheBordersGoToTheLowestIds) {
  const std::vector<float> equal(100, 1.0f);
  const auto drawn = [&equal](const SampleParams& params) {
    std::set<TokenId> tokens;
    for (uint32_t position = 0; position < 400; ++position)
      tokens.insert(*Sample(params, equal, position));
    return tokens;
  };
  EXPECT_EQ(drawn({{.temperature = 1.0f, .top_k = 3}}), (std::set<TokenId>{0, 1, 2}));
  // The token that crosses the border belongs to the nucleus.
  EXPECT_EQ(drawn({{.temperature = 1.0f, .top_p = 0.035f}}), (std::set<TokenId>{0, 1, 2, 3}));
  EXPECT_EQ(drawn({{.temperature = 1.0f, .top_p = 1e-6f}}), (std::set<TokenId>{0}));
}

TEST(SampleTest, TinyTemperatureIsGreedyWithoutOverflow) {
  for (const float temperature : {1e-3f, 1e-30f, std::numeric_limits<float>::denorm_min()}) {
    const std::vector<float> row = GaussianRow(500, 2, 2.0f);
    EXPECT_EQ(*Sample({{.temperature = temperature}}, row), *Sample(Greedy(), row)) << temperature;
  }
}

TEST(SampleTest, ResultDependsOnSeedSampleAndPosition) {
  const std::vector<float> row(4096, 0.0f);
  const SampleParams params{{.temperature = 1.0f}, 1};
  SampleParams other_seed = params, other_sample = params;
  other_seed.seed = 2;
  other_sample.sample_index = 1;
  EXPECT_EQ(*Sample(params, row, 3), *Sample(params, row, 3));
  const std::set<TokenId> distinct = {*Sample(params, row, 3), *Sample(params, row, 4),
                                      *Sample(other_seed, row, 3), *Sample(other_sample, row, 3)};
  EXPECT_EQ(distinct.size(), 4u);
}

TEST(SampleTest, EqualsTheFp64Reference) {
  int num_compared = 0, num_skipped = 0;
  for (const size_t vocab_size : {size_t{5}, size_t{64}, size_t{1500}, size_t{20'000}}) {
    const std::vector<SampleParams> all = ManyParams(vocab_size);
    SampleWorkspace workspace(
        static_cast<uint32_t>(vocab_size));  // shared: nothing may linger in it
    for (size_t i = 0; i < all.size(); ++i) {
      if (vocab_size > 5000 && i % 7 != 0) continue;
      std::vector<float> logits = GaussianRow(vocab_size, i, 2.0f);
      logits[i % vocab_size] = kNan;
      const std::vector<TokenCount> seen = {{1, 0}, {2, 1}, {3, 4}};
      const bool mask = i % 2 == 0;
      const std::vector<TokenCount> counted =
          all[i].has_penalties() ? seen : std::vector<TokenCount>{};
      const auto distribution = ReferenceDistribution(all[i], logits, counted, mask);
      for (uint32_t position = 0; position < 10; ++position) {
        const auto expected = ReferenceDraw(distribution, {.seed = 0, .position = position});
        std::vector<float> scratch = logits;
        const auto token = SampleToken(all[i], {scratch, counted, mask, position}, workspace);
        ASSERT_TRUE(token.ok());
        if (!expected) {
          ++num_skipped;
          continue;
        }
        ++num_compared;
        ASSERT_EQ(*token, *expected) << vocab_size << " params " << i << " position " << position;
      }
    }
  }
  EXPECT_GT(num_compared, 2000);
  EXPECT_LT(num_skipped * 20, num_compared);
}

// Draws over positions follow the exact distribution, filters included.
TEST(SampleTest, DrawsFollowTheDistribution) {
  constexpr uint32_t kNumDraws = 40'000;
  const std::vector<float> logits = GaussianRow(40, 3, 1.0f);
  for (const SampleParams& params :
       {SampleParams{{.temperature = 1.0f}, 11},
        SampleParams{{.temperature = 1.3f, .top_k = 12}, 12},
        SampleParams{{.temperature = 0.8f, .top_p = 0.8f}, 13},
        SampleParams{{.temperature = 1.0f, .min_p = 0.1f}, 14},
        SampleParams{{.temperature = 1.1f, .top_p = 0.9f, .min_p = 0.05f, .top_k = 20}, 15},
        SampleParams{{.temperature = 2.0f, .frequency_penalty = 0.7f}, 16}}) {
    const std::vector<TokenCount> seen = {{1, 0}, {2, 1}, {3, 4}};
    const auto counted = params.has_penalties() ? seen : std::vector<TokenCount>{};
    std::map<TokenId, int> counts;
    SampleWorkspace workspace(40);
    for (uint32_t position = 0; position < kNumDraws; ++position) {
      std::vector<float> scratch = logits;
      ++counts[*SampleToken(params, {scratch, counted, false, position}, workspace)];
    }
    EXPECT_LT(DeviationOf(counts, ReferenceDistribution(params, logits, counted, false)), 5)
        << "seed " << params.seed;
  }
}

// What is unlikely is drawn as often as it should be: the noise's far end is not rounded away.
TEST(SampleTest, UnlikelyTokensGetTheirShare) {
  constexpr uint32_t kNumDraws = 4'000'000;
  std::vector<float> logits(16, -9.0f);
  logits[5] = 0.0f;
  std::map<TokenId, int> counts;
  SampleWorkspace workspace(16);
  const SampleParams params = {{.temperature = 1.0f}, 21};
  std::vector<float> scratch;
  for (uint32_t position = 0; position < kNumDraws; ++position) {
    scratch = logits;
    ++counts[*SampleToken(params, {scratch, {}, false, position}, workspace)];
  }
  EXPECT_LT(DeviationOf(counts, ReferenceDistribution(params, logits, {}, false)), 5);
}

// A filter leaves the noise alone: the token drawn without it is drawn with it, if it remains.
TEST(SampleTest, FiltersOnlyTakeTokensAway) {
  const std::vector<float> logits = GaussianRow(3000, 5, 2.0f);
  int num_kept = 0;
  for (uint32_t position = 0; position < 300; ++position) {
    const SampleParams plain = {{.temperature = 1.0f}, 4};
    const TokenId drawn = *Sample(plain, logits, position);
    for (const SampleParams& filtered : {SampleParams{{.temperature = 1.0f, .top_k = 200}, 4},
                                         SampleParams{{.temperature = 1.0f, .top_p = 0.7f}, 4},
                                         SampleParams{{.temperature = 1.0f, .min_p = 0.02f}, 4}}) {
      const auto kept = ReferenceDistribution(filtered, logits, {}, false);
      const bool remains = std::any_of(kept.begin(), kept.end(),
                                       [&](const auto& entry) { return entry.first == drawn; });
      if (!remains) continue;
      ++num_kept;
      EXPECT_EQ(*Sample(filtered, logits, position), drawn) << position;
    }
  }
  EXPECT_GT(num_kept, 300);
}

TEST(SampleTest, AWorkspaceMakesNoDifference) {
  SampleWorkspace used(3000);
  for (uint32_t i = 0; i < 30; ++i) {
    const SampleParams params{{.temperature = 1.0f, .top_p = 0.9f, .top_k = i % 2 == 0 ? 0 : 50u},
                              i};
    std::vector<float> logits = GaussianRow(3000, i, 2.0f);
    const TokenId alone = *Sample(params, logits, i);
    EXPECT_EQ(*SampleToken(params, {logits, {}, false, i}, used), alone);
  }
}

}  // namespace
}  // namespace lockstep::kernels
