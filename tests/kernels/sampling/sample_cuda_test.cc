#include "kernels/sampling/cuda/sample_cuda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "kernels/sampling/sample.h"
#include "tests/kernels/sampling/sample_cuda_batch.h"
#include "tests/kernels/sampling/sample_reference.h"
#include "tests/support/cuda_test.h"

namespace lockstep::kernels {
namespace {

using testing::DeviationOf;
using testing::GaussianLogits;
using testing::ManyParams;
using testing::ReferenceDistribution;
using testing::ReferenceDraw;
using testing::SampleCase;
using testing::SampledBatch;
using testing::SampleOnDevice;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SampleParams Greedy() { return {{.temperature = 0.0f}}; }

class SampleCudaTest : public testing::CudaTest {
 protected:
  // Rows padded to a multiple of 4, as a GEMM's output is.
  SampledBatch Sample(const std::vector<SampleCase>& cases, size_t num_padding = 0) const {
    const auto vocab_size = static_cast<int64_t>(cases.front().logits.size());
    return SampleOnDevice(stream_, cases, (vocab_size + 7) / 4 * 4, num_padding);
  }
  TokenId SampleOne(const SampleCase& one) const {
    const SampledBatch batch = Sample({one});
    EXPECT_EQ(batch.statuses[0], kSampled);
    return batch.tokens[0];
  }
  // Tokens drawn at 400 positions.
  std::set<TokenId> Drawn(const SampleParams& params, const std::vector<float>& logits) const {
    std::vector<SampleCase> cases;
    for (uint32_t position = 1; position <= 400; ++position) {
      cases.push_back({.params = params, .logits = logits, .position = position});
    }
    const SampledBatch batch = Sample(cases);
    return {batch.tokens.begin(), batch.tokens.end()};
  }
};

TEST_F(SampleCudaTest, GreedyTakesTheBestAndTiesGoToTheLowestId) {
  EXPECT_EQ(SampleOne({.params = Greedy(), .logits = {1, 5, 3, 5}}), 1u);
  EXPECT_EQ(SampleOne({.params = Greedy(), .logits = {kNan, -7, kNan, -7}}), 1u);
  EXPECT_EQ(SampleOne({.params = Greedy(), .logits = {0, kInf, kNan, kInf}}), 1u);
  EXPECT_EQ(SampleOne({.params = Greedy(), .logits = {-1, -0.0f, 0.0f, -0.0f}}), 1u);
}

TEST_F(SampleCudaTest, GreedyEqualsTheCpuOnEveryShape) {
  for (const size_t vocab_size : {1u, 5u, 33u, 4096u, 50'257u, 151'936u, 262'144u}) {
    std::vector<SampleCase> cases;
    for (uint32_t i = 0; i < 5; ++i) {
      std::vector<float> logits = GaussianLogits(vocab_size, i);
      if (i % 2 == 1) {  // coarse values: many ties
        for (float& logit : logits) logit = std::round(logit * 4) / 4;
      }
      if (vocab_size > 1) logits[i % vocab_size] = kNan;
      cases.push_back({.params = Greedy(), .logits = std::move(logits)});
    }
    const SampledBatch batch = Sample(cases);
    for (size_t i = 0; i < cases.size(); ++i) {
      EXPECT_EQ(batch.tokens[i], FindMax(cases[i].logits).token) << vocab_size << " row " << i;
    }
    for (const size_t num_padding : {size_t{0}, size_t{20}, size_t{60}}) {  // few rows, many
      for (const int64_t stride : {batch.row_stride, static_cast<int64_t>(vocab_size)}) {
        const SampledBatch plain =
            SampleOnDevice(stream_, cases, stride, num_padding, /*all_plain_greedy=*/true);
        EXPECT_EQ(plain.statuses[0], num_padding == 0 ? kSampled : kNotSampled);
        EXPECT_TRUE(std::equal(batch.tokens.begin(), batch.tokens.end(),
                               plain.tokens.begin() + static_cast<std::ptrdiff_t>(num_padding)))
            << vocab_size << " stride " << stride;
      }
    }
  }
}

TEST_F(SampleCudaTest, RowsThatStartAnywhereAreRead) {
  const std::vector<SampleCase> cases = {
      {.params = Greedy(), .logits = GaussianLogits(50'257, 1)},
      {.params = Greedy(), .logits = GaussianLogits(50'257, 2)},
      {.params = {{.temperature = 1.0f, .top_p = 0.9f}}, .logits = GaussianLogits(50'257, 3)}};
  EXPECT_EQ(SampleOnDevice(stream_, cases, 50'257).tokens, Sample(cases).tokens);
}

TEST_F(SampleCudaTest, NoTokenLeftIsAStatus) {
  SampleParams allowed = Greedy();
  allowed.allowed_token_ids = {1, 2};
  allowed.stop_token_ids = {2, 1};
  SampleParams drawn = allowed;
  drawn.temperature = 1.0f;
  const SampledBatch batch =
      Sample({{.params = Greedy(), .logits = {kNan, -kInf, kNan, kNan}},
              {.params = {{.temperature = 1.0f}}, .logits = {kNan, -kInf, kNan, kNan}},
              {.params = allowed, .logits = {9, 1, 2, 9}, .mask_stop_ids = true},
              {.params = drawn, .logits = {9, 1, 2, 9}, .mask_stop_ids = true},
              {.params = allowed, .logits = {9, 1, 2, 9}}},
             /*num_padding=*/2);
  EXPECT_EQ(batch.statuses,
            (std::vector<uint32_t>{kNotSampled, kNotSampled, kNoTokenLeft, kNoTokenLeft,
                                   kNoTokenLeft, kNoTokenLeft, kSampled}));
  EXPECT_EQ(batch.tokens, (std::vector<TokenId>{0, 0, 0, 0, 0, 0, 2}));
  EXPECT_EQ(batch.num_best[0], -1);
}

TEST_F(SampleCudaTest, BiasCannotBringBackWhatIsMasked) {
  SampleParams params = Greedy();
  params.allowed_token_ids = {0};
  params.logit_bias_ids = {1};
  params.logit_bias_values = {std::numeric_limits<float>::max()};
  EXPECT_EQ(SampleOne({.params = params, .logits = {1, 1}}), 0u);
  EXPECT_EQ(SampleOne({.params = params, .logits = {1, kNan}}), 0u);
}

TEST_F(SampleCudaTest, PenaltiesCountPromptAndGeneratedTokensAsDefined) {
  const std::vector<TokenCount> seen = {{0, 0}, {1, 2}};
  const auto sample = [&](const SampleParams& params, const std::vector<float>& logits) {
    return SampleOne({.params = params, .logits = logits, .seen = seen});
  };
  SampleParams params = Greedy();
  params.repetition_penalty = 2.0f;
  EXPECT_EQ(sample(params, {4, 5, 2.4f}), 1u);
  EXPECT_EQ(sample(params, {-1, -1, -1.5f}), 2u);
  params = Greedy();
  params.presence_penalty = 1.0f;
  EXPECT_EQ(sample(params, {4, 4.5f, 3.6f}), 0u);
  params = Greedy();
  params.frequency_penalty = 0.5f;
  EXPECT_EQ(sample(params, {3.4f, 4.5f, 3.6f}), 2u);
}

TEST_F(SampleCudaTest, TiesAtTheBordersGoToTheLowestIds) {
  // The second is more than any list of candidates holds.
  for (const size_t vocab_size : {size_t{100}, size_t{20'000}}) {
    const std::vector<float> equal(vocab_size, 1.0f);
    const auto share = [&](double count) {
      return static_cast<float>(count / static_cast<double>(vocab_size));
    };
    EXPECT_EQ(Drawn({{.temperature = 1.0f, .top_k = 1}}, equal), (std::set<TokenId>{0}));
    EXPECT_EQ(Drawn({{.temperature = 1.0f, .top_k = 3}}, equal), (std::set<TokenId>{0, 1, 2}));
    EXPECT_EQ(Drawn({{.temperature = 1.0f, .top_p = share(3.5)}}, equal),
              (std::set<TokenId>{0, 1, 2, 3}));
    EXPECT_EQ(Drawn({{.temperature = 1.0f, .top_p = 1e-6f}}, equal), (std::set<TokenId>{0}));
  }
}

TEST_F(SampleCudaTest, TinyTemperatureIsGreedyWithoutOverflow) {
  for (const float temperature : {1e-3f, 1e-30f, std::numeric_limits<float>::denorm_min()}) {
    const std::vector<float> logits = GaussianLogits(500, 2);
    for (const float top_p : {1.0f, 0.9f}) {
      const SampleParams params = {{.temperature = temperature, .top_p = top_p}};
      EXPECT_EQ(SampleOne({.params = params, .logits = logits}), FindMax(logits).token);
    }
  }
}

TEST_F(SampleCudaTest, InfinityIsTheLargestFiniteNumber) {
  const std::vector<float> logits = {0, kInf, -kInf, kInf, 3};
  for (const SampleParams& params :
       {SampleParams{{.temperature = 1.0f}}, SampleParams{{.temperature = 1.0f, .top_p = 0.99f}},
        SampleParams{{.temperature = 1.0f, .min_p = 0.1f}}}) {
    EXPECT_EQ(Drawn(params, logits), (std::set<TokenId>{1, 3}));
  }
}

std::vector<SampleCase> ManyCases(size_t vocab_size, size_t step, float scale) {
  std::vector<SampleCase> cases;
  const std::vector<SampleParams> all = ManyParams(vocab_size);
  for (size_t i = 0; i < all.size(); i += step) {
    std::vector<float> logits = GaussianLogits(vocab_size, i, scale);
    logits[i % vocab_size] = kNan;
    std::vector<TokenCount> seen;
    if (all[i].has_penalties()) seen = {{1, 0}, {2, 1}, {3, 4}};
    for (uint32_t position = 1; position < 4; ++position) {
      cases.push_back({.params = all[i],
                       .logits = logits,
                       .seen = seen,
                       .mask_stop_ids = i % 2 == 0,
                       .position = position});
    }
  }
  return cases;
}

TEST_F(SampleCudaTest, EqualsTheFp64Reference) {
  struct Shape {
    size_t vocab_size, step;
    float scale;
  };
  int num_compared = 0, num_skipped = 0;
  for (const auto& [vocab_size, step, scale] :
       {Shape{5, 1, 2}, Shape{64, 1, 2}, Shape{1500, 1, 2}, Shape{20'000, 4, 2},
        Shape{20'000, 7, 0.3f}, Shape{151'936, 25, 2}, Shape{151'936, 31, 0.5f}}) {
    const std::vector<SampleCase> cases = ManyCases(vocab_size, step, scale);
    const SampledBatch batch = Sample(cases);
    for (size_t i = 0; i < cases.size(); ++i) {
      const SampleCase& one = cases[i];
      ASSERT_EQ(batch.statuses[i], kSampled);
      const auto expected =
          ReferenceDraw(ReferenceDistribution(one.params, one.logits, one.seen, one.mask_stop_ids),
                        {.seed = 0, .position = one.position});
      ++(expected ? num_compared : num_skipped);
      if (!expected) continue;
      EXPECT_EQ(batch.tokens[i], *expected)
          << "vocabulary " << vocab_size << " scale " << scale << " case " << i << ": temperature "
          << one.params.temperature << " top_k " << one.params.top_k << " top_p "
          << one.params.top_p << " min_p " << one.params.min_p;
    }
  }
  EXPECT_GT(num_compared, 1000);
  EXPECT_LT(num_skipped * 20, num_compared);
}

TEST_F(SampleCudaTest, ARowIsTheSameAloneAndInAnyBatch) {
  std::vector<SampleCase> cases = ManyCases(20'000, 5, 1.0f);
  cases.resize(60);
  for (size_t i = 0; i < cases.size(); i += 4) cases[i].params.temperature = 0.0f;
  const SampledBatch batch = Sample(cases);
  std::vector<SampleCase> reversed(cases.rbegin(), cases.rend());
  std::vector<TokenId> again = Sample(reversed, /*num_padding=*/5).tokens;
  again.erase(again.begin(), again.begin() + 5);
  std::reverse(again.begin(), again.end());
  EXPECT_EQ(again, batch.tokens);
  for (const size_t i : {0u, 1u, 7u, 30u, 59u}) EXPECT_EQ(SampleOne(cases[i]), batch.tokens[i]);
}

// No sums are needed here, and everything else has the CPU's bits.
TEST_F(SampleCudaTest, WithoutTopPTokensAreTheCpus) {
  for (const size_t vocab_size : {3u, 1024u, 50'257u, 151'936u}) {
    std::vector<SampleCase> cases;
    for (uint32_t position = 1; position <= 60; ++position) {
      SampleParams params = {{.temperature = 0.3f + 0.05f * static_cast<float>(position),
                              .min_p = position % 5 == 0 ? 0.003f : 0.0f,
                              .top_k = position % 3 == 0 ? 40u : 0u},
                             uint64_t{position} << 30};
      std::vector<float> logits =
          GaussianLogits(vocab_size, position, position % 2 == 0 ? 2.0f : 0.2f);
      if (position % 4 == 0) {  // coarse values: many ties
        for (float& logit : logits) logit = std::round(logit);
      }
      cases.push_back({.params = params, .logits = std::move(logits), .position = position * 1000});
    }
    const SampledBatch batch = Sample(cases);
    SampleWorkspace workspace(static_cast<uint32_t>(vocab_size));
    for (size_t i = 0; i < cases.size(); ++i) {
      std::vector<float> scratch = cases[i].logits;
      const auto token =
          SampleToken(cases[i].params, {scratch, {}, false, cases[i].position}, workspace);
      EXPECT_EQ(batch.tokens[i], *token) << vocab_size << " row " << i;
    }
  }
}

// Draws over positions follow the exact distribution, filters included.
TEST_F(SampleCudaTest, DrawsFollowTheDistribution) {
  constexpr uint32_t kNumDraws = 20'000;
  const std::vector<float> logits = GaussianLogits(40, 3, 1.0f);
  for (const SampleParams& params :
       {SampleParams{{.temperature = 1.0f}, 11},
        SampleParams{{.temperature = 1.3f, .top_k = 12}, 12},
        SampleParams{{.temperature = 0.8f, .top_p = 0.8f}, 13},
        SampleParams{{.temperature = 1.0f, .min_p = 0.1f}, 14},
        SampleParams{{.temperature = 1.1f, .top_p = 0.9f, .min_p = 0.05f, .top_k = 20}, 15}}) {
    std::vector<SampleCase> cases(kNumDraws, {.params = params, .logits = logits});
    for (uint32_t i = 0; i < kNumDraws; ++i) cases[i].position = i + 1;
    std::map<TokenId, int> counts;
    for (const TokenId token : Sample(cases).tokens) ++counts[token];
    EXPECT_LT(DeviationOf(counts, ReferenceDistribution(params, logits, {}, false)), 5)
        << "seed " << params.seed;
  }
}

TEST_F(SampleCudaTest, ResultDependsOnSeedSampleAndPosition) {
  const std::vector<float> logits(4096, 0.0f);
  const SampleParams params{{.temperature = 1.0f}, 1};
  SampleParams other_seed = params, other_sample = params;
  other_seed.seed = uint64_t{1} << 40;
  other_sample.sample_index = 1;
  const SampledBatch batch = Sample({{.params = params, .logits = logits, .position = 3},
                                     {.params = params, .logits = logits, .position = 4},
                                     {.params = other_seed, .logits = logits, .position = 3},
                                     {.params = other_sample, .logits = logits, .position = 3},
                                     {.params = params, .logits = logits, .position = 3}});
  EXPECT_EQ(std::set<TokenId>(batch.tokens.begin(), batch.tokens.end()).size(), 4u);
  EXPECT_EQ(batch.tokens[0], batch.tokens[4]);
}

TEST_F(SampleCudaTest, ALargeVocabularyIsAnError) {
  for (const int64_t vocab_size : {int64_t{0}, kMaxDeviceVocab + 1}) {
    EXPECT_EQ(SampleRows(stream_, {.num_rows = 1, .vocab_size = vocab_size}).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(DescribeRows(stream_, {.num_rows = 1, .vocab_size = vocab_size}).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace lockstep::kernels
