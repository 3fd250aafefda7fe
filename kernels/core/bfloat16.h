#pragma once

#include <bit>
#include <cstdint>

namespace lockstep::kernels {

// The upper half of an fp32: 8 bits of exponent, 7 of fraction. Storage only; arithmetic is in
// fp32.
struct BFloat16 {
  uint16_t bits;
};

[[gnu::always_inline]] inline float ToFloat(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

// Round to nearest, ties to even. Overflow gives infinity; a NaN stays a NaN (made quiet).
[[gnu::always_inline]] inline BFloat16 ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40u;
  return BFloat16{static_cast<uint16_t>(value != value ? quiet_nan : rounded)};
}

// What a value becomes when it is stored as bf16 and read again.
[[gnu::always_inline]] inline float RoundToBFloat16(float value) {
  return ToFloat(ToBFloat16(value));
}

// Whether bf16 holds the value. Not for NaN.
[[gnu::always_inline]] inline bool IsBFloat16(float value) {
  return RoundToBFloat16(value) == value;
}

}  // namespace lockstep::kernels
