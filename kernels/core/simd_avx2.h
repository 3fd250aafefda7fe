#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/core/bfloat16.h"
#include "kernels/core/simd_lanes.h"

namespace lockstep::kernels::LOCKSTEP_ISA {

struct F32x16 {
  __m256 v[2];
};
struct Bf16Pairs {
  __m256i v[2];
};

LOCKSTEP_INLINE F32x16 Zero() { return {{_mm256_setzero_ps(), _mm256_setzero_ps()}}; }
LOCKSTEP_INLINE F32x16 Broadcast(float x) { return {{_mm256_set1_ps(x), _mm256_set1_ps(x)}}; }
LOCKSTEP_INLINE F32x16 Load(const float* from) {
  return {{_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}};
}
LOCKSTEP_INLINE void Store(F32x16 x, float* to) {
  _mm256_storeu_ps(to, x.v[0]);
  _mm256_storeu_ps(to + 8, x.v[1]);
}
LOCKSTEP_INLINE __m256 WidenBf16(const BFloat16* from) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
LOCKSTEP_INLINE F32x16 LoadBf16(const BFloat16* from) {
  return {{WidenBf16(from), WidenBf16(from + 8)}};
}
// Rounds as ToBFloat16 does.
LOCKSTEP_INLINE void StoreBf16(F32x16 x, BFloat16* to) {
  alignas(32) float values[kLanes];
  Store(x, values);
  for (int i = 0; i < kLanes; ++i) to[i] = ToBFloat16(values[i]);
}
LOCKSTEP_INLINE F32x16 Add(F32x16 a, F32x16 b) {
  return {{_mm256_add_ps(a.v[0], b.v[0]), _mm256_add_ps(a.v[1], b.v[1])}};
}
LOCKSTEP_INLINE F32x16 Multiply(F32x16 a, F32x16 b) {
  return {{_mm256_mul_ps(a.v[0], b.v[0]), _mm256_mul_ps(a.v[1], b.v[1])}};
}
LOCKSTEP_INLINE F32x16 MultiplyAdd(F32x16 a, F32x16 b, F32x16 c) {
  return {{_mm256_fmadd_ps(a.v[0], b.v[0], c.v[0]), _mm256_fmadd_ps(a.v[1], b.v[1], c.v[1])}};
}
LOCKSTEP_INLINE Bf16Pairs LoadPairs(const BFloat16* from) {
  const __m256i* vectors = reinterpret_cast<const __m256i*>(from);
  return {{_mm256_loadu_si256(vectors), _mm256_loadu_si256(vectors + 1)}};
}
LOCKSTEP_INLINE Bf16Pairs BroadcastPair(const BFloat16* from) {
  int32_t pair;
  std::memcpy(&pair, from, sizeof(pair));
  return {{_mm256_set1_epi32(pair), _mm256_set1_epi32(pair)}};
}
LOCKSTEP_INLINE __m256 First(__m256i pairs) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}
LOCKSTEP_INLINE __m256 Second(__m256i pairs) {
  return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-65536)));
}
LOCKSTEP_INLINE F32x16 DotPairs(Bf16Pairs a, Bf16Pairs b, F32x16 sum) {
  for (int i = 0; i < 2; ++i) {
    sum.v[i] = _mm256_fmadd_ps(First(a.v[i]), First(b.v[i]), sum.v[i]);
    sum.v[i] = _mm256_fmadd_ps(Second(a.v[i]), Second(b.v[i]), sum.v[i]);
  }
  return sum;
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
