#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// The floating-point numbers of the OCP specifications "8-bit floating point" and "microscaling
// formats". Nothing here depends on the processor's flush-to-zero mode.
namespace lockstep::kernels {

// E4M3: a sign, 4 bits of exponent with bias 7, 3 of fraction. No infinities.
inline constexpr float kMaxE4M3 = 448.0f;

inline bool IsE4M3Nan(uint8_t code) { return (code & 0x7F) == 0x7F; }

// Computes all cases, and masks take one: a loop of these becomes vector instructions.
inline float E4M3ToFloat(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  const uint32_t magnitude = code & 0x7Fu;
  // Below 8 the value is a multiple of 2^-9. Above, bias 7 becomes 127. The last code is NaN.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-9f);
  const uint32_t normal = (magnitude << 20) + (120u << 23);
  const uint32_t is_subnormal = 0u - static_cast<uint32_t>(magnitude < 8);
  const uint32_t is_nan = 0u - static_cast<uint32_t>(magnitude == 0x7F);
  return std::bit_cast<float>((subnormal & is_subnormal) | (normal & ~is_subnormal) |
                              (0x7FC00000u & is_nan) | sign);
}

// Round to nearest, ties to even. NaN, and what rounds to more than 448, become NaN.
inline uint8_t FloatToE4M3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
  const float magnitude = std::bit_cast<float>(bits & 0x7FFFFFFFu);
  if (!(magnitude < 512.0f)) return sign | 0x7F;
  if (magnitude < 0x1p-6f) {
    // Multiples of 2^-9; the eighth is the smallest normal number. rint rounds to even.
    return sign | static_cast<uint8_t>(std::rint(magnitude * 0x1p9f));
  }
  const uint32_t scaled = std::bit_cast<uint32_t>(magnitude) - (120u << 23);
  const uint32_t rounded = (scaled + 0x7FFFFu + ((scaled >> 20) & 1u)) >> 20;
  return sign | static_cast<uint8_t>(rounded < 0x7Fu ? rounded : 0x7Fu);
}

// FloatToE4M3 for magnitudes up to 448. Computes both cases, and a mask takes one: a loop of these
// becomes vector instructions.
[[gnu::always_inline]] inline uint8_t ClampedToE4M3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  // Beside 2^14 an fp32 has the step of subnormal codes, 2^-9.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14f) & 0xFu;
  const uint32_t scaled = magnitude - (120u << 23);
  const uint32_t normal = (scaled + 0x7FFFFu + ((scaled >> 20) & 1u)) >> 20;
  constexpr uint32_t kSmallestNormal = std::bit_cast<uint32_t>(0x1p-6f);
  const uint32_t mask = 0u - static_cast<uint32_t>(magnitude < kSmallestNormal);
  return static_cast<uint8_t>((subnormal & mask) | (normal & ~mask) | ((bits >> 24) & 0x80u));
}

// E2M1: a sign, 2 bits of exponent with bias 1, 1 of fraction.
inline float E2M1ToFloat(uint8_t code) {
  constexpr float kMagnitudes[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  const float magnitude = kMagnitudes[code & 7];
  return (code & 8) != 0 ? -magnitude : magnitude;
}

// E8M0: 2^(code - 127). 255 is NaN.
inline constexpr uint8_t kE8M0Nan = 255;
inline float E8M0ToFloat(uint8_t code) {
  return std::bit_cast<float>(code == 0 ? 0x00400000u : static_cast<uint32_t>(code) << 23);
}

}  // namespace lockstep::kernels
