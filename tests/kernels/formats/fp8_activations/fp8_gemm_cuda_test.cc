#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/formats/fp8_activations/fp8_gemm.h"
#include "kernels/formats/fp8_activations/quantize_activations.h"
#include "kernels/formats/small_floats.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/formats/fp8_activations/fp8_operands.h"
#include "tests/support/cuda_test.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

class Fp8GemmCudaTest : public Fp8CudaTest {};

// The error of a chain of four instructions, relative to the sum of |x * w| of its 128 columns:
// three times what was measured on an H200 (1.4e-4 and 5.7e-4). A wrong code, scale or column is
// far outside: with Gaussian values the sum itself is about a seventh of the sum of magnitudes.
double ChainError(Distribution distribution) {
  return distribution == Distribution::kGaussian ? 4.2e-4 : 1.7e-3;
}

struct HostCodes {
  int64_t num_rows;
  std::vector<uint8_t> codes;
  std::vector<float> scales;
};
// What the formula gives with exact chains, and how far the chains may be from it.
struct Bounded {
  double value;
  double error;
};
Bounded Exact(const TestWeights& weights, const HostCodes& input, int64_t row, int64_t column,
              double chain_error) {
  const int64_t k = weights.shape.k;
  Bounded sum = {};
  double magnitude = 0.0;
  for (int64_t block = 0; block < NumFp8Blocks(k); ++block) {
    double partial = 0.0;
    double partial_magnitude = 0.0;
    for (int64_t i = block * 128; i < std::min(k, (block + 1) * 128); ++i) {
      const double product =
          static_cast<double>(E4M3ToFloat(input.codes[static_cast<size_t>(row * k + i)])) *
          static_cast<double>(E4M3ToFloat(weights.codes[static_cast<size_t>(column * k + i)]));
      partial += product;
      partial_magnitude += std::fabs(product);
    }
    const double scale = static_cast<double>(
        input.scales[static_cast<size_t>(block * ActivationScaleStride(input.num_rows) + row)] *
        weights.Scale(column, block));
    sum.value += scale * partial;
    sum.error += scale * partial_magnitude * chain_error;
    magnitude += scale * partial_magnitude;
  }
  // Each fma rounds a sum that is at most `magnitude`.
  sum.error += static_cast<double>(NumFp8Blocks(k)) * 0x1p-24 * magnitude;
  return sum;
}

TEST_F(Fp8GemmCudaTest, ProductsAreWithinTheErrorOfTheChains) {
  std::mt19937 random(41);
  for (const Distribution distribution : {Distribution::kGaussian, Distribution::kOutliers}) {
    for (const Fp8ScaleLayout layout : kFp8Layouts) {
      std::vector<Fp8Shape> shapes(std::begin(kSmallFp8Shapes), std::end(kSmallFp8Shapes));
      shapes.push_back(kLargeFp8Shapes[0]);
      shapes.push_back(kLargeFp8Shapes[3]);
      for (const Fp8Shape& shape : shapes) {
        const TestWeights weights(shape, layout);
        for (const int64_t num_rows : {7, 130}) {
          SCOPED_TRACE(::testing::Message() << NameOf(layout) << ", " << shape.n << " x " << shape.k
                                            << ", " << num_rows << " rows");
          const TestRows rows(num_rows, shape.k, distribution);
          const TestCodes codes = Quantized(rows, 0, num_rows, shape.k);
          const HostCodes input = {num_rows, codes.codes.Read(), codes.scales.Read()};
          const std::vector<float> product = Product(codes, weights);
          std::vector<float> actual;
          std::vector<double> expected;
          std::vector<double> tolerance;
          for (int i = 0; i < 2000; ++i) {
            // The corners first.
            const int64_t row = i == 0 ? 0 : i == 1 ? num_rows - 1 : random() % num_rows;
            const int64_t column = i == 0 ? 0 : i == 1 ? shape.n - 1 : random() % shape.n;
            const Bounded bounded = Exact(weights, input, row, column, ChainError(distribution));
            actual.push_back(product[static_cast<size_t>(row * shape.n + column)]);
            expected.push_back(bounded.value);
            tolerance.push_back(bounded.error);
          }
          EXPECT_TRUE(IsWithin(actual, expected, tolerance));
        }
      }
    }
  }
}

