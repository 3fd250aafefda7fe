#pragma once

#include <cstdint>

#include "kernels/formats/strips/fp4/fp4_weights.h"

// The scales of NVFP4 as the products of the GPU take them. A scale s is the fp32 quotient or
// product of a value of E4M3 and the fp32 scale of a row. A value of E4M3 is one of eight
// significands times a power of two, and a power of two changes no rounding. So a row needs what
// belongs to eight scales, and each group a byte that names one and the power.
namespace lockstep::kernels {

// Two numbers in bf16 that stand for a scale s: RNE(v * hi + v * lo) = RNE(v * s) for every v of
// E2M1, and v * lo is exact. RNE rounds to bf16. They exist for every s.
//
// Up to powers of two, v is 1 or 1.5. So there are two products: a = RNE(s), and b = RNE(1.5 * s).
// Let h be half of the unit of the last bit of a. The sum hi + lo is a plus -3/4, -1/4, 1/4 or 3/4
// of h. It always rounds to a, but for -3/4 under a power of two, which s is then not so far from.
//
// s is at most h away from a, so 1.5 * s is at most 1.5 * h away from 1.5 * a. That number is a
// multiple of h, and so are the borders between what rounds up and what rounds down. The multiples
// of h make four intervals around 1.5 * a, each h wide. 1.5 * s is inside one of them, or on a
// border. On a border, one of the two intervals beside it rounds to the same b. The four sums,
// times 1.5, lie 9/8 and 3/8 of h from 1.5 * a, on both sides. So each interval has one of them.
//
// hi is a - 6 * h. So lo is 5.25 to 6.75 times h, and always has the same sign and exponent.
struct SplitScale {
  float hi;
  float lo;
};
// `scale`: from 2^-110 to 2^110.
SplitScale SplitNvfp4Scale(float scale);

// The scales that the kernels can compute with: hi * 2^126 must be a number of bf16, and no weight
// may be subnormal.
inline constexpr float kMinNvfp4Scale = 0x1p-100f;
inline constexpr float kMaxNvfp4Scale = 0x1p2f;  // less than this

// A row and its eight scales for the values 1, 1 1/8 to 1 7/8 of E4M3. `exponent_offset` is 0 or 1:
// EncodeNvfp4Scale adds it so that the upper bytes are the same for all.
struct PackedNvfp4Row {
  Nvfp4Row row;
  int exponent_offset = 0;
};
PackedNvfp4Row PackNvfp4Row(const float (&scales)[8]);

// The byte of a group: a value of E4M3 that is more than zero.
uint8_t EncodeNvfp4Scale(float value, int exponent_offset);

}  // namespace lockstep::kernels
