#pragma once

#include <bit>
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

}  // namespace lockstep::kernels
