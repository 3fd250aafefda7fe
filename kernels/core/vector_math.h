#pragma once

#include <bit>
#include <cstdint>
#include <limits>

// The elementwise formulas. Each exists once; every kernel that needs it calls it. They are
// separate multiplications and additions, and compiler options forbid to fuse them. So a scalar
// tail and a vectorised body, on any instruction set, give the same bits.
namespace lockstep::kernels {

// e^x within 2 units in the last place for x >= kExpUnderflow, below that exactly 0, so that no
// denormal appears. Overflow gives infinity, NaN gives NaN. Range reduction by ln 2 in two parts
// (Cody and Waite), then 1 + r + r^2 q(r) with q of degree 4, a minimax fit on |r| <= ln(2) / 2.
inline constexpr float kExpUnderflow = -87.0f;

[[gnu::always_inline]] inline float Exp(float x) {
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693145752f;  // 15 bits of ln 2, so that n * kLn2High is exact
  constexpr float kLn2Low = 1.42860677e-6f;
  constexpr float kRoundToInteger = 12582912.0f;  // 1.5 * 2^23
  constexpr float kOverflow = 88.7228394f;

  const float from_below = x > kExpUnderflow ? x : kExpUnderflow;
  const float clamped = from_below < kOverflow ? from_below : kOverflow;
  const float shifted = clamped * kLog2E + kRoundToInteger;
  const int32_t n = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRoundToInteger);
  const float n_float = shifted - kRoundToInteger;
  const float r = (clamped - n_float * kLn2High) - n_float * kLn2Low;
  float q = 0.0013814320554956794f;
  q = q * r + 0.00836885068565607f;
  q = q * r + 0.041668400168418884f;
  q = q * r + 0.1666651964187622f;
  q = q * r + 0.4999999403953552f;
  const float mantissa = (q * r) * r + r + 1.0f;
  // 2^n in two factors: n reaches 128, which one factor cannot hold.
  const int32_t half = n >> 1;
  const float scale_a = std::bit_cast<float>(static_cast<uint32_t>(half + 127) << 23);
  const float scale_b = std::bit_cast<float>(static_cast<uint32_t>(n - half + 127) << 23);
  float result = (mantissa * scale_a) * scale_b;
  result = x < kExpUnderflow ? 0.0f : result;
  result = x > kOverflow ? std::numeric_limits<float>::infinity() : result;
  return x != x ? x : result;
}

// SwiGLU, arXiv 2002.05202: silu(gate) * up with silu(x) = x / (1 + e^-x).
[[gnu::always_inline]] inline float GatedValue(float gate, float up) {
  return gate / (1.0f + Exp(-gate)) * up;
}

}  // namespace lockstep::kernels
