#include "kernels/formats/strips/fp4/nvfp4_rows.h"

#include <algorithm>
#include <cmath>

#include "common/check.h"
#include "kernels/core/bfloat16.h"

namespace lockstep::kernels {
namespace {

constexpr int kSmallestExponent = -9;  // of E4M3, of its subnormal numbers
constexpr int kFractionBits = 7;       // of bf16

// The bits of value * 2^(126 - 9 - offset): what the exponent 0 of a group means.
int BitsOfExponentZero(float value, int exponent_offset) {
  return int{ToBFloat16(value).bits} + (126 + kSmallestExponent - exponent_offset) * 128;
}

}  // namespace

SplitScale SplitNvfp4Scale(float scale) {
  const float first = RoundToBFloat16(scale);
  const float second = RoundToBFloat16(1.5f * scale);
  const float half_unit = std::ldexp(1.0f, std::ilogb(first) - kFractionBits - 1);
  const float hi = first - 6 * half_unit;
  for (const float halves : {5.25f, 5.75f, 6.25f, 6.75f}) {
    const float lo = halves * half_unit;
    const float sum = hi + lo;  // exact, as are the products
    if (RoundToBFloat16(sum) == first && RoundToBFloat16(1.5f * sum) == second) return {hi, lo};
  }
  LOCKSTEP_CHECK(false, "no two numbers stand for the scale {}", scale);
  return {};
}

PackedNvfp4Row PackNvfp4Row(const float (&scales)[8]) {
  SplitScale split[8];
  std::transform(std::begin(scales), std::end(scales), split, SplitNvfp4Scale);
  for (const int offset : {0, 1}) {
    PackedNvfp4Row packed = {.row = {}, .exponent_offset = offset};
    const int upper_hi = BitsOfExponentZero(split[0].hi, offset) >> 8;
    const int upper_lo = BitsOfExponentZero(split[0].lo, offset) >> 8;
    packed.row.upper_bytes = static_cast<uint32_t>(upper_lo << 8 | upper_hi);
    bool fits = true;
    for (int i = 0; i < 8; ++i) {
      const int hi = BitsOfExponentZero(split[i].hi, offset);
      const int lo = BitsOfExponentZero(split[i].lo, offset);
      fits = fits && hi >> 8 == upper_hi && lo >> 8 == upper_lo;
      packed.row.hi_bytes[i / 4] |= static_cast<uint32_t>(hi & 0xFF) << 8 * (i % 4);
      packed.row.lo_bytes[i / 4] |= static_cast<uint32_t>(lo & 0xFF) << 8 * (i % 4);
    }
    if (fits) return packed;
  }
  LOCKSTEP_CHECK(false, "the scales of a row from {} have several upper bytes", scales[0]);
  return {};
}

uint8_t EncodeNvfp4Scale(float value, int exponent_offset) {
  const int exponent = std::ilogb(value);
  const int significand = static_cast<int>(std::ldexp(value, 3 - exponent)) - 8;
  return static_cast<uint8_t>((exponent - kSmallestExponent + exponent_offset) << 3 | significand);
}

}  // namespace lockstep::kernels