// A scale for each row of weights and a scale for each block meet where neither varies.
TEST_F(Fp8GemmCudaTest, LayoutsOfScalesAgree) {
  const Fp8Shape shape = {320, 640};
  TestWeights block(shape, Fp8ScaleLayout::kBlock);
  TestWeights channel(shape, Fp8ScaleLayout::kChannel);
  for (int64_t row = 0; row < shape.n; ++row) {
    const float scale = static_cast<float>(row / 128 + 3) * 0x1.23456p-13f;
    channel.scales[static_cast<size_t>(row)] = scale;
    for (int64_t i = 0; i < NumFp8Blocks(shape.k); ++i) {
      block.scales[static_cast<size_t>(row / 128 * NumFp8Blocks(shape.k) + i)] = scale;
    }
  }
  block.device_scales.Write(block.scales);
  channel.device_scales.Write(channel.scales);
  const TestRows rows(200, shape.k, Distribution::kOutliers);
  for (const int64_t num_rows : {1, 24, 100, 200}) {
    const TestCodes codes = Quantized(rows, 0, num_rows, shape.k);
    EXPECT_TRUE(IsSameBits(Product(codes, block), Product(codes, channel))) << num_rows << " rows";
  }
}

TEST_F(Fp8GemmCudaTest, BiasAndRoundingComeLast) {
  for (const Fp8Shape& shape : {Fp8Shape{200, 576}, {49, 144}, {1024, 512}}) {
    const TestWeights weights(shape, Fp8ScaleLayout::kBlock);
    const std::vector<float> bias = RandomFloats(static_cast<size_t>(shape.n), 51);
    const DeviceArray<float> device_bias(bias);
    for (const int64_t num_rows : {1, 20, 130, 513}) {
      for (const int64_t padding : {0, 8, 3}) {
        SCOPED_TRACE(::testing::Message() << shape.n << " x " << shape.k << ", " << num_rows
                                          << " rows, padding " << padding);
        const TestRows rows(num_rows, shape.k, Distribution::kGaussian);
        const TestCodes codes = Quantized(rows, 0, num_rows, shape.k);
        const std::vector<float> product = Product(codes, weights);
        const int64_t stride = shape.n + padding;
        const DeviceArray<BFloat16> output(static_cast<size_t>(num_rows * stride));
        Fp8GemmParams params = Params(codes, weights);
        params.bias = device_bias.data();
        params.output = output.data();
        params.output_stride = stride;
        ASSERT_THAT(Fp8Gemm(stream_, params), IsOk());
        // Padding keeps the bytes of DeviceArray.
        std::vector<BFloat16> expected(output.size(), BFloat16{0xFFFF});
        for (int64_t row = 0; row < num_rows; ++row) {
          for (int64_t column = 0; column < shape.n; ++column) {
            expected[static_cast<size_t>(row * stride + column)] =
                ToBFloat16(product[static_cast<size_t>(row * shape.n + column)] +
                           bias[static_cast<size_t>(column)]);
          }
        }
        EXPECT_TRUE(IsSameBits(output.Read(), expected));
        output.ExpectGuardsIntact();
      }
    }
  }
}

TEST_F(Fp8GemmCudaTest, NanStaysInItsRow) {
  const Fp8Shape shape = {256, 576};
  const TestWeights weights(shape, Fp8ScaleLayout::kBlock);
  for (const int64_t num_rows : {8, 40, 140}) {
    const auto count = static_cast<size_t>(num_rows * shape.k);
    std::vector<BFloat16> values = RandomBFloat16s(count, 61);
    const TestCodes clean = Quantized(TestRows(values, shape.k), 0, num_rows, shape.k);
    std::vector<float> expected = Product(clean, weights);
    values[static_cast<size_t>(3 * shape.k + 570)] =
        ToBFloat16(std::numeric_limits<float>::quiet_NaN());
    const TestCodes poisoned = Quantized(TestRows(values, shape.k), 0, num_rows, shape.k);
    std::vector<float> actual = Product(poisoned, weights);
    for (int64_t column = 0; column < shape.n; ++column) {
      const auto at = static_cast<size_t>(3 * shape.n + column);
      EXPECT_TRUE(std::isnan(actual[at])) << num_rows << " rows, column " << column;
      actual[at] = expected[at];
    }
    EXPECT_TRUE(IsSameBits(actual, expected)) << num_rows << " rows";
  }
}

// The outputs that have other bits, as columns of the first row. All other rows must agree.
std::vector<int64_t> ChangedColumns(const std::vector<float>& before,
                                    const std::vector<float>& after, int64_t n) {
  std::vector<int64_t> columns;
  for (int64_t column = 0; column < n; ++column) {
    const auto at = static_cast<size_t>(column);
    if (std::bit_cast<uint32_t>(before[at]) != std::bit_cast<uint32_t>(after[at])) {
      columns.push_back(column);
    }
  }
  return columns;
}

