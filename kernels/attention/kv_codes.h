#pragma once

#include <cstdint>

#include "kernels/core/simd.h"
#include "kernels/kv_cache/fp8_kv.h"

#if LOCKSTEP_ISA_LEVEL > 0
#include <immintrin.h>
#endif

// Vectors of E4M3 codes as numbers. Every result is exact. The code of NaN is read as 480, which
// KvElement does too. No instruction gets a denormal number, because those are slow: below 2^-6 a
// code has no leading 1, so integer operations alone do not move it to its place in an fp32.
//
// LoadCodes gives 16 codes as values / kCodesPerUnit. LoadCodePairs gives the keys of
// kernels/kv_cache/paged_kv.h: pairs of dims of 16 tokens, times the scale of each token. Tokens
// with a scale of 255 become any finite numbers there.
namespace lockstep::kernels::LOCKSTEP_ISA {

// An fp16 has E4M3's fraction and a larger exponent. So the bits of a code, moved to their place in
// an fp16, are code / 2^8, also where the code has no leading 1.
inline constexpr float kCodesPerUnit = 256.0f;

#if LOCKSTEP_ISA_LEVEL > 0
// 16 codes as fp16.
LOCKSTEP_INLINE __m256i HalvesOfCodes(__m128i codes) {
  const __m256i moved = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
  return _mm256_and_si256(moved, _mm256_set1_epi16(static_cast<int16_t>(0xBF80)));
}
LOCKSTEP_INLINE __m128i Load16Bytes(const uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
#endif

#if LOCKSTEP_ISA_LEVEL == 2
using CodePairs = Bf16Pairs;

// In each half of a lane kLargeExponent minus the exponent that the token's scale adds to a bf16.
struct KeyCodeScales {
  __m512i exponents;
};

// An exponent of bf16 whose lower four bits are 0, in place.
inline constexpr int kLargeExponent = 0xF0 << 7;

LOCKSTEP_INLINE F32x16 LoadCodes(const uint8_t* from) {
  return {_mm512_cvtph_ps(HalvesOfCodes(Load16Bytes(from)))};
}

LOCKSTEP_INLINE KeyCodeScales LoadKeyScales(const uint8_t* from) {
  // bf16 has a bias of 127, E4M3 one of 7.
  const __m512i exponents = _mm512_sub_epi32(_mm512_cvtepu8_epi32(Load16Bytes(from)),
                                             _mm512_set1_epi32(kKvScaleBias - 127 + 7));
  const __m512i rest =
      _mm512_sub_epi32(_mm512_set1_epi32(kLargeExponent), _mm512_slli_epi32(exponents, 7));
  const __m512i low = _mm512_and_si512(rest, _mm512_set1_epi32(0xFFFF));
  return {_mm512_or_si512(low, _mm512_slli_epi32(low, 16))};
}

LOCKSTEP_INLINE CodePairs LoadCodePairs(const uint8_t* from, KeyCodeScales scales) {
  constexpr int kFirstAndSecondOrThird = 0xEA;
  constexpr int kFirstOrSecondAndThird = 0xF8;
  const __m512i codes =
      _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  const __m512i with_leading_one =
      _mm512_ternarylogic_epi32(_mm512_slli_epi16(codes, 4), _mm512_set1_epi16(0x7F0),
                                _mm512_set1_epi16(kLargeExponent), kFirstAndSecondOrThird);
  // The codes 1 to 7 are multiples of 2^-9. 0 stays 0: the subtraction below saturates.
  const __m512i without_leading_one = _mm512_broadcast_i32x4(_mm_setr_epi16(
      0, kLargeExponent - 0x100, kLargeExponent - 0x80, kLargeExponent - 0x40, kLargeExponent,
      kLargeExponent + 0x20, kLargeExponent + 0x40, kLargeExponent + 0x60));
  const __mmask32 is_small = _mm512_testn_epi16_mask(codes, _mm512_set1_epi16(0x78));
  const __m512i unscaled =
      _mm512_mask_permutexvar_epi16(with_leading_one, is_small, codes, without_leading_one);
  const __m512i magnitude = _mm512_subs_epu16(unscaled, scales.exponents);
  const __m512i sign = _mm512_set1_epi16(static_cast<int16_t>(0x8000));
  return {reinterpret_cast<__m512bh>(
      _mm512_ternarylogic_epi32(magnitude, codes, sign, kFirstOrSecondAndThird))};
}
#else
// The first and the second number of 16 pairs.
struct CodePairs {
  F32x16 first;
  F32x16 second;
};

// kCodesPerUnit times the scale of each token. Of bytes that are no scale it is any number.
struct KeyCodeScales {
  F32x16 scales;
};

LOCKSTEP_INLINE KeyCodeScales LoadKeyScales(const uint8_t* from) {
  float scales[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    scales[i] = std::bit_cast<float>((from[i] - (kKvScaleBias - 127u - 8u)) << 23);
  }
  return {Load(scales)};
}

#if LOCKSTEP_ISA_LEVEL == 1
LOCKSTEP_INLINE F32x16 FloatsOfHalves(__m256i halves) {
  return {{_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
           _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))}};
}
LOCKSTEP_INLINE F32x16 LoadCodes(const uint8_t* from) {
  return FloatsOfHalves(HalvesOfCodes(Load16Bytes(from)));
}

