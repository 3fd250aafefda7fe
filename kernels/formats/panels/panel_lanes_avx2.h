#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/core/simd.h"

// What panel_codes.h needs beside kernels/core/simd.h. panel_lanes_avx512.h says what the functions
// do.
namespace lockstep::kernels::LOCKSTEP_ISA {

struct Words {
  __m256i v[2];
};
struct HalfWords {
  __m128i v[2];
};

LOCKSTEP_INLINE Words LoadWords(const std::byte* from) {
  const auto* vectors = reinterpret_cast<const __m256i*>(from);
  return {{_mm256_loadu_si256(vectors), _mm256_loadu_si256(vectors + 1)}};
}
LOCKSTEP_INLINE HalfWords LoadHalfWords(const std::byte* from) {
  const auto* vectors = reinterpret_cast<const __m128i*>(from);
  return {{_mm_loadu_si128(vectors), _mm_loadu_si128(vectors + 1)}};
}
LOCKSTEP_INLINE Words WidenHalfWords(HalfWords x) {
  return {{_mm256_cvtepu16_epi32(x.v[0]), _mm256_cvtepu16_epi32(x.v[1])}};
}
LOCKSTEP_INLINE Words WidenBytes(const std::byte* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return {{_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))}};
}
LOCKSTEP_INLINE F32x16 ToFloats(Words x) {
  return {{_mm256_cvtepi32_ps(x.v[0]), _mm256_cvtepi32_ps(x.v[1])}};
}
LOCKSTEP_INLINE F32x16 BytesToFloats(const std::byte* from) { return ToFloats(WidenBytes(from)); }
LOCKSTEP_INLINE F32x16 SignedBytesToFloats(const std::byte* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return ToFloats({{_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))}});
}
LOCKSTEP_INLINE F32x16 HalvesToFloats(HalfWords x) {
  return {{_mm256_cvtph_ps(x.v[0]), _mm256_cvtph_ps(x.v[1])}};
}
LOCKSTEP_INLINE F32x16 Subtract(F32x16 a, F32x16 b) {
  return {{_mm256_sub_ps(a.v[0], b.v[0]), _mm256_sub_ps(a.v[1], b.v[1])}};
}

template <int kShift>
LOCKSTEP_INLINE Words ShiftRight(Words x) {
  if constexpr (kShift == 0) return x;
  return {{_mm256_srli_epi32(x.v[0], kShift), _mm256_srli_epi32(x.v[1], kShift)}};
}
template <int kShift>
LOCKSTEP_INLINE Words ShiftLeft(Words x) {
  return {{_mm256_slli_epi32(x.v[0], kShift), _mm256_slli_epi32(x.v[1], kShift)}};
}
LOCKSTEP_INLINE Words Select(int mask, Words inside, Words outside) {
  const __m256i bits = _mm256_set1_epi32(mask);
  for (int i = 0; i < 2; ++i) {
    inside.v[i] = _mm256_or_si256(_mm256_and_si256(bits, inside.v[i]),
                                  _mm256_andnot_si256(bits, outside.v[i]));
  }
  return inside;
}

template <int kBits>
LOCKSTEP_INLINE F32x16 LowBitsToFloats(Words x) {
  const __m256i mask = _mm256_set1_epi32((1 << kBits) - 1);
  return ToFloats({{_mm256_and_si256(x.v[0], mask), _mm256_and_si256(x.v[1], mask)}});
}
LOCKSTEP_INLINE F32x16 Fp4ToFloats(Words x) {
  const __m256 magnitudes = _mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f);
  const __m256 sign = _mm256_set1_ps(-0.0f);
  F32x16 result;
  for (int i = 0; i < 2; ++i) {
    const __m256 magnitude = _mm256_permutevar8x32_ps(magnitudes, x.v[i]);
    const __m256 at_top = _mm256_castsi256_ps(_mm256_slli_epi32(x.v[i], 28));
    result.v[i] = _mm256_or_ps(magnitude, _mm256_and_ps(at_top, sign));
  }
  return result;
}
template <bool kHigh>
LOCKSTEP_INLINE F32x16 Fp8ToFloats(HalfWords x) {
  for (__m128i& lanes : x.v) {
    const __m128i at_top = kHigh ? lanes : _mm_slli_epi16(lanes, 8);
    lanes = _mm_and_si128(_mm_srai_epi16(at_top, 1), _mm_set1_epi16(static_cast<short>(0xBF80)));
  }
  return HalvesToFloats(x);
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
