#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace lockstep::kernels {

// IEEE 754 binary16 to binary32, exact for every input; NaN payloads are kept. Does not depend on
// the processor's flush-to-zero mode.
inline float Float16ToFloat(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  // Exponent bias 15 becomes 127; an all-ones exponent (Inf, NaN) stays all ones.
  const uint32_t rebias = magnitude >= 0x7c00u ? 224u << 23 : 112u << 23;
  const uint32_t normal = (magnitude << 13) + rebias;
  const uint32_t subnormal = std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  return std::bit_cast<float>(sign | (magnitude < 0x0400u ? subnormal : normal));
}

// The inverse. Exact for values that binary16 holds; something else otherwise.
inline uint16_t TruncateToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const float magnitude = std::fabs(value);
  if (magnitude < 0x1p-14f) return sign | static_cast<uint16_t>(magnitude * 0x1p24f);
  if (!(magnitude < 65536.0f)) return sign | 0x7C00u;
  return sign | static_cast<uint16_t>((std::bit_cast<uint32_t>(magnitude) - (112u << 23)) >> 13);
}

// Whether binary16 holds the value. Not for infinities and NaN.
inline bool IsFloat16(float value) {
  return std::isfinite(value) && Float16ToFloat(TruncateToFloat16(value)) == value;
}

}  // namespace lockstep::kernels
