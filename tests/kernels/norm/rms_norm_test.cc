#include "kernels/norm/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/common/status_matchers.h"
#include "tests/kernels/core/instruction_sets.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

constexpr float kEps = 1e-5f;

struct Normed {
  std::vector<BFloat16> residual;
  std::vector<BFloat16> output;
};

class RmsNormTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  Normed Run(const Stream& stream, std::span<const BFloat16> input, std::span<const BFloat16> delta,
             std::span<const float> weight) const {
    Normed result = {.residual = {input.begin(), input.end()}, .output = {}};
    result.output.resize(input.size());
    EXPECT_THAT(RmsNorm(stream, {.input = result.residual.data(),
                                 .delta = delta.empty() ? nullptr : delta.data(),
                                 .residual_out = result.residual.data(),
                                 .weight = weight.data(),
                                 .output = result.output.data(),
                                 .num_rows = static_cast<int64_t>(input.size() / weight.size()),
                                 .size = static_cast<int64_t>(weight.size()),
                                 .eps = kEps}),
                IsOk());
    return result;
  }

  Stream Alone() const { return {.instruction_set = GetParam()}; }
};

TEST_P(RmsNormTest, IsCloseToTheReference) {
  for (const Distribution distribution : {Distribution::kGaussian, Distribution::kOutliers}) {
    for (const size_t size : {1u, 15u, 16u, 80u, 576u, 1000u}) {
      SCOPED_TRACE(size);
      const std::vector<BFloat16> input = RandomBFloat16s(3 * size, 1, distribution);
      const std::vector<float> weight = RandomFloats(size, 2, distribution);
      std::vector<double> expected;
      std::vector<double> tolerance;
      for (size_t row = 0; row < 3; ++row) {
        double sum = 0.0;
        for (size_t i = 0; i < size; ++i) sum += std::pow(ToFloat(input[row * size + i]), 2.0);
        const double inverse = 1.0 / std::sqrt(sum / static_cast<double>(size) + kEps);
        for (size_t i = 0; i < size; ++i) {
          expected.push_back(ToFloat(input[row * size + i]) * inverse * weight[i]);
          // One rounding to bf16, and a little for the fp32 arithmetic before it.
          tolerance.push_back(std::abs(expected.back()) * (0x1p-8 + 0x1p-18));
        }
      }
      EXPECT_TRUE(IsWithin(ToFloats(Run(Alone(), input, {}, weight).output), expected, tolerance));
    }
  }
}

TEST_P(RmsNormTest, AddsTheDeltaRoundedAndNormsTheRoundedSum) {
  constexpr size_t kSize = 100;
  const std::vector<BFloat16> input = RandomBFloat16s(5 * kSize, 1, Distribution::kOutliers);
  const std::vector<BFloat16> delta = RandomBFloat16s(5 * kSize, 2);
  const std::vector<float> weight = RandomFloats(kSize, 3);
  std::vector<BFloat16> sum;
  for (size_t i = 0; i < input.size(); ++i) {
    sum.push_back(ToBFloat16(ToFloat(input[i]) + ToFloat(delta[i])));
  }
  const Normed fused = Run(Alone(), input, delta, weight);
  EXPECT_TRUE(IsSameBits(fused.residual, sum));
  EXPECT_TRUE(IsSameBits(fused.output, Run(Alone(), sum, {}, weight).output));
}

TEST_P(RmsNormTest, BitsDoNotDependOnRowsThreadsOrInstructionSet) {
  constexpr size_t kSize = 130;
  constexpr size_t kRows = 40;
  const std::vector<BFloat16> input = RandomBFloat16s(kRows * kSize, 1, Distribution::kOutliers);
  const std::vector<float> weight = RandomFloats(kSize, 3);
  const std::vector<BFloat16> expected = Run(Stream{}, input, {}, weight).output;
  ThreadPool threads(3);
  const Stream stream = {.threads = &threads, .instruction_set = GetParam()};
  EXPECT_TRUE(IsSameBits(Run(stream, input, {}, weight).output, expected));
  for (size_t row = 0; row < kRows; ++row) {
    const auto values = std::span(input).subspan(row * kSize, kSize);
    EXPECT_TRUE(IsSameBits(Run(stream, values, {}, weight).output,
                           std::span(expected).subspan(row * kSize, kSize)));
  }
}

TEST_P(RmsNormTest, ANanStaysInItsRow) {
  constexpr size_t kSize = 48;
  std::vector<BFloat16> input = RandomBFloat16s(3 * kSize, 1);
  const std::vector<float> weight = RandomFloats(kSize, 3);
  const std::vector<BFloat16> before = Run(Alone(), input, {}, weight).output;
  input[kSize + 7] = ToBFloat16(std::numeric_limits<float>::quiet_NaN());
  const std::vector<BFloat16> after = Run(Alone(), input, {}, weight).output;
  EXPECT_TRUE(IsSameBits(std::span(after).first(kSize), std::span(before).first(kSize)));
  EXPECT_TRUE(IsSameBits(std::span(after).last(kSize), std::span(before).last(kSize)));
  EXPECT_TRUE(std::isnan(ToFloat(after[kSize])));
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, RmsNormTest, EveryInstructionSet(),
                         InstructionSetTestName);

}  // namespace
}  // namespace lockstep::kernels