LOCKSTEP_INLINE CodePairs LoadCodePairs(const uint8_t* from, KeyCodeScales scales) {
  // The first codes of 8 pairs, then the second ones.
  const __m128i apart = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  CodePairs pairs;
  for (int i = 0; i < 2; ++i) {
    const __m128i codes = _mm_shuffle_epi8(Load16Bytes(from + i * 16), apart);
    const F32x16 values = FloatsOfHalves(HalvesOfCodes(codes));
    pairs.first.v[i] = _mm256_mul_ps(values.v[0], scales.scales.v[i]);
    pairs.second.v[i] = _mm256_mul_ps(values.v[1], scales.scales.v[i]);
  }
  return pairs;
}

LOCKSTEP_INLINE F32x16 DotPairs(const CodePairs& a, Bf16Pairs b, F32x16 sum) {
  for (int i = 0; i < 2; ++i) {
    sum.v[i] = _mm256_fmadd_ps(a.first.v[i], First(b.v[i]), sum.v[i]);
    sum.v[i] = _mm256_fmadd_ps(a.second.v[i], Second(b.v[i]), sum.v[i]);
  }
  return sum;
}
#else
// Computes both cases, and a mask takes one: a loop of these becomes vector instructions.
LOCKSTEP_INLINE float ValueOfCode(uint32_t code) {
  const uint32_t magnitude = code & 0x7F;
  const uint32_t small =
      std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-17f);
  const uint32_t normal = (magnitude << 20) + ((127 - 7 - 8) << 23);
  const uint32_t is_small = 0u - static_cast<uint32_t>(magnitude < 8);
  return std::bit_cast<float>((small & is_small) | (normal & ~is_small) | (code & 0x80) << 24);
}
LOCKSTEP_INLINE F32x16 LoadCodes(const uint8_t* from) {
  F32x16 result;
  for (int i = 0; i < kLanes; ++i) result.v[i] = ValueOfCode(from[i]);
  return result;
}

LOCKSTEP_INLINE CodePairs LoadCodePairs(const uint8_t* from, KeyCodeScales scales) {
  CodePairs pairs;
  for (int i = 0; i < kLanes; ++i) {
    pairs.first.v[i] = ValueOfCode(from[2 * i]) * scales.scales.v[i];
    pairs.second.v[i] = ValueOfCode(from[2 * i + 1]) * scales.scales.v[i];
  }
  return pairs;
}

LOCKSTEP_INLINE F32x16 DotPairs(const CodePairs& a, const Bf16Pairs& b, F32x16 sum) {
  for (int i = 0; i < kLanes; ++i) {
    sum.v[i] += a.first.v[i] * ToFloat(b.v[2 * i]);
    sum.v[i] += a.second.v[i] * ToFloat(b.v[2 * i + 1]);
  }
  return sum;
}
#endif
#endif

}  // namespace lockstep::kernels::LOCKSTEP_ISA
