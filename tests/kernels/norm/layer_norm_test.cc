#include "kernels/norm/layer_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/common/status_matchers.h"
#include "tests/kernels/core/instruction_sets.h"
#include "tests/kernels/norm/layer_norm_reference.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

constexpr float kEps = 1e-5f;

struct Normed {
  std::vector<BFloat16> residual;
  std::vector<BFloat16> output;
};

class LayerNormTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  Normed Run(const Stream& stream, std::span<const BFloat16> input, std::span<const BFloat16> delta,
             std::span<const float> weight, std::span<const float> bias) const {
    Normed result = {.residual = {input.begin(), input.end()}, .output = {}};
    result.output.resize(input.size());
    EXPECT_THAT(LayerNorm(stream, {.input = result.residual.data(),
                                   .delta = delta.empty() ? nullptr : delta.data(),
                                   .residual_out = result.residual.data(),
                                   .weight = weight.data(),
                                   .bias = bias.data(),
                                   .output = result.output.data(),
                                   .num_rows = static_cast<int64_t>(input.size() / weight.size()),
                                   .size = static_cast<int64_t>(weight.size()),
                                   .eps = kEps}),
                IsOk());
    return result;
  }

  Stream Alone() const { return {.instruction_set = GetParam()}; }
};

TEST_P(LayerNormTest, IsCloseToTheReference) {
  for (const Distribution distribution : {Distribution::kGaussian, Distribution::kOutliers}) {
    for (const size_t size : {1u, 15u, 16u, 80u, 768u, 1000u}) {
      SCOPED_TRACE(size);
      const std::vector<BFloat16> input = RandomBFloat16s(3 * size, 1, distribution);
      const std::vector<float> weight = RandomFloats(size, 2, distribution);
      const std::vector<float> bias = RandomFloats(size, 3);
      const testing::ExpectedRows expected = testing::ReferenceLayerNorm(input, weight, bias, kEps);
      EXPECT_TRUE(IsWithin(ToFloats(Run(Alone(), input, {}, weight, bias).output), expected.values,
                           expected.tolerances));
    }
  }
}

TEST_P(LayerNormTest, AddsTheDeltaRoundedAndNormsTheRoundedSum) {
  constexpr size_t kSize = 100;
  const std::vector<BFloat16> input = RandomBFloat16s(5 * kSize, 1, Distribution::kOutliers);
  const std::vector<BFloat16> delta = RandomBFloat16s(5 * kSize, 2);
  const std::vector<float> weight = RandomFloats(kSize, 3);
  const std::vector<float> bias = RandomFloats(kSize, 4);
  std::vector<BFloat16> sum;
  for (size_t i = 0; i < input.size(); ++i) {
    sum.push_back(ToBFloat16(ToFloat(input[i]) + ToFloat(delta[i])));
  }
  const Normed fused = Run(Alone(), input, delta, weight, bias);
  EXPECT_TRUE(IsSameBits(fused.residual, sum));
  EXPECT_TRUE(IsSameBits(fused.output, Run(Alone(), sum, {}, weight, bias).output));
}

TEST_P(LayerNormTest, BitsDoNotDependOnRowsThreadsOrInstructionSet) {
  constexpr size_t kSize = 130;
  constexpr size_t kRows = 40;
  const std::vector<BFloat16> input = RandomBFloat16s(kRows * kSize, 1, Distribution::kOutliers);
  const std::vector<float> weight = RandomFloats(kSize, 3);
  const std::vector<float> bias = RandomFloats(kSize, 4);
  const std::vector<BFloat16> expected = Run(Stream{}, input, {}, weight, bias).output;
  ThreadPool threads(3);
  const Stream stream = {.threads = &threads, .instruction_set = GetParam()};
  EXPECT_TRUE(IsSameBits(Run(stream, input, {}, weight, bias).output, expected));
  for (size_t row = 0; row < kRows; ++row) {
    const auto values = std::span(input).subspan(row * kSize, kSize);
    EXPECT_TRUE(IsSameBits(Run(stream, values, {}, weight, bias).output,
                           std::span(expected).subspan(row * kSize, kSize)));
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, LayerNormTest, EveryInstructionSet(),
                         InstructionSetTestName);

}  // namespace
}  // namespace lockstep::kernels
