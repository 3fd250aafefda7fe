#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/core/bfloat16.h"

// How codes of E2M1 become bf16 weights. The kernels call these functions, and so do tests on the
// CPU, where the three instructions of the GPU are computed by hand.
//
// A word has 8 codes: 4 pairs, the first of a pair in the lower half. The bits of a code do not lie
// together. They lie where one rotation by 6, 2 or -4 bits puts the sign at bit 15 of a half and
// the other three at bits 8, 7 and 6 (the last pair needs one for its lowest bit alone). Read as
// bf16, that is v * 2^-126, with v the value of the code, exactly: E2M1 and bf16 have the same rule
// for numbers with an exponent of zero.
//
// A weight is RNE(v * s): s is the scale of its group in fp32, and RNE rounds to bf16.
//   MXFP4: s is a power of two, so v * s is exact. It is the product of v * 2^-126 and s * 2^126.
//   NVFP4: s has up to 24 bits. Two numbers in bf16 stand for it, hi and lo, with
//     RNE(v * hi + v * lo) = RNE(v * s) for every v, and with v * lo exact. nvfp4_rows.h says which
//     they are. One multiplication and one fused multiply-add give the sum with one rounding. Both
//     numbers have a factor of 2^126.
// v * 2^-126 of the code 0.5 is subnormal, and so are the smallest weights of MXFP4. No instruction
// here flushes subnormal numbers. The factor of 2^126 bounds s from above: ChooseStripCodec refuses
// larger scales.
#ifdef __CUDACC__
#include <cuda_bf16.h>
#define LOCKSTEP_FP4_FUNCTION __host__ __device__ __forceinline__
#else
#define LOCKSTEP_FP4_FUNCTION inline
#endif

namespace lockstep::kernels {

// The bit of a word that holds bit `bit` of a code (3 is the sign): of pair 0 to 3 and its first or
// second code.
constexpr int Fp4Bit(int pair, int second, int bit) {
  constexpr int kBits[4][4] = {{0, 1, 2, 9}, {4, 5, 6, 13}, {10, 11, 12, 3 + 16}, {14, 7, 8, 15}};
  return kBits[pair][bit] ^ 16 * second;
}

// The values of a pair, times 2^-126.
template <int kPair>
LOCKSTEP_FP4_FUNCTION uint32_t Fp4Values(uint32_t word) {
  static_assert(kPair >= 0 && kPair < 4);
  constexpr uint32_t kMask = 0x81C081C0;
  if constexpr (kPair == 0) return word << 6 & kMask;
  if constexpr (kPair == 1) return word << 2 & kMask;
  if constexpr (kPair == 2) return (word >> 4 | word << 28) & kMask;
  return (word & 0x81808180) | (word >> 8 & 0x00400040);
}

#ifndef __CUDA_ARCH__
// What the instructions of the GPU do, each half of a word on its own.
namespace fp4_host {
inline double HalfOf(uint32_t word, int half) {
  return ToFloat(BFloat16{static_cast<uint16_t>(word >> 16 * half)});
}
inline uint32_t PairOf(double lower, double upper) {
  // What is rounded here fits fp32.
  return ToBFloat16(static_cast<float>(lower)).bits |
         static_cast<uint32_t>(ToBFloat16(static_cast<float>(upper)).bits) << 16;
}
}  // namespace fp4_host
#endif

// Bytes that the nibbles of `selector` name: 0 to 3 of `first`, 4 to 7 of `second`.
LOCKSTEP_FP4_FUNCTION uint32_t Fp4BytePermute(uint32_t first, uint32_t second, uint32_t selector) {
#ifdef __CUDA_ARCH__
  return __byte_perm(first, second, selector);
#else
  const uint64_t bytes = static_cast<uint64_t>(second) << 32 | first;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    result |= static_cast<uint32_t>(bytes >> 8 * (selector >> 4 * i & 7) & 0xFF) << 8 * i;
  }
  return result;
#endif
}

