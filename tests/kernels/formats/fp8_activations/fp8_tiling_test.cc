#include "kernels/formats/fp8_activations/fp8_tiling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/formats/fp8_activations/quantize_activations.h"
#include "kernels/formats/small_floats.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

TEST(Fp8TilingTest, ChosenTilingsFitForEveryNumberOfRows) {
  for (const int multiprocessors : {1, 2, 64, 132}) {
    for (const int64_t n : {49, 576, 4096, 24576, 151936}) {
      for (const int64_t k : {16, 576, 4096, 12288, 53248}) {
        for (int64_t num_rows = 1; num_rows <= 600; ++num_rows) {
          const Fp8Problem problem = {.n = n, .k = k, .num_rows = num_rows};
          const Fp8Tiling tiling = ChooseFp8Tiling(problem, multiprocessors);
          ASSERT_GE(tiling.num_stages, 2)
              << n << " x " << k << ", " << num_rows << " rows: " << DescribeFp8Tiling(tiling);
          ASSERT_LE(Fp8SharedBytes(problem, tiling), kMaxFp8SharedBytes)
              << DescribeFp8Tiling(tiling);
          if (tiling.unit == Fp8Unit::kFewRows) {
            ASSERT_GE(tiling.input_rows, num_rows);
            ASSERT_EQ(tiling.weight_rows % 16, 0);
            ASSERT_EQ(tiling.cluster_blocks, 1);
          }
          ASSERT_LE(tiling.cluster_blocks, multiprocessors);
        }
      }
    }
  }
}

// Shapes of a model of 8 billion weights, on an H200.
TEST(Fp8TilingTest, ExamplesOfAnH200) {
  const auto chosen = [](int64_t n, int64_t k, int64_t num_rows) {
    return DescribeFp8Tiling(ChooseFp8Tiling({.n = n, .k = k, .num_rows = num_rows}, 132));
  };
  EXPECT_EQ(chosen(4096, 12288, 1), "few 64w x 8 s6");
  EXPECT_EQ(chosen(6144, 4096, 8), "few 64w x 8 s6");
  EXPECT_EQ(chosen(4096, 4096, 32), "few 64w x 32 s4");
  EXPECT_EQ(chosen(4096, 12288, 128), "few 64w x 128 s3");
  EXPECT_EQ(chosen(24576, 4096, 128), "many 128 x 128 s6 c1");
  EXPECT_EQ(chosen(24576, 4096, 64), "few 64w x 64 s3");
  EXPECT_EQ(chosen(1024, 1024, 8), "few 16w x 8 s12") << "64 multiprocessors have a tile";
  EXPECT_EQ(chosen(4096, 4096, 2048), "many 256 x 128 s4 c2");
  EXPECT_EQ(chosen(4096, 4096, 512), "many 128 x 128 s6 c1");
}

TEST(QuantizeActivationsTest, ReferenceFollowsTheDefinition) {
  constexpr int64_t kRows = 5;
  constexpr int64_t kColumns = 144;
  std::vector<BFloat16> input = RandomBFloat16s(kRows * kColumns, 1, Distribution::kOutliers);
  for (int64_t i = 0; i < 128; ++i) input[static_cast<size_t>(i)] = BFloat16{0};
  std::vector<uint8_t> codes(input.size());
  std::vector<float> scales(2 * ActivationScaleStride(kRows), -1.0f);
  QuantizeActivationsReference({.input = input.data(),
                                .input_stride = kColumns,
                                .num_rows = kRows,
                                .k = kColumns,
                                .codes = codes.data(),
                                .scales = scales.data()});
  EXPECT_EQ(scales[0], 1.0f) << "of a block of zeros";
  EXPECT_EQ(scales[5], -1.0f) << "padding is not written";
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t block = 0; block < 2; ++block) {
      const float scale = scales[static_cast<size_t>(block * 8 + row)];
      float largest = 0.0f;
      for (int64_t i = 128 * block; i < std::min<int64_t>(kColumns, 128 * (block + 1)); ++i) {
        const auto at = static_cast<size_t>(row * kColumns + i);
        largest = std::max(largest, std::fabs(ToFloat(input[at])));
        ASSERT_EQ(codes[at], FloatToE4M3(ToFloat(input[at]) / scale)) << row << ", " << i;
      }
      EXPECT_EQ(scale, largest == 0.0f ? 1.0f : largest / 448.0f) << row << ", " << block;
    }
  }
}

TEST(QuantizeActivationsTest, WhatIsNotANumberStaysSo) {
  std::vector<BFloat16> input(16, ToBFloat16(1.0f));
  input[3] = ToBFloat16(-std::numeric_limits<float>::quiet_NaN());
  std::vector<uint8_t> codes(16);
  std::vector<float> scales(4);
  QuantizeActivationsParams params = {.input = input.data(),
                                      .input_stride = 16,
                                      .num_rows = 1,
                                      .k = 16,
                                      .codes = codes.data(),
                                      .scales = scales.data()};
  QuantizeActivationsReference(params);
  EXPECT_EQ(codes[3], 0x7F);
  EXPECT_EQ(codes[2], 0x7E) << "the largest code";
  EXPECT_EQ(scales[0], 1.0f / 448.0f);
}

}  // namespace
}  // namespace lockstep::kernels
