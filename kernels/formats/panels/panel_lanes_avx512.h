#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/core/simd.h"

// What panel_codes.h needs beside kernels/core/simd.h. A lane is an output.
namespace lockstep::kernels::LOCKSTEP_ISA {

// 16 lanes of 32 bits.
struct Words {
  __m512i v;
};
// 16 lanes of 16 bits.
struct HalfWords {
  __m256i v;
};

LOCKSTEP_INLINE Words LoadWords(const std::byte* from) { return {_mm512_loadu_si512(from)}; }
LOCKSTEP_INLINE HalfWords LoadHalfWords(const std::byte* from) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))};
}
LOCKSTEP_INLINE Words WidenHalfWords(HalfWords x) { return {_mm512_cvtepu16_epi32(x.v)}; }
LOCKSTEP_INLINE Words WidenBytes(const std::byte* from) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))};
}
LOCKSTEP_INLINE F32x16 ToFloats(Words x) { return {_mm512_cvtepi32_ps(x.v)}; }
LOCKSTEP_INLINE F32x16 BytesToFloats(const std::byte* from) { return ToFloats(WidenBytes(from)); }
LOCKSTEP_INLINE F32x16 SignedBytesToFloats(const std::byte* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
}
LOCKSTEP_INLINE F32x16 HalvesToFloats(HalfWords x) { return {_mm512_cvtph_ps(x.v)}; }
LOCKSTEP_INLINE F32x16 Subtract(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }

template <int kShift>
LOCKSTEP_INLINE Words ShiftRight(Words x) {
  if constexpr (kShift == 0) return x;
  return {_mm512_srli_epi32(x.v, kShift)};
}
template <int kShift>
LOCKSTEP_INLINE Words ShiftLeft(Words x) {
  return {_mm512_slli_epi32(x.v, kShift)};
}
// The bits of `mask` from `inside`, the others from `outside`.
LOCKSTEP_INLINE Words Select(int mask, Words inside, Words outside) {
  return {_mm512_ternarylogic_epi32(_mm512_set1_epi32(mask), inside.v, outside.v, 0xCA)};
}

// The lowest bits of each lane as a number. Higher bits may be anything.
template <int kBits>
LOCKSTEP_INLINE F32x16 LowBitsToFloats(Words x) {
  if constexpr (kBits == 8 || kBits == 6) {
    const __m512i mask = _mm512_set1_epi32((1 << kBits) - 1);
    return ToFloats({_mm512_and_si512(x.v, mask)});
  }
  const __m512 values = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  if constexpr (kBits == 4) return {_mm512_permutexvar_ps(x.v, values)};
  const __m512 more_values =
      _mm512_setr_ps(16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
  return {_mm512_permutex2var_ps(values, x.v, more_values)};
}
// The four lowest bits minus 8.
LOCKSTEP_INLINE F32x16 LowBitsToSignedFloats(Words x) {
  const __m512 values = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm512_permutexvar_ps(x.v, values)};
}
// The value of the E2M1 code in the four lowest bits.
LOCKSTEP_INLINE F32x16 Fp4ToFloats(Words x) {
  const __m512 values = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f,
                                       -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
  return {_mm512_permutexvar_ps(x.v, values)};
}
// The value of the E4M3 code in the high byte (or the low one) of each lane, times 2^-8: exponent
// and fraction are the same bits in fp16.
template <bool kHigh>
LOCKSTEP_INLINE F32x16 Fp8ToFloats(HalfWords x) {
  const __m256i at_top = kHigh ? x.v : _mm256_slli_epi16(x.v, 8);
  const auto sign_and_value = static_cast<short>(0xBF80);
  return HalvesToFloats(
      {_mm256_and_si256(_mm256_srai_epi16(at_top, 1), _mm256_set1_epi16(sign_and_value))});
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
