#include "kernels/formats/fp8_activations/fp8_scales.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/formats/stack_rows.h"
#include "tests/common/status_matchers.h"

namespace lockstep::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// E4M3 with a scale for each row and `group_columns` columns: that of 128 rows.
QuantizedMatrix Blocks(int64_t n, int64_t k, int64_t group_columns, float first_scale) {
  QuantizedMatrix matrix;
  matrix.kind = CodeKind::kFp8E4M3;
  matrix.n = n;
  matrix.k = k;
  matrix.group_columns = group_columns;
  matrix.codes.assign(static_cast<size_t>(n * k), 0x38);
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t group = 0; group < matrix.num_groups(); ++group) {
      matrix.scales.push_back(first_scale +
                              static_cast<float>(row / 128 * matrix.num_groups() + group));
    }
  }
  return matrix;
}

TEST(Fp8ScalesTest, BlocksHaveOneScale) {
  const auto scales = Fp8ScalesOf(Blocks(200, 272, 128, 1.0f));
  ASSERT_THAT(scales, IsOk());
  EXPECT_EQ(scales->layout, Fp8ScaleLayout::kBlock);
  EXPECT_THAT(scales->values, ElementsAre(1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f));
}

TEST(Fp8ScalesTest, RowsMayHaveAScaleOfTheirOwn) {
  QuantizedMatrix matrix = Blocks(3, 272, 272, 0.0f);
  matrix.scales = {1.0f, 2.0f, 3.0f};
  const auto scales = Fp8ScalesOf(matrix);
  ASSERT_THAT(scales, IsOk());
  EXPECT_EQ(scales->layout, Fp8ScaleLayout::kChannel);
  EXPECT_THAT(scales->values, ElementsAre(1.0f, 2.0f, 3.0f));
}

TEST(Fp8ScalesTest, PartsStackWhereTheirBlocksMeet) {
  const std::array whole = {Blocks(256, 256, 128, 1.0f), Blocks(64, 256, 128, 9.0f)};
  const auto stacked = StackRows(whole);
  ASSERT_THAT(stacked, IsOk());
  const auto scales = Fp8ScalesOf(*stacked);
  ASSERT_THAT(scales, IsOk());
  EXPECT_THAT(scales->values, ElementsAre(1.0f, 2.0f, 3.0f, 4.0f, 9.0f, 10.0f));

  const std::array torn = {Blocks(64, 256, 128, 1.0f), Blocks(64, 256, 128, 9.0f)};
  EXPECT_THAT(Fp8ScalesOf(*StackRows(torn)),
              HasError(kInvalid, HasSubstr("row 64 has another scale than row 0")));
}

TEST(Fp8ScalesTest, OthersAreRefusedByWhatTheyAre) {
  QuantizedMatrix integers = Blocks(16, 128, 128, 1.0f);
  integers.kind = CodeKind::kInt8;
  EXPECT_THAT(Fp8ScalesOf(integers), HasError(kInvalid, HasSubstr("not int8")));
  EXPECT_THAT(Fp8ScalesOf(Blocks(16, 136, 128, 1.0f)),
              HasError(kInvalid, HasSubstr("multiple of 16 columns, but there are 136")));
  EXPECT_THAT(Fp8ScalesOf(Blocks(16, 128, 32, 1.0f)),
              HasError(kInvalid, HasSubstr("one for 32 columns")));
}

}  // namespace
}  // namespace lockstep::kernels
