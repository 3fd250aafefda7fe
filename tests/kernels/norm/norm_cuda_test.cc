#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/norm/layer_norm.h"
#include "kernels/norm/rms_norm.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/norm/layer_norm_reference.h"
#include "tests/support/cuda_test.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

using testing::DeviceArray;

constexpr float kEps = 1e-5f;
constexpr size_t kSizes[] = {8, 64, 80, 128, 256, 576, 768, 1024, 4096, 4104, 5120, 8192};

struct Normed {
  std::vector<BFloat16> residual;  // empty without delta
  std::vector<BFloat16> output;
};

class NormCudaTest : public testing::CudaTest {
 protected:
  Normed Rms(std::span<const BFloat16> input, std::span<const BFloat16> delta,
             std::span<const float> weight) const {
    const DeviceArray<BFloat16> device_input(input), device_delta(delta);
    const DeviceArray<float> device_weight(weight);
    const DeviceArray<BFloat16> residual(delta.size()), output(input.size());
    EXPECT_THAT(RmsNorm(stream_, {.input = device_input.data(),
                                  .delta = delta.empty() ? nullptr : device_delta.data(),
                                  .residual_out = residual.data(),
                                  .weight = device_weight.data(),
                                  .output = output.data(),
                                  .num_rows = static_cast<int64_t>(input.size() / weight.size()),
                                  .size = static_cast<int64_t>(weight.size()),
                                  .eps = kEps}),
                IsOk());
    return Collect(residual, output);
  }
  Normed Layer(std::span<const BFloat16> input, std::span<const BFloat16> delta,
               std::span<const float> weight, std::span<const float> bias) const {
    const DeviceArray<BFloat16> device_input(input), device_delta(delta);
    const DeviceArray<float> device_weight(weight), device_bias(bias);
    const DeviceArray<BFloat16> residual(delta.size()), output(input.size());
    EXPECT_THAT(LayerNorm(stream_, {.input = device_input.data(),
                                    .delta = delta.empty() ? nullptr : device_delta.data(),
                                    .residual_out = residual.data(),
                                    .weight = device_weight.data(),
                                    .bias = device_bias.data(),
                                    .output = output.data(),
                                    .num_rows = static_cast<int64_t>(input.size() / weight.size()),
                                    .size = static_cast<int64_t>(weight.size()),
                                    .eps = kEps}),
                IsOk());
    return Collect(residual, output);
  }

 private:
  static Normed Collect(const DeviceArray<BFloat16>& residual,
                        const DeviceArray<BFloat16>& output) {
    Normed result = {.residual = residual.Read(), .output = output.Read()};
    residual.ExpectGuardsIntact();
    output.ExpectGuardsIntact();
    return result;
  }
};

std::vector<BFloat16> RoundedSum(const std::vector<BFloat16>& a, const std::vector<BFloat16>& b) {
  std::vector<BFloat16> sum;
  for (size_t i = 0; i < a.size(); ++i) sum.push_back(ToBFloat16(ToFloat(a[i]) + ToFloat(b[i])));
  return sum;
}

