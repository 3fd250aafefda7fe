#include "kernels/core/vector_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/core/bfloat16.h"

namespace lockstep::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(ExpTest, IsWithinTwoUnitsOfTheReference) {
  double worst = 0.0;
  for (float x = kExpUnderflow; x < 88.7f; x += 0.000731f) {
    const double expected = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(Exp(x) - expected) / expected);
  }
  EXPECT_LT(worst, 2.0 * 0x1p-23);
}

TEST(ExpTest, SpecialValues) {
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Exp(-0.0f), 1.0f);
  EXPECT_EQ(Exp(-kInfinity), 0.0f);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
  EXPECT_EQ(Exp(89.0f), kInfinity);
  EXPECT_EQ(Exp(3e38f), kInfinity);
  EXPECT_EQ(Exp(-3e38f), 0.0f);
  EXPECT_TRUE(std::isnan(Exp(kNaN)));
}

TEST(ExpTest, GivesNoDenormals) {
  EXPECT_GE(Exp(kExpUnderflow), std::numeric_limits<float>::min());
  EXPECT_EQ(Exp(std::nextafter(kExpUnderflow, -100.0f)), 0.0f);
}

TEST(GatedValueTest, MatchesTheFormula) {
  for (float gate = -30.0f; gate < 30.0f; gate += 0.37f) {
    const double expected = gate / (1.0 + std::exp(-static_cast<double>(gate))) * 1.75;
    EXPECT_NEAR(GatedValue(gate, 1.75f), expected, std::abs(expected) * 1e-6) << gate;
  }
  EXPECT_EQ(GatedValue(-1000.0f, 2.0f), 0.0f);
  EXPECT_EQ(GatedValue(1000.0f, 2.0f), 2000.0f);
  EXPECT_TRUE(std::isnan(GatedValue(kNaN, 2.0f)));
}

TEST(BFloat16Test, RoundTripsEveryValue) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BFloat16 value = {static_cast<uint16_t>(bits)};
    if (std::isnan(ToFloat(value))) continue;
    ASSERT_EQ(ToBFloat16(ToFloat(value)).bits, bits);
  }
}

TEST(BFloat16Test, RoundsToNearestTiesToEven) {
  const auto rounded = [](uint32_t bits) { return ToBFloat16(std::bit_cast<float>(bits)).bits; };
  EXPECT_EQ(rounded(0x3F807FFF), 0x3F80);
  EXPECT_EQ(rounded(0x3F808000), 0x3F80);  // a tie, down to even
  EXPECT_EQ(rounded(0x3F808001), 0x3F81);
  EXPECT_EQ(rounded(0x3F818000), 0x3F82);  // a tie, up to even
  EXPECT_EQ(rounded(0xBF818000), 0xBF82);
  EXPECT_EQ(rounded(0x7F7FFFFF), 0x7F80);  // the largest fp32 becomes infinity
  EXPECT_EQ(rounded(0x00008001), 0x0001);  // denormals are kept
}

TEST(BFloat16Test, KeepsNanWhateverItsPayload) {
  for (const uint32_t bits : {0x7F800001u, 0x7FFFFFFFu, 0xFFC00000u, 0xFF800001u}) {
    EXPECT_TRUE(std::isnan(ToFloat(ToBFloat16(std::bit_cast<float>(bits))))) << bits;
  }
}

}  // namespace
}  // namespace lockstep::kernels
