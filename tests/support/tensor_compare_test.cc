#include "tests/support/tensor_compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(IsWithinTest, AcceptsWhatIsInsideAndNothingElse) {
  const std::vector<double> expected = {1.0, -2.0};
  EXPECT_TRUE(IsWithin(std::vector{1.25f, -2.25f}, expected, 0.25));
  EXPECT_FALSE(IsWithin(std::vector{1.25f, -2.5f}, expected, 0.25));
  EXPECT_FALSE(IsWithin(std::vector{1.0f}, expected, 0.25));
  EXPECT_TRUE(IsWithin(std::vector{1.5f, -2.0f}, expected, std::vector{0.5, 0.0}));
  EXPECT_FALSE(IsWithin(std::vector{1.0f, -2.5f}, expected, std::vector{0.5, 0.0}));
  EXPECT_FALSE(IsWithin(std::vector{1.0f, -2.0f}, expected, std::vector{0.5}));
}

TEST(IsWithinTest, ComparesNanAndInfinityAsMasks) {
  const double infinity = kInfinity;
  const double nan = kNaN;
  EXPECT_TRUE(IsWithin(std::vector{kNaN, kInfinity, 1.0f}, std::vector{nan, infinity, 1.0}, 0.0));
  EXPECT_FALSE(IsWithin(std::vector{kNaN}, std::vector{1.0}, 1e30));
  EXPECT_FALSE(IsWithin(std::vector{1.0f}, std::vector{nan}, 1e30));
  EXPECT_FALSE(IsWithin(std::vector{kInfinity}, std::vector{1.0}, infinity));
  EXPECT_FALSE(IsWithin(std::vector{-kInfinity}, std::vector{infinity}, infinity));
  EXPECT_FALSE(IsWithin(std::vector{kNaN}, std::vector{infinity}, infinity));
}

TEST(IsWithinTest, NamesTheWorstValue) {
  const auto result =
      IsWithin(std::vector{1.1f, 9.0f, 2.0f}, std::vector<double>{1.0, 4.0, 1.0}, 0.5);
  EXPECT_NE(std::string(result.message()).find("2 of 3"), std::string::npos) << result.message();
  EXPECT_NE(std::string(result.message()).find("value 1: 9"), std::string::npos)
      << result.message();
}

TEST(IsSameBitsTest, SeesSignsOfZeroAndPayloads) {
  EXPECT_TRUE(IsSameBits(std::vector{1.0f, kNaN}, std::vector{1.0f, kNaN}));
  EXPECT_FALSE(IsSameBits(std::vector{0.0f}, std::vector{-0.0f}));
  EXPECT_FALSE(IsSameBits(std::vector{kNaN}, std::vector{-kNaN}));
  EXPECT_FALSE(IsSameBits(std::vector{1.0f}, std::vector{1.0f, 1.0f}));
  EXPECT_FALSE(IsSameBits(std::vector{kernels::BFloat16{1}}, std::vector{kernels::BFloat16{2}}));
}

TEST(IsFiniteTest, FindsNanAndInfinity) {
  EXPECT_TRUE(IsFinite(std::vector{0.0f, -1e38f}));
  EXPECT_FALSE(IsFinite(std::vector{0.0f, kNaN}));
  EXPECT_FALSE(IsFinite(std::vector{-kInfinity}));
}

TEST(SummariseErrorTest, GivesMaximumAndRootMeanSquare) {
  const ErrorSummary error =
      SummariseError(std::vector{1.0f, 2.0f, 3.0f, 4.0f}, std::vector{1.0f, 2.0f, 0.0f, 8.0f});
  EXPECT_DOUBLE_EQ(error.max, 4.0);
  EXPECT_DOUBLE_EQ(error.rms, 2.5);
}

TEST(RandomFloatsTest, IsSeededAndHasOutliersWhenAsked) {
  EXPECT_EQ(RandomFloats(500, 1), RandomFloats(500, 1));
  EXPECT_NE(RandomFloats(500, 1), RandomFloats(500, 2));
  const auto largest = [](const std::vector<float>& values) {
    float result = 0.0f;
    for (const float value : values) result = std::max(result, std::abs(value));
    return result;
  };
  EXPECT_LT(largest(RandomFloats(5000, 1)), 10.0f);
  EXPECT_GT(largest(RandomFloats(5000, 1, Distribution::kOutliers)), 50.0f);
}

}  // namespace
}  // namespace lockstep
