#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/sampling/cuda/sample_cuda.h"
#include "kernels/sampling/log_softmax.h"
#include "kernels/sampling/row_reduce.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/sampling/sample_cuda_batch.h"
#include "tests/support/cuda_test.h"

namespace lockstep::kernels {
namespace {

using testing::DeviceArray;
using testing::GaussianLogits;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct DescribedRow {
  std::vector<float> logits;
  TokenId token = 0;
  int32_t num_best = 0;
};

class DescribeCudaTest : public testing::CudaTest {
 protected:
  std::vector<RowDescription> Describe(const std::vector<DescribedRow>& rows) const {
    const size_t vocab_size = rows.front().logits.size();
    const size_t stride = (vocab_size + 7) / 4 * 4;
    std::vector<float> logits(rows.size() * stride, kNan);
    std::vector<TokenId> tokens;
    std::vector<int32_t> num_best;
    for (size_t i = 0; i < rows.size(); ++i) {
      std::copy(rows[i].logits.begin(), rows[i].logits.end(),
                logits.begin() + static_cast<std::ptrdiff_t>(i * stride));
      tokens.push_back(rows[i].token);
      num_best.push_back(rows[i].num_best);
    }
    const DeviceArray<float> device_logits(logits);
    const DeviceArray<TokenId> device_tokens(tokens);
    const DeviceArray<int32_t> device_num_best(num_best);
    const DeviceArray<RowDescription> descriptions(rows.size());
    EXPECT_THAT(DescribeRows(stream_, {.logits = device_logits.data(),
                                       .row_stride = static_cast<int64_t>(stride),
                                       .num_rows = static_cast<int64_t>(rows.size()),
                                       .vocab_size = static_cast<int64_t>(vocab_size),
                                       .tokens = device_tokens.data(),
                                       .num_best = device_num_best.data(),
                                       .descriptions = descriptions.data()}),
                IsOk());
    std::vector<RowDescription> result = descriptions.Read();
    descriptions.ExpectGuardsIntact();
    return result;
  }

  // Ids and ranks exactly as the CPU's, log-probabilities to fp32's precision.
  static void ExpectAsOnTheCpu(const RowDescription& actual, const DescribedRow& row) {
    const absl::StatusOr<LogNormalizer> normalizer = ComputeLogNormalizer(Stream{}, row.logits);
    ASSERT_TRUE(normalizer.ok());
    const auto expect_near = [&](float logprob, float logit) {
      const float expected = LogProbability(logit, *normalizer);
      if (std::isinf(expected)) {
        EXPECT_EQ(logprob, expected);
      } else {
        EXPECT_NEAR(logprob, expected, 1e-5 + std::abs(expected) * 1e-6);
      }
    };
    EXPECT_EQ(actual.status, kSampled);
    EXPECT_EQ(actual.rank, RankOf(row.logits, row.token));
    expect_near(actual.logprob, row.logits[row.token]);
    std::vector<ScoredToken> best;
    SelectTopK(row.logits, static_cast<size_t>(row.num_best), best);
    ASSERT_EQ(actual.num_best, best.size());
    for (size_t i = 0; i < best.size(); ++i) {
      EXPECT_EQ(actual.best_tokens[i], best[i].token) << "best " << i;
      expect_near(actual.best_logprobs[i], best[i].score);
    }
  }
  void ExpectAllAsOnTheCpu(const std::vector<DescribedRow>& rows) const {
    const std::vector<RowDescription> descriptions = Describe(rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      SCOPED_TRACE(i);
      ExpectAsOnTheCpu(descriptions[i], rows[i]);
    }
  }
};

TEST_F(DescribeCudaTest, EqualsTheCpu) {
  for (const size_t vocab_size : {1u, 30u, 1000u, 50'257u, 151'936u}) {
    SCOPED_TRACE(vocab_size);
    std::vector<DescribedRow> rows;
    for (uint32_t i = 0; i < 6; ++i) {
      rows.push_back({.logits = GaussianLogits(vocab_size, i, i % 2 == 0 ? 0.3f : 3.0f),
                      .token = static_cast<TokenId>((i * 7919) % vocab_size),
                      .num_best = static_cast<int32_t>(i * 4)});
    }
    // Coarse values: ties everywhere.
    for (float& logit : rows[2].logits) logit = std::round(logit * 8) / 8;
    ExpectAllAsOnTheCpu(rows);
  }
}

TEST_F(DescribeCudaTest, DescribesWhateverTheLogitsAre) {
  constexpr size_t kVocabSize = 30'000;
  std::vector<DescribedRow> rows;
  rows.push_back({.logits = std::vector<float>(kVocabSize, 0.5f), .token = 77, .num_best = 20});
  // Two levels, a whole list of candidates at each, far apart.
  rows.push_back(
      {.logits = std::vector<float>(kVocabSize, -1e30f), .token = 29'999, .num_best = 20});
  for (size_t i = 20'000; i < 20'010; ++i) rows.back().logits[i] = 12.0f;
  // Fewer numbers than are asked for.
  rows.push_back({.logits = std::vector<float>(kVocabSize, -kInf), .token = 3, .num_best = 20});
  rows.back().logits[40] = -5.0f;
  rows.back().logits[9'000] = -4.0f;
  rows.push_back({.logits = GaussianLogits(kVocabSize, 1), .token = 2, .num_best = 20});
  rows.back().logits[2] = kNan;
  rows.back().logits[3] = kInf;
  rows.back().logits[29'000] = kInf;
  rows.back().logits[7] = std::numeric_limits<float>::max();
  ExpectAllAsOnTheCpu(rows);
}

TEST_F(DescribeCudaTest, ARowIsTheSameAloneAndInAnyBatch) {
  std::vector<DescribedRow> rows;
  for (uint32_t i = 0; i < 40; ++i) {
    rows.push_back({.logits = GaussianLogits(20'000, i), .token = i * 13, .num_best = 20});
  }
  const std::vector<RowDescription> all = Describe(rows);
  for (const size_t i : {0u, 17u, 39u}) {
    const RowDescription alone = Describe({rows[i]})[0];
    EXPECT_EQ(alone.logprob, all[i].logprob);
    for (uint32_t j = 0; j < 20; ++j) {
      EXPECT_EQ(alone.best_tokens[j], all[i].best_tokens[j]);
      EXPECT_EQ(alone.best_logprobs[j], all[i].best_logprobs[j]);
    }
  }
}

TEST_F(DescribeCudaTest, RowsWithoutDescriptionSaySo) {
  const std::vector<RowDescription> descriptions =
      Describe({{.logits = {1, 2, 3, 4}, .token = 1, .num_best = -1},
                {.logits = {kNan, -kInf, kNan, -kInf}, .token = 1, .num_best = 3},
                {.logits = {1, 2, 3, 4}, .token = 1, .num_best = 0}});
  EXPECT_EQ(descriptions[0].rank, 0u);
  EXPECT_EQ(descriptions[1].rank, 0u);
  EXPECT_EQ(descriptions[1].status, kNoTokenLeft);
  EXPECT_EQ(descriptions[2].rank, 3u);
  EXPECT_EQ(descriptions[2].num_best, 0u);
}

}  // namespace
}  // namespace lockstep::kernels