// A scale of the weights reaches the outputs of its rows and no others; so does a code.
TEST_F(Fp8GemmCudaTest, PlantedFaultsAreSeenWhereTheyAre) {
  const Fp8Shape shape = {400, 576};
  for (const int64_t num_rows : {1, 30, 70, 200}) {
    SCOPED_TRACE(::testing::Message() << num_rows << " rows");
    const TestRows rows(num_rows, shape.k, Distribution::kGaussian);
    const TestCodes codes = Quantized(rows, 0, num_rows, shape.k);
    for (const Fp8ScaleLayout layout : kFp8Layouts) {
      SCOPED_TRACE(NameOf(layout));
      TestWeights weights(shape, layout);
      const std::vector<float> before = Product(codes, weights);

      // The scale of row 300, in the last block: with block scales of rows 256 to 383.
      const bool has_blocks = layout == Fp8ScaleLayout::kBlock;
      const int64_t num_blocks = NumFp8Blocks(shape.k);
      float& scale = weights.scales[static_cast<size_t>(has_blocks ? 3 * num_blocks - 1 : 300)];
      const float kept = scale;
      scale = 1.5f * kept;
      weights.device_scales.Write(weights.scales);
      const std::vector<int64_t> of_scale =
          ChangedColumns(before, Product(codes, weights), shape.n);
      ASSERT_FALSE(of_scale.empty());
      EXPECT_GE(of_scale.front(), has_blocks ? 256 : 300);
      EXPECT_LE(of_scale.back(), has_blocks ? 383 : 300);
      // A few sums may agree by chance.
      EXPECT_GE(of_scale.size(), has_blocks ? 120u : 1u);
      scale = kept;
      weights.device_scales.Write(weights.scales);

      // The sign of the last code of row 77.
      weights.codes[static_cast<size_t>(77 * shape.k + 575)] ^= 0x80;
      weights.device_codes.Write(weights.codes);
      EXPECT_EQ(ChangedColumns(before, Product(codes, weights), shape.n), std::vector<int64_t>{77});
    }
  }
}

TEST_F(Fp8GemmCudaTest, WrongCallsAreRefused) {
  const Fp8Shape shape = {256, 256};
  const TestWeights weights(shape, Fp8ScaleLayout::kBlock);
  const TestRows rows(8, shape.k, Distribution::kGaussian);
  const TestCodes codes = Quantized(rows, 0, 8, shape.k);
  const DeviceArray<float> output(size_t{8 * 256});
  Fp8GemmParams params = Params(codes, weights);
  EXPECT_THAT(Fp8Gemm(stream_, params), HasError(kInvalid, ::testing::HasSubstr("outputs")));
  params.output_f32 = output.data();
  EXPECT_THAT(Fp8Gemm(stream_, params), IsOk());
  const Fp8Tiling tiling = {.input_rows = 8, .weight_rows = 64, .num_stages = 2};
  EXPECT_THAT(LaunchFp8Gemm(stream_, params, tiling), IsOk());
  struct {
    const char* what;
    int Fp8Tiling::* field;
    int value;
  } const wrong[] = {
      {"rows", &Fp8Tiling::input_rows, 24},          {"weight rows", &Fp8Tiling::weight_rows, 24},
      {"weight rows", &Fp8Tiling::weight_rows, 144}, {"stages", &Fp8Tiling::num_stages, 1},
      {"stages", &Fp8Tiling::num_stages, 100},       {"cluster", &Fp8Tiling::cluster_blocks, 2}};
  for (const auto& [what, field, value] : wrong) {
    Fp8Tiling changed = tiling;
    changed.*field = value;
    EXPECT_THAT(LaunchFp8Gemm(stream_, params, changed), HasError(kInvalid, ::testing::_)) << what;
  }
  Fp8GemmParams changed = params;
  changed.num_rows = 9;
  EXPECT_THAT(LaunchFp8Gemm(stream_, changed, tiling), HasError(kInvalid, ::testing::_));
  changed = params;
  changed.weights.k = 264;
  EXPECT_THAT(Fp8Gemm(stream_, changed), HasError(kInvalid, ::testing::HasSubstr("16")));
  changed = params;
  changed.weights.codes += 1;
  EXPECT_THAT(Fp8Gemm(stream_, changed), HasError(kInvalid, ::testing::HasSubstr("aligned")));
  QuantizeActivationsParams quantize = codes.From(rows, 0);
  quantize.k = 40;
  EXPECT_THAT(QuantizeActivations(stream_, quantize),
              HasError(kInvalid, ::testing::HasSubstr("multiple of 16")));
}

}  // namespace
}  // namespace lockstep::kernels