// The balanced tree that rms_norm.h defines, one addition at a time.
float TreeOfSquares(std::span<const BFloat16> row) {
  std::vector<float> sums;
  for (const BFloat16 value : row) sums.push_back(ToFloat(value) * ToFloat(value));
  while (sums.size() > 1) {
    if (sums.size() % 2 != 0) sums.push_back(0.0f);
    for (size_t i = 0; i < sums.size() / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
    sums.resize(sums.size() / 2);
  }
  return sums[0];
}

TEST_F(NormCudaTest, RmsNormGivesTheBitsOfItsTree) {
  for (const Distribution distribution : {Distribution::kGaussian, Distribution::kOutliers}) {
    for (const size_t size : kSizes) {
      SCOPED_TRACE(size);
      const std::vector<BFloat16> input = RandomBFloat16s(3 * size, 1, distribution);
      const std::vector<float> weight = RandomFloats(size, 2, distribution);
      std::vector<BFloat16> expected;
      for (size_t row = 0; row < 3; ++row) {
        const auto values = std::span(input).subspan(row * size, size);
        const float mean = TreeOfSquares(values) / static_cast<float>(size);
        const float inverse = 1.0f / std::sqrt(mean + kEps);
        for (size_t i = 0; i < size; ++i) {
          expected.push_back(ToBFloat16(ToFloat(values[i]) * inverse * weight[i]));
        }
      }
      EXPECT_TRUE(IsSameBits(Rms(input, {}, weight).output, expected));
    }
  }
}

TEST_F(NormCudaTest, RmsNormIsCloseToTheCpus) {
  for (const size_t size : kSizes) {
    SCOPED_TRACE(size);
    const std::vector<BFloat16> input = RandomBFloat16s(5 * size, 1, Distribution::kOutliers);
    const std::vector<BFloat16> delta = RandomBFloat16s(5 * size, 2);
    const std::vector<float> weight = RandomFloats(size, 3);
    std::vector<BFloat16> residual(input.size()), output(input.size());
    ASSERT_THAT(RmsNorm(Stream{}, {.input = input.data(),
                                   .delta = delta.data(),
                                   .residual_out = residual.data(),
                                   .weight = weight.data(),
                                   .output = output.data(),
                                   .num_rows = 5,
                                   .size = static_cast<int64_t>(size),
                                   .eps = kEps}),
                IsOk());
    const Normed actual = Rms(input, delta, weight);
    EXPECT_TRUE(IsSameBits(actual.residual, residual));
    std::vector<double> expected, tolerances;
    for (const BFloat16 value : output) {
      expected.push_back(ToFloat(value));
      tolerances.push_back(std::abs(expected.back()) * 0x1.1p-7);  // one step of bf16
    }
    EXPECT_TRUE(IsWithin(ToFloats(actual.output), expected, tolerances));
  }
}

TEST_F(NormCudaTest, LayerNormIsCloseToTheReference) {
  for (const Distribution distribution : {Distribution::kGaussian, Distribution::kOutliers}) {
    for (const size_t size : kSizes) {
      SCOPED_TRACE(size);
      const std::vector<BFloat16> input = RandomBFloat16s(3 * size, 1, distribution);
      const std::vector<float> weight = RandomFloats(size, 2, distribution);
      const std::vector<float> bias = RandomFloats(size, 3);
      const testing::ExpectedRows expected = testing::ReferenceLayerNorm(input, weight, bias, kEps);
      EXPECT_TRUE(IsWithin(ToFloats(Layer(input, {}, weight, bias).output), expected.values,
                           expected.tolerances));
    }
  }
}

TEST_F(NormCudaTest, TheDeltaIsAddedRoundedAndTheRoundedSumIsNormed) {
  for (const size_t size : kSizes) {
    SCOPED_TRACE(size);
    const std::vector<BFloat16> input = RandomBFloat16s(2 * size, 1, Distribution::kOutliers);
    const std::vector<BFloat16> delta = RandomBFloat16s(2 * size, 2);
    const std::vector<float> weight = RandomFloats(size, 3), bias = RandomFloats(size, 4);
    const std::vector<BFloat16> sum = RoundedSum(input, delta);
    const Normed rms = Rms(input, delta, weight);
    EXPECT_TRUE(IsSameBits(rms.residual, sum));
    EXPECT_TRUE(IsSameBits(rms.output, Rms(sum, {}, weight).output));
    const Normed layer = Layer(input, delta, weight, bias);
    EXPECT_TRUE(IsSameBits(layer.residual, sum));
    EXPECT_TRUE(IsSameBits(layer.output, Layer(sum, {}, weight, bias).output));
  }
}

TEST_F(NormCudaTest, TheResidualMayReplaceTheInput) {
  constexpr size_t kSize = 576;
  const std::vector<BFloat16> input = RandomBFloat16s(3 * kSize, 1);
  const std::vector<BFloat16> delta = RandomBFloat16s(3 * kSize, 2);
  const DeviceArray<BFloat16> residual(input), device_delta(delta), output(input.size());
  const DeviceArray<float> weight(RandomFloats(kSize, 3));
  ASSERT_THAT(RmsNorm(stream_, {.input = residual.data(),
                                .delta = device_delta.data(),
                                .residual_out = residual.data(),
                                .weight = weight.data(),
                                .output = output.data(),
                                .num_rows = 3,
                                .size = kSize,
                                .eps = kEps}),
              IsOk());
  EXPECT_TRUE(IsSameBits(residual.Read(), RoundedSum(input, delta)));
}

// Each launch takes what the one before it wrote, and may start before that one has ended.
TEST_F(NormCudaTest, OverlappingLaunchesWaitForOneAnother) {
  constexpr size_t kSize = 4096;
  constexpr int64_t kRows = 200;
  const std::vector<BFloat16> input = RandomBFloat16s(kRows * kSize, 1);
  const DeviceArray<float> weight(RandomFloats(kSize, 3));
  const auto run = [&](bool overlap) {
    const DeviceArray<BFloat16> residual(input), values(input);
    CudaStream stream = stream_;
    stream.overlap_launches = overlap;
    for (int i = 0; i < 30; ++i) {
      EXPECT_THAT(RmsNorm(stream, {.input = residual.data(),
                                   .delta = values.data(),
                                   .residual_out = residual.data(),
                                   .weight = weight.data(),
                                   .output = values.data(),
                                   .num_rows = kRows,
                                   .size = kSize,
                                   .eps = kEps}),
                  IsOk());
    }
    return values.Read();
  };
  EXPECT_TRUE(IsSameBits(run(true), run(false)));
}

TEST_F(NormCudaTest, BitsDoNotDependOnTheNumberOfRows) {
  constexpr size_t kRows = 300;
  for (const size_t size : {size_t{80}, size_t{4096}, size_t{8192}}) {
    const std::vector<BFloat16> input = RandomBFloat16s(kRows * size, 1, Distribution::kOutliers);
    const std::vector<float> weight = RandomFloats(size, 3), bias = RandomFloats(size, 4);
    const std::vector<BFloat16> rms = Rms(input, {}, weight).output;
    const std::vector<BFloat16> layer = Layer(input, {}, weight, bias).output;
    for (const size_t row : {size_t{0}, size_t{1}, size_t{131}, kRows - 1}) {
      const auto values = std::span(input).subspan(row * size, size);
      EXPECT_TRUE(
          IsSameBits(Rms(values, {}, weight).output, std::span(rms).subspan(row * size, size)));
      EXPECT_TRUE(IsSameBits(Layer(values, {}, weight, bias).output,
                             std::span(layer).subspan(row * size, size)));
    }
  }
}

TEST_F(NormCudaTest, ANanStaysInItsRow) {
  constexpr size_t kSize = 128;
  std::vector<BFloat16> input = RandomBFloat16s(3 * kSize, 1);
  const std::vector<float> weight = RandomFloats(kSize, 3);
  const std::vector<BFloat16> before = Rms(input, {}, weight).output;
  input[kSize + 7] = ToBFloat16(std::numeric_limits<float>::quiet_NaN());
  const std::vector<BFloat16> after = Rms(input, {}, weight).output;
  EXPECT_TRUE(IsSameBits(std::span(after).first(kSize), std::span(before).first(kSize)));
  EXPECT_TRUE(IsSameBits(std::span(after).last(kSize), std::span(before).last(kSize)));
  EXPECT_TRUE(std::isnan(ToFloat(after[kSize])));
}

TEST_F(NormCudaTest, AnUnfitSizeIsAnError) {
  for (const int64_t size : {0, 4, 100, 8200}) {
    EXPECT_EQ(RmsNorm(stream_, {.num_rows = 1, .size = size}).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(LayerNorm(stream_, {.num_rows = 1, .size = size}).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(RmsNorm(stream_, {.num_rows = 0, .size = 64}), IsOk());
}

}  // namespace
}  // namespace lockstep::kernels
