#include "kernels/formats/small_floats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace lockstep::kernels {
namespace {

// The definition of the specification, in double.
double DefinedE4M3(int code) {
  const int exponent = (code >> 3) & 15, fraction = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

TEST(SmallFloatsTest, E4M3HasTheValuesOfItsDefinition) {
  for (int code = 0; code < 256; ++code) {
    const float value = E4M3ToFloat(static_cast<uint8_t>(code));
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(IsE4M3Nan(static_cast<uint8_t>(code)));
      continue;
    }
    EXPECT_EQ(value, DefinedE4M3(code));
    EXPECT_EQ(std::signbit(value), code >= 0x80);
    EXPECT_EQ(FloatToE4M3(value), code);
  }
  EXPECT_EQ(E4M3ToFloat(0x7E), kMaxE4M3);
}

TEST(SmallFloatsTest, E4M3RoundsToNearestAndTiesToEven) {
  for (int code = 0; code < 0x7E; ++code) {
    const float low = E4M3ToFloat(static_cast<uint8_t>(code));
    const float high = E4M3ToFloat(static_cast<uint8_t>(code + 1));
    const float middle = (low + high) / 2;  // exact
    const int even = code % 2 == 0 ? code : code + 1;
    EXPECT_EQ(FloatToE4M3(middle), even) << code;
    EXPECT_EQ(FloatToE4M3(std::nextafter(middle, 0.0f)), code) << code;
    EXPECT_EQ(FloatToE4M3(std::nextafter(middle, 1000.0f)), code + 1) << code;
    EXPECT_EQ(FloatToE4M3(-middle), even | 0x80) << code;
  }
  EXPECT_EQ(FloatToE4M3(464.0f), 0x7E);  // a tie with 480, which is no number
  for (const float beyond : {464.1f, 480.0f, 1e9f, std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_EQ(FloatToE4M3(beyond) & 0x7F, 0x7F) << beyond;
  }
}

TEST(SmallFloatsTest, E2M1AndE8M0) {
  const float magnitudes[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  for (uint8_t code = 0; code < 16; ++code) {
    EXPECT_EQ(std::fabs(E2M1ToFloat(code)), magnitudes[code % 8]);
    EXPECT_EQ(std::signbit(E2M1ToFloat(code)), code >= 8);
  }
  for (int code = 0; code < 255; ++code) {
    EXPECT_EQ(E8M0ToFloat(static_cast<uint8_t>(code)), std::ldexp(1.0, code - 127));
  }
}

}  // namespace
}  // namespace lockstep::kernels
