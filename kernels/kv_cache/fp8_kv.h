#pragma once

#include <bit>
#include <cstdint>

#include "kernels/core/bfloat16.h"
#include "kernels/formats/small_floats.h"

// Keys and values as 8-bit codes. Each token has one scale for the head_dim elements of a key, and
// one for those of a value, in every KV head. A scale is a power of two, so that scale * code is
// exact in bf16: attention over codes has the bits of attention over bf16 elements that were
// rounded to them. A scale depends on its token alone, never on others of the block.
// docs/decisions/0018-fp8-kv-cache.md says why.
namespace lockstep::kernels {

// A scale is stored as one byte. scale = 2^(byte - 247). 255 marks elements that are not finite.
inline constexpr int kKvScaleBias = 247;
inline constexpr uint32_t kMinKvScale = 135;  // 2^-112: every product with a code is normal
inline constexpr uint32_t kMaxKvScale = 254;  // 2^7: elements beyond 448 * 2^7 saturate
inline constexpr uint32_t kNotFiniteKvScale = 255;

// The scale of elements with at most this magnitude (bits of a bf16 without its sign): the smallest
// with magnitude <= 448 * scale.
[[gnu::always_inline]] constexpr uint32_t KvScaleOf(uint32_t max_magnitude_bits) {
  constexpr uint32_t kInfinity = 0x7F80;
  if (max_magnitude_bits >= kInfinity) return kNotFiniteKvScale;
  // 448 is 1.75 * 2^8. The sum carries into the exponent if the fraction is above 0.75.
  const uint32_t scale = ((max_magnitude_bits + 0x1F) >> 7) + (kKvScaleBias - 127 - 8);
  if (scale < kMinKvScale) return kMinKvScale;
  return scale > kMaxKvScale ? kMaxKvScale : scale;
}

// 1 / scale, exact. Elements become codes of element / scale.
[[gnu::always_inline]] constexpr float InverseKvScale(uint32_t scale) {
  return std::bit_cast<float>((kKvScaleBias + 127 - scale) << 23);
}

// The scale as fp32: infinite for elements that are not finite.
[[gnu::always_inline]] constexpr float KvScale(uint32_t scale) {
  return std::bit_cast<float>(scale == kNotFiniteKvScale ? 0x7F800000u
                                                         : (scale - (kKvScaleBias - 127)) << 23);
}

// The code of an element. Beyond 448 * scale it is that of the largest number.
[[gnu::always_inline]] inline uint8_t KvCode(BFloat16 element, uint32_t scale) {
  const float quotient = ToFloat(element) * InverseKvScale(scale);
  const float not_below = quotient < -kMaxE4M3 ? -kMaxE4M3 : quotient;
  const uint8_t code = ClampedToE4M3(not_below > kMaxE4M3 ? kMaxE4M3 : not_below);
  return quotient != quotient ? uint8_t{0x7F} : code;
}

// The element that a code and its scale stand for. The code of NaN is read as 480: a scale of 255
// keeps what is not finite from becoming a number.
inline BFloat16 KvElement(uint8_t code, uint32_t scale) {
  const float magnitude = (code & 0x7F) == 0x7F ? 480.0f : E4M3ToFloat(code & 0x7F);
  return ToBFloat16(((code & 0x80) != 0 ? -magnitude : magnitude) * KvScale(scale));
}

}  // namespace lockstep::kernels
