#include "kernels/kv_cache/fp8_kv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::kernels {
namespace {

uint32_t Magnitude(float value) { return ToBFloat16(std::abs(value)).bits; }

TEST(Fp8KvTest, AScaleIsTheSmallestWithWhichTheLargestElementHasACode) {
  for (uint32_t bits = 0; bits < 0x7F80; ++bits) {
    const float magnitude = ToFloat(BFloat16{static_cast<uint16_t>(bits)});
    const uint32_t scale = KvScaleOf(bits);
    ASSERT_GE(scale, kMinKvScale);
    ASSERT_LE(scale, kMaxKvScale);
    if (scale < kMaxKvScale) {
      ASSERT_LE(magnitude, 448.0f * KvScale(scale)) << bits;
    }
    if (scale > kMinKvScale) {
      ASSERT_GT(magnitude, 448.0f * KvScale(scale - 1)) << bits;
    }
  }
}

TEST(Fp8KvTest, AScaleIsAPowerOfTwoAndItsInverseIsExact) {
  for (uint32_t scale = kMinKvScale; scale <= kMaxKvScale; ++scale) {
    EXPECT_EQ(KvScale(scale), std::ldexp(1.0f, static_cast<int>(scale) - kKvScaleBias));
    EXPECT_EQ(KvScale(scale) * InverseKvScale(scale), 1.0f);
  }
}

TEST(Fp8KvTest, AnElementOfACodeIsExactForEveryScale) {
  for (uint32_t scale = kMinKvScale; scale <= kMaxKvScale; ++scale) {
    for (int code = 0; code < 256; ++code) {
      if ((code & 0x7F) == 0x7F) continue;
      const auto byte = static_cast<uint8_t>(code);
      const BFloat16 element = KvElement(byte, scale);
      ASSERT_EQ(ToFloat(element), E4M3ToFloat(byte) * KvScale(scale));
      ASSERT_EQ(KvCode(element, scale), byte) << code << " " << scale;
    }
  }
}

TEST(Fp8KvTest, AnElementIsOffByASixteenthOfItselfOrAHalfOfTheSmallestCode) {
  for (const float largest : {1e-20f, 0.37f, 1.0f, 447.0f, 448.0f, 450.0f, 3e4f}) {
    const uint32_t scale = KvScaleOf(Magnitude(largest));
    for (uint32_t bits = 0; bits <= Magnitude(largest); ++bits) {
      const BFloat16 element{static_cast<uint16_t>(bits)};
      const float read = ToFloat(KvElement(KvCode(element, scale), scale));
      const float bound = std::max(ToFloat(element) / 16, KvScale(scale) * 0x1p-10f);
      ASSERT_LE(std::abs(read - ToFloat(element)), bound) << bits << " of " << largest;
      const BFloat16 negative{static_cast<uint16_t>(bits | 0x8000)};
      ASSERT_EQ(ToFloat(KvElement(KvCode(negative, scale), scale)), -read);
    }
  }
}

TEST(Fp8KvTest, ACodeIsThatOfTheQuotient) {
  for (const uint32_t scale : {kMinKvScale, 240u, 247u, kMaxKvScale}) {
    for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
      const BFloat16 element{static_cast<uint16_t>(bits)};
      const float quotient = ToFloat(element) / KvScale(scale);
      if (!(std::abs(quotient) <= kMaxE4M3)) continue;
      ASSERT_EQ(KvCode(element, scale), FloatToE4M3(quotient)) << bits << " " << scale;
    }
  }
}

TEST(Fp8KvTest, ElementsBeyondTheLargestScaleSaturate) {
  EXPECT_EQ(KvScaleOf(Magnitude(1e6f)), kMaxKvScale);
  const float largest = 448.0f * 128;
  EXPECT_EQ(ToFloat(KvElement(KvCode(ToBFloat16(1e6f), kMaxKvScale), kMaxKvScale)), largest);
  EXPECT_EQ(ToFloat(KvElement(KvCode(ToBFloat16(-1e6f), kMaxKvScale), kMaxKvScale)), -largest);
}

TEST(Fp8KvTest, WhatIsNotFiniteNeverBecomesANumber) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {infinity, -infinity, nan}) {
    const uint32_t scale = KvScaleOf(Magnitude(bad));
    EXPECT_EQ(scale, kNotFiniteKvScale);
    for (const float element : {bad, 0.0f, 1.0f, -3e38f}) {
      EXPECT_FALSE(std::isfinite(ToFloat(KvElement(KvCode(ToBFloat16(element), scale), scale))));
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
