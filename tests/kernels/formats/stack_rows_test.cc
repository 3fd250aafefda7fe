#include "kernels/formats/stack_rows.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/common/status_matchers.h"
#include "tests/kernels/formats/module_files.h"
#include "tests/kernels/formats/quantized_samples.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

using ::lockstep::testing::ColumnsOf;
using ::lockstep::testing::kSampleShapes;
using ::lockstep::testing::SampleMatrix;
using ::lockstep::testing::SampleShape;
using ::testing::HasSubstr;

QuantizedMatrix Part(int64_t n, int64_t k, int64_t group_columns, uint32_t seed) {
  QuantizedMatrix matrix;
  matrix.kind = CodeKind::kInt8;
  matrix.n = n;
  matrix.k = k;
  matrix.group_columns = group_columns;
  for (int64_t i = 0; i < n * k; ++i) {
    matrix.codes.push_back(static_cast<uint8_t>(seed = seed * 1664525u + 1013904223u, seed >> 24));
  }
  for (int64_t i = 0; i < n * matrix.num_groups(); ++i) {
    matrix.scales.push_back(0.25f + static_cast<float>(i + n));
  }
  return matrix;
}

std::vector<uint16_t> BitsOfParts(std::span<const QuantizedMatrix> parts) {
  std::vector<uint16_t> bits;
  for (const QuantizedMatrix& part : parts) {
    const std::vector<uint16_t> own = ValueBits(part);
    bits.insert(bits.end(), own.begin(), own.end());
  }
  return bits;
}

TEST(StackRowsTest, KeepsEveryValue) {
  struct Case {
    std::vector<int64_t> group_columns;
    int64_t expected;
  };
  const Case cases[] = {{{32, 32}, 32},     {{64, 32, 64}, 32}, {{96, 96}, 96}, {{96, 32}, 32},
                        {{48, 32, 96}, 16}, {{40, 40}, 40},     {{96, 40}, 40}};
  for (const Case& c : cases) {
    std::vector<QuantizedMatrix> parts;
    for (const int64_t group : c.group_columns) {
      parts.push_back(Part(3 + static_cast<int64_t>(parts.size()), 96, group, 7));
    }
    const absl::StatusOr<QuantizedMatrix> stacked = StackRows(parts);
    ASSERT_THAT(stacked, IsOk());
    EXPECT_EQ(stacked->group_columns, c.expected);
    EXPECT_EQ(ValueBits(*stacked), BitsOfParts(parts));
    EXPECT_TRUE(stacked->zeros.empty());
  }
}

TEST(StackRowsTest, PartsWithAndWithoutZeroPoints) {
  std::vector<QuantizedMatrix> parts = {Part(2, 64, 32, 1), Part(3, 64, 64, 2)};
  parts[0].zeros = {1, 200, 128, 7};
  const absl::StatusOr<QuantizedMatrix> stacked = StackRows(parts);
  ASSERT_THAT(stacked, IsOk());
  EXPECT_EQ(stacked->zeros.size(), stacked->scales.size());
  EXPECT_EQ(ValueBits(*stacked), BitsOfParts(parts));
}

TEST(StackRowsTest, KeepsAnOrderOfColumnsThatAllPartsHave) {
  std::vector<QuantizedMatrix> parts = {Part(2, 4, 2, 1), Part(3, 4, 2, 2)};
  for (QuantizedMatrix& part : parts) part.group_of_column = {1, 0, 0, 1};
  const absl::StatusOr<QuantizedMatrix> stacked = StackRows(parts);
  ASSERT_THAT(stacked, IsOk());
  EXPECT_EQ(stacked->group_of_column, parts[0].group_of_column);
  EXPECT_EQ(ValueBits(*stacked), BitsOfParts(parts));
  parts[1].group_of_column = {0, 1, 0, 1};
  EXPECT_THAT(StackRows(parts), HasError(kInvalid, HasSubstr("act-order")));
}

TEST(TakeRowsTest, KeepsTheValuesOfTheRowsInTheirNewOrder) {
  for (const SampleShape& shape : kSampleShapes) {
    const QuantizedMatrix matrix = SampleMatrix(shape, 7, ColumnsOf(shape, 300), /*seed=*/5);
    const std::vector<int64_t> rows = {6, 0, 3, 3};
    const QuantizedMatrix taken = TakeRows(matrix, rows);
    ASSERT_EQ(taken.n, 4);
    std::vector<BFloat16> expected(static_cast<size_t>(matrix.k)), actual(expected.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      DequantizeRow(matrix, rows[i], expected.data());
      DequantizeRow(taken, static_cast<int64_t>(i), actual.data());
      EXPECT_TRUE(IsSameBits(actual, expected)) << CodeBits(shape.kind) << " bits, row " << i;
    }
  }
}

// A part of NVFP4: `of_rows` is the scale of its tensor.
QuantizedMatrix Nvfp4Part(int64_t n, float of_rows, bool divides) {
  QuantizedMatrix matrix = Part(n, 64, 16, 3);
  matrix.kind = CodeKind::kFp4E2M1;
  for (uint8_t& code : matrix.codes) code &= 15;
  matrix.block_columns = 64;
  matrix.block_scales.assign(static_cast<size_t>(n), of_rows);
  matrix.block_scales_divide = divides;
  return matrix;
}

TEST(StackRowsTest, RowsKeepTheScaleOfTheirTensor) {
  for (const bool divides : {false, true}) {
    const std::vector<QuantizedMatrix> parts = {Nvfp4Part(2, 3, divides), Nvfp4Part(1, 7, divides)};
    const absl::StatusOr<QuantizedMatrix> stacked = StackRows(parts);
    ASSERT_THAT(stacked, IsOk());
    EXPECT_EQ(stacked->block_scales, (std::vector<float>{3, 3, 7}));
    EXPECT_EQ(stacked->block_scales_divide, divides);
    EXPECT_EQ(ValueBits(*stacked), BitsOfParts(parts));
  }
  const std::vector<QuantizedMatrix> both = {Nvfp4Part(2, 3, false), Nvfp4Part(2, 3, true)};
  EXPECT_THAT(StackRows(both), HasError(kInvalid, HasSubstr("different levels")));
}

TEST(StackRowsTest, RefusesPartsThatDoNotFit) {
  EXPECT_THAT(StackRows({}), HasError(kInvalid, HasSubstr("no parts")));
  std::vector<QuantizedMatrix> parts = {Part(2, 64, 32, 1), Part(2, 96, 32, 1)};
  EXPECT_THAT(StackRows(parts), HasError(kInvalid, HasSubstr("64 and 96 columns")));
  parts[1] = Part(2, 64, 32, 1);
  parts[1].kind = CodeKind::kFp8E4M3;
  EXPECT_THAT(StackRows(parts), HasError(kInvalid, HasSubstr("several kinds")));
}

}  // namespace
}  // namespace lockstep::kernels
