#include "kernels/sampling/row_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/sampling/log_softmax.h"
#include "tests/kernels/sampling/random_rows.h"

namespace lockstep::kernels {
namespace {

using ::lockstep::testing::GaussianRow;
using ::lockstep::testing::kInf;
using ::lockstep::testing::kNan;

const Stream kStream{.threads = nullptr, .instruction_set = BestInstructionSet()};
// Around the lanes, the scan blocks and the sum blocks, and two real vocabularies.
constexpr size_t kSizes[] = {1, 2, 15, 16, 17, 63, 64, 65, 1023, 1024, 1025, 5000, 49152, 151936};

// Few distinct values, so that ties are everywhere; some NaN, some -inf.
std::vector<float> CoarseRow(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> row(size);
  for (float& x : row) {
    const uint64_t kind = random() % 20;
    x = kind == 0 ? kNan : kind == 1 ? -kInf : static_cast<float>(random() % 8);
  }
  return row;
}

std::vector<ScoredToken> ReferenceTopK(const std::vector<float>& row, size_t k) {
  std::vector<ScoredToken> all;
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] > -kInf) all.push_back({row[i], static_cast<TokenId>(i)});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  if (all.size() > k) all.resize(k);
  return all;
}

std::vector<TokenId> Ids(const std::vector<ScoredToken>& tokens) {
  std::vector<TokenId> ids;
  for (const ScoredToken& entry : tokens) ids.push_back(entry.token);
  return ids;
}

TEST(FindMaxTest, FindsTheFirstOfTheBest) {
  for (const size_t size : kSizes) {
    for (const auto& row : {GaussianRow(size, size, 3.0f), CoarseRow(size, size)}) {
      const std::vector<ScoredToken> reference = ReferenceTopK(row, 1);
      const ScoredToken found = FindMax(row);
      if (reference.empty()) {
        EXPECT_EQ(found.score, -kInf) << size;
        continue;
      }
      EXPECT_EQ(found.token, reference[0].token) << size;
      EXPECT_EQ(found.score, reference[0].score) << size;
    }
  }
}

TEST(FindMaxTest, NanAndInfinities) {
  EXPECT_EQ(FindMax(std::vector<float>{kNan, kNan}).score, -kInf);
  EXPECT_EQ(FindMax(std::vector<float>{-kInf, kNan}).score, -kInf);
  EXPECT_EQ(FindMax(std::vector<float>{kNan, -3.0f, kNan}).token, 1u);
  const ScoredToken infinite = FindMax(std::vector<float>{0.0f, kInf, kInf});
  EXPECT_EQ(infinite.token, 1u);
  EXPECT_EQ(infinite.score, std::numeric_limits<float>::max());
}

TEST(SelectTopKTest, EqualsAStableSort) {
  std::vector<ScoredToken> best;
  for (const size_t size : kSizes) {
    for (const size_t k :
         {size_t{0}, size_t{1}, size_t{2}, size_t{40}, size_t{1000}, size - 1, size, size + 7}) {
      if (size > 10'000 && k > 1000) continue;
      for (const auto& row : {GaussianRow(size, size + k, 3.0f), CoarseRow(size, size + k)}) {
        SelectTopK(row, k, best);
        ASSERT_EQ(Ids(best), Ids(ReferenceTopK(row, k))) << size << " " << k;
      }
    }
  }
}

TEST(SelectTopKTest, AscendingRowsReplaceEveryCandidate) {
  std::vector<float> row(5000);
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i);
  std::vector<ScoredToken> best;
  SelectTopK(row, 3, best);
  EXPECT_THAT(Ids(best), ::testing::ElementsAre(4999, 4998, 4997));
}

TEST(RankOfTest, IsThePlaceInTheFullOrder) {
  for (const auto& row : {GaussianRow(300, 1, 3.0f), CoarseRow(300, 2)}) {
    std::vector<ScoredToken> order = ReferenceTopK(row, row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      if (!(row[i] > -kInf)) order.push_back({row[i], static_cast<TokenId>(i)});
    }
    for (size_t place = 0; place < order.size(); ++place) {
      EXPECT_EQ(RankOf(row, order[place].token), place + 1) << order[place].token;
    }
  }
}

TEST(ExpSumTest, AgreesWithFp64) {
  for (const size_t size : kSizes) {
    for (const float temperature : {1.0f, 0.3f, 2.5f}) {
      const std::vector<float> row = GaussianRow(size, size, 3.0f);
      const float max = FindMax(row).score;
      double expected = 0;
      for (const float x : row) expected += std::exp((double{x} - max) / temperature);
      std::vector<float> weights(size);
      EXPECT_NEAR(ExpSum(kStream, row, max, temperature, weights) / expected, 1.0, 1e-5) << size;
      EXPECT_EQ(ExpSum(kStream, row, max, temperature, {}),
                ExpSum(kStream, row, max, temperature, weights));
      for (size_t i = 0; i < size; ++i) {
        ASSERT_NEAR(weights[i], std::exp((double{row[i]} - max) / temperature), 1e-6);
      }
    }
  }
}

TEST(ExpSumTest, BitsAreTheSameOnEveryInstructionSet) {
  const std::vector<float> row = GaussianRow(49153, 5, 20.0f);
  std::vector<float> weights(row.size()), expected(row.size());
  const double sum = ExpSum(Stream{}, row, FindMax(row).score, 0.7f, expected);
  for (const InstructionSet set : AvailableInstructionSets()) {
    const Stream stream{.threads = nullptr, .instruction_set = set};
    EXPECT_EQ(ExpSum(stream, row, FindMax(row).score, 0.7f, weights), sum)
        << InstructionSetName(set);
    EXPECT_EQ(weights, expected) << InstructionSetName(set);
  }
}

TEST(ExpSumTest, ExtremeScores) {
  const std::vector<float> row = {kInf, kNan, -kInf, std::numeric_limits<float>::lowest(), 0.0f};
  std::vector<float> weights(row.size());
  EXPECT_EQ(ExpSum(kStream, row, FindMax(row).score, 1e-30f, weights), 1.0);
  EXPECT_THAT(weights, ::testing::ElementsAre(1.0f, 0.0f, 0.0f, 0.0f, 0.0f));
}

TEST(LogSoftmaxTest, AgreesWithFp64) {
  const std::vector<float> logits = GaussianRow(49152, 4, 3.0f);
  double sum = 0;
  for (const float x : logits) sum += std::exp(double{x});
  const auto normalizer = ComputeLogNormalizer(kStream, logits);
  ASSERT_TRUE(normalizer.ok());
  for (size_t i = 0; i < logits.size(); i += 100) {
    EXPECT_NEAR(LogProbability(logits[i], *normalizer), logits[i] - std::log(sum), 2e-6 * 20);
  }
  EXPECT_EQ(LogProbability(kNan, *normalizer), -kInf);
}

TEST(LogSoftmaxTest, ARowWithoutNumbersIsAnError) {
  EXPECT_EQ(ComputeLogNormalizer(kStream, std::vector<float>{kNan, -kInf}).status().code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace lockstep::kernels