// Of MXFP4. `scale`: s * 2^126 in both halves.
LOCKSTEP_FP4_FUNCTION uint32_t Fp4TimesPower(uint32_t values, uint32_t scale) {
#ifdef __CUDA_ARCH__
  const __nv_bfloat162 product = __hmul2_rn(reinterpret_cast<const __nv_bfloat162&>(values),
                                            reinterpret_cast<const __nv_bfloat162&>(scale));
  return reinterpret_cast<const uint32_t&>(product);
#else
  using fp4_host::HalfOf;
  return fp4_host::PairOf(HalfOf(values, 0) * HalfOf(scale, 0),
                          HalfOf(values, 1) * HalfOf(scale, 1));
#endif
}

// Of NVFP4. `scale`: hi * 2^126 in the lower half, lo * 2^126 in the upper one.
LOCKSTEP_FP4_FUNCTION uint32_t Fp4TimesSum(uint32_t values, uint32_t scale) {
#ifdef __CUDA_ARCH__
  const auto& pair = reinterpret_cast<const __nv_bfloat162&>(values);
  const auto& both = reinterpret_cast<const __nv_bfloat162&>(scale);
  const __nv_bfloat162 sum =
      __hfma2(pair, __low2bfloat162(both), __hmul2_rn(pair, __high2bfloat162(both)));
  return reinterpret_cast<const uint32_t&>(sum);
#else
  using fp4_host::HalfOf;
  const double hi = HalfOf(scale, 0), lo = HalfOf(scale, 1);
  const uint32_t small = fp4_host::PairOf(HalfOf(values, 0) * lo, HalfOf(values, 1) * lo);
  return fp4_host::PairOf(HalfOf(values, 0) * hi + HalfOf(small, 0),
                          HalfOf(values, 1) * hi + HalfOf(small, 1));
#endif
}

// s * 2^126 of MXFP4 in both halves, from byte kGroup of the four of a row and a block, which are
// E8M0 up to 128 (s = 2).
template <int kGroup>
LOCKSTEP_FP4_FUNCTION uint32_t Mxfp4Scale(uint32_t bytes) {
  constexpr uint32_t kSelector = 0x4040 | kGroup * 0x0101;  // bytes 4 to 7 are zero
  return Fp4BytePermute(bytes, 0, kSelector) * 128 + (126u << 7) * 0x00010001;
}

// What a lane knows of a row of NVFP4 (nvfp4_rows.h): hi and lo for each of the eight significands
// that a scale of E4M3 may have. Their lower bytes differ, their upper bytes are the same for all.
struct Nvfp4Row {
  uint32_t hi_bytes[2] = {0, 0};
  uint32_t lo_bytes[2] = {0, 0};
  uint32_t upper_bytes = 0;  // of hi, then of lo

  friend bool operator==(const Nvfp4Row&, const Nvfp4Row&) = default;
};

// hi and lo of a group, from one of two bytes: the significand in the lower 3 bits, then an
// exponent that is added to those of hi and lo.
template <int kByte>
LOCKSTEP_FP4_FUNCTION uint32_t Nvfp4Scale(const Nvfp4Row& row, uint32_t bytes) {
  static_assert(kByte == 0 || kByte == 1);
  const uint32_t significands = bytes & 0x0707;  // as selectors: of bytes 0 and 2
  const uint32_t lower_bytes =
      Fp4BytePermute(Fp4BytePermute(row.hi_bytes[0], row.hi_bytes[1], significands),
                     Fp4BytePermute(row.lo_bytes[0], row.lo_bytes[1], significands), 0x6240);
  const uint32_t exponent = kByte == 0 ? bytes >> 3 & 31 : bytes >> 11;
  constexpr uint32_t kSelector = kByte == 0 ? 0x5140 : 0x5342;
  return Fp4BytePermute(lower_bytes, row.upper_bytes, kSelector) + exponent * 0x00800080;
}

}  // namespace lockstep::kernels
