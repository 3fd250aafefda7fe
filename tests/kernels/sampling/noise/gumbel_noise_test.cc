#include "kernels/sampling/noise/gumbel_noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/core/instruction_set.h"
#include "kernels/sampling/noise/best_with_noise.h"
#include "tests/kernels/sampling/random_rows.h"

namespace lockstep::kernels {
namespace {

using ::lockstep::testing::GaussianRow;
using ::lockstep::testing::kInf;
using ::lockstep::testing::kNan;

double ExactNoise(uint32_t word) {
  const double u = (static_cast<double>(word) + 0.5) * 0x1p-32;
  return -std::log(-std::log(u));
}

// Random words of every magnitude, near both ends and near where the formula changes.
std::vector<uint32_t> ManyWords() {
  std::vector<uint32_t> words;
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const uint32_t word = static_cast<uint32_t>(random()) >> (i % 32);
    words.push_back(word);
    words.push_back(~word);
  }
  for (uint32_t i = 0; i < 2000; ++i) {
    for (const uint32_t start : {0u, 0u - 2000, 0xB504F334u - 1000, 0x80000000u - 1000}) {
      words.push_back(start + i);
    }
  }
  return words;
}

TEST(GumbelNoiseTest, IsAccurateUpToBothEnds) {
  for (const uint32_t word : ManyWords()) {
    const double exact = ExactNoise(word);
    // Near e^-1 the noise passes zero, where only the absolute error counts.
    ASSERT_NEAR(GumbelNoise(word), exact, 3e-7 * std::max(1.0, std::abs(exact))) << word;
  }
}

TEST(GumbelNoiseTest, TheLargestWordsDiffer) {
  // A u that is rounded to fp32 would be 1 for the last 128 words, and the noise infinite.
  EXPECT_NEAR(GumbelNoise(UINT32_MAX), 33 * std::log(2.0), 1e-5);
  EXPECT_GT(GumbelNoise(UINT32_MAX), GumbelNoise(UINT32_MAX - 1) + 1);
  EXPECT_LE(GumbelNoise(UINT32_MAX), kMaxGumbelNoise);
  EXPECT_NEAR(GumbelNoise(0), -std::log(33 * std::log(2.0)), 1e-6);
}

TEST(GumbelNoiseTest, TheCheapBoundHoldsAndIsClose) {
  for (const uint32_t word : ManyWords()) {
    ASSERT_GE(GumbelNoiseAtMost(word), GumbelNoise(word)) << word;
    // Close where it matters: where the noise is large, but for the last 2^-13 of all words' ends.
    if (word > 0xC0000000u && word < 0u - (1u << 19)) {
      ASSERT_LT(GumbelNoiseAtMost(word), GumbelNoise(word) + 0.25f) << word;
    }
  }
}

TEST(GumbelNoiseTest, HasTheMomentsOfItsDistribution) {
  constexpr int kNumGroups = 250'000;
  double sum = 0, sum_of_squares = 0;
  for (uint32_t group = 0; group < kNumGroups; ++group) {
    for (const uint32_t word : NoiseWords({.seed = 3}, group)) {
      const double noise = GumbelNoise(word);
      sum += noise;
      sum_of_squares += noise * noise;
    }
  }
  constexpr double kCount = 4.0 * kNumGroups;
  const double mean = sum / kCount;
  constexpr double kEulerMascheroni = 0.5772156649, kVariance = 1.6449340668;
  EXPECT_NEAR(mean, kEulerMascheroni, 0.006);
  EXPECT_NEAR(sum_of_squares / kCount - mean * mean, kVariance, 0.015);
}

// Every score with its exact noise, without any shortcut.
NoisyToken BestOfAll(const NoisyDraw& draw, const std::vector<float>& scores) {
  NoisyToken best = {.value = -kInf, .token = 0};
  for (TokenId token = 0; token < scores.size(); ++token) {
    const float score = std::isnan(scores[token]) ? -kInf : scores[token];
    const float distance = std::min(score, std::numeric_limits<float>::max()) - draw.max;
    if (std::exp(distance / draw.temperature) < draw.min_p) continue;
    const float value = distance * draw.inverse_temperature +
                        GumbelNoise(NoiseWords(draw.key, token / 4)[token % 4]);
    if (value > best.value) best = {value, token};
  }
  return best;
}

TEST(BestWithNoiseTest, EqualsTheBestOfAllOnEveryInstructionSet) {
  for (const size_t size : {1u, 3u, 4u, 5u, 255u, 256u, 257u, 1000u, 49'153u}) {
    for (const float temperature : {0.25f, 1.0f, 3.0f}) {
      std::vector<float> scores = GaussianRow(size, size, 3.0f);
      if (size > 4) {
        scores[1] = kNan;
        scores[4] = -kInf;
      }
      NoisyDraw draw = {
          .max = *std::max_element(scores.begin(), scores.end(),
                                   [](float a, float b) { return std::isnan(a) || a < b; }),
          .temperature = temperature,
          .inverse_temperature = 1 / temperature,
          .min_p = size % 2 == 0 ? 0.0f : 0.01f};
      for (uint32_t position = 0; position < 30; ++position) {
        draw.key = {.seed = size, .position = position};
        const NoisyToken expected = BestOfAll(draw, scores);
        for (const InstructionSet set : AvailableInstructionSets()) {
          const Stream stream{.threads = nullptr, .instruction_set = set};
          const NoisyToken best = BestWithNoise(stream, draw, scores, {-kInf, 0});
          ASSERT_EQ(best.token, expected.token) << size << " " << InstructionSetName(set);
          ASSERT_EQ(best.value, expected.value) << size << " " << InstructionSetName(set);
        }
      }
    }
  }
}

TEST(BestWithNoiseTest, EqualValuesGoToTheLowestId) {
  const std::vector<float> scores = GaussianRow(300, 1, 1.0f);
  const NoisyDraw draw = {.max = 0};
  const NoisyToken best = BestWithNoise(Stream{}, draw, scores, {-kInf, 0});
  ASSERT_GT(best.token, 0u);
  EXPECT_EQ(BestWithNoise(Stream{}, draw, scores, {best.value, best.token + 1}).token, best.token);
  EXPECT_EQ(BestWithNoise(Stream{}, draw, scores, {best.value, best.token - 1}).token,
            best.token - 1);
}

}  // namespace
}  // namespace lockstep::kernels
