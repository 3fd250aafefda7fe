#include "kernels/quant/finite.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace lockstep::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

size_t FindFloat(const std::vector<float>& values) {
  return FindNotFinite(std::span<const float>(values));
}
size_t FindBFloat16(const std::vector<BFloat16>& values) {
  return FindNotFinite(std::span<const BFloat16>(values));
}

TEST(FindNotFiniteTest, JudgesEveryBFloat16AsItsFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BFloat16 value = {static_cast<uint16_t>(bits)};
    const size_t expected = std::isfinite(ToFloat(value)) ? 1 : 0;
    ASSERT_EQ(FindBFloat16({value}), expected) << bits;
    ASSERT_EQ(FindFloat({ToFloat(value)}), expected) << bits;
  }
}

TEST(FindNotFiniteTest, AFloatThatRoundsToInfinityIsNotFinite) {
  const float largest = std::bit_cast<float>(0x7F7F7FFFu);
  const float first_bad = std::bit_cast<float>(0x7F7F8000u);
  ASSERT_TRUE(std::isfinite(RoundToBFloat16(largest)));
  ASSERT_FALSE(std::isfinite(RoundToBFloat16(first_bad)));
  EXPECT_EQ(FindFloat({largest, -largest}), 2u);
  EXPECT_EQ(FindFloat({first_bad}), 0u);
  EXPECT_EQ(FindFloat({-first_bad}), 0u);
}

TEST(FindNotFiniteTest, FindsTheFirstAtEveryPlace) {
  EXPECT_EQ(FindFloat({}), 0u);
  constexpr size_t kSize = 2 * 4096 + 37;  // whole blocks, and a part of one
  std::vector<float> values(kSize, -1.5f);
  std::vector<BFloat16> halves(kSize, ToBFloat16(-1.5f));
  EXPECT_EQ(FindFloat(values), kSize);
  EXPECT_EQ(FindBFloat16(halves), kSize);
  values.back() = kInfinity;
  halves.back() = ToBFloat16(kNaN);
  for (size_t place = kSize; place-- > 0;) {
    values[place] = place % 2 == 0 ? kNaN : -kInfinity;
    halves[place] = ToBFloat16(values[place]);
    ASSERT_EQ(FindFloat(values), place);
    ASSERT_EQ(FindBFloat16(halves), place);
    if (place + 1 == kSize) continue;
    values[place] = 1.0f;
    halves[place] = ToBFloat16(1.0f);
    ASSERT_EQ(FindFloat(values), kSize - 1);
  }
}

}  // namespace
}  // namespace lockstep::kernels
