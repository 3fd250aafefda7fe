#pragma once

#include <bit>
#include <cstdint>

// The noise of a Gumbel-max draw: the token with the best score / temperature + noise is a draw
// from the softmax of scores / temperature (E. J. Gumbel, "Statistical theory of extreme values",
// 1954; C. Maddison et al., "A* sampling", NeurIPS 2014). It needs no sum over the vocabulary, and
// the draw from a filtered row is the best of what the filters keep.
//
// Written in operations that the CPU and CUDA round alike: both give the same bits.
namespace lockstep::kernels {

// log((1 + f) * 2^exponent) within 2 units in the last place, for 1 + f in [sqrt(1/2), sqrt(2)]:
// f - f^2 / 2 + f^3 p(f) with p of degree 7, a minimax fit.
[[gnu::always_inline]] constexpr float LogOfParts(float f, float exponent) {
  constexpr float kLn2High = 0.693145752f;  // 15 bits of ln 2, so that exponent * kLn2High is exact
  constexpr float kLn2Low = 1.42860677e-6f;
  float p = -0.07634497f;
  p = p * f + 0.12761576f;
  p = p * f + -0.13160183f;
  p = p * f + 0.14201757f;
  p = p * f + -0.16623357f;
  p = p * f + 0.20001227f;
  p = p * f + -0.2500082f;
  p = p * f + 0.3333333f;
  const float square = f * f;
  const float correction = p * f * square + exponent * kLn2Low - 0.5f * square;
  return (f + correction) + exponent * kLn2High;
}

// log(x) of a positive normal number.
[[gnu::always_inline]] constexpr float LogOfNormal(float x) {
  constexpr int32_t kBitsOfSqrtHalf = 0x3F3504F3;
  constexpr int kMantissaBits = 23;
  const int32_t bits = std::bit_cast<int32_t>(x);
  const int32_t exponent = (bits - kBitsOfSqrtHalf) >> kMantissaBits;
  const float mantissa = std::bit_cast<float>(bits - (exponent << kMantissaBits));
  return LogOfParts(mantissa - 1.0f, static_cast<float>(exponent));
}

// -log(-log(u)) for u = (word + 1/2) / 2^32, from -3.14 to kMaxGumbelNoise. u is never rounded to
// 1, because near 1 the logarithm is computed from the distance to 1.
[[gnu::always_inline]] constexpr float GumbelNoise(uint32_t word) {
  constexpr float kWordScale = 0x1p-32f;
  constexpr uint32_t kWordOfSqrtHalf = 0xB504F334;
  const uint32_t distance = ~word;
  const float log_u = word >= kWordOfSqrtHalf
                          ? LogOfParts((static_cast<float>(distance) + 0.5f) * -kWordScale, 0.0f)
                          : LogOfNormal((static_cast<float>(word) + 0.5f) * kWordScale);
  return -LogOfNormal(-log_u);
}

inline constexpr float kMaxGumbelNoise = 22.8741f;  // rounded up

// A cheap upper bound of GumbelNoise(word): -log(-log(u)) <= -log(1 - u), and a float's bits, read
// as an integer, lie on a chord of its logarithm. Most tokens cannot win even with the bound.
[[gnu::always_inline]] constexpr float GumbelNoiseAtMost(uint32_t word) {
  constexpr float kLn2 = 0.6931472f;
  constexpr float kOctavesBelowOne = 127.0f, kMargin = 0.001f;
  constexpr uint32_t kBitsOfOne = 0x3F800000, kBitsOfTwoTo23 = 0x4B000000;
  // 1 - u, rounded down to a multiple of 2^-23.
  const float distance = std::bit_cast<float>(kBitsOfOne | ~word >> 9) - 1.0f;
  // Its bits over 2^23, in steps of 2^-14.
  const uint32_t steps = std::bit_cast<uint32_t>(distance) >> 9;
  const float octaves =
      (std::bit_cast<float>(kBitsOfTwoTo23 | steps) - 0x1p23f) * 0x1p-14f - kOctavesBelowOne;
  return kMargin - kLn2 * octaves;
}

}  // namespace lockstep::kernels
