#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/core/bfloat16.h"

#if LOCKSTEP_ISA_LEVEL >= 1
#include <immintrin.h>
#endif

// Vectors of 16 fp32 lanes for the files that are compiled once per instruction set
// (lockstep_kernel_library's ISA_SOURCES). Everything lives in a namespace named after the set, and such
// files call nothing inline from elsewhere that is not forced inline, so that the linker can never hand
// a program a function compiled for a processor it does not run on.
//
// DotPairs is the canonical step of every dot product: two products per lane are added to the lane's
// accumulator, in an order fixed by the instruction set.
namespace lockstep::kernels::LOCKSTEP_ISA {

#define LOCKSTEP_INLINE [[gnu::always_inline]] inline

inline constexpr int kLanes = 16;

// Asks for the cache line `ahead_bytes` behind `from`, which need not exist.
LOCKSTEP_INLINE void Prefetch(const void* from, int64_t ahead_bytes) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<intptr_t>(from) + ahead_bytes));
}

#if LOCKSTEP_ISA_LEVEL == 2

struct F32x16 {
  __m512 v;
};
// 16 pairs of consecutive bf16 values.
struct Bf16Pairs {
  __m512bh v;
};

LOCKSTEP_INLINE F32x16 Zero() { return {_mm512_setzero_ps()}; }
LOCKSTEP_INLINE F32x16 Broadcast(float x) { return {_mm512_set1_ps(x)}; }
LOCKSTEP_INLINE F32x16 Load(const float* from) { return {_mm512_loadu_ps(from)}; }
LOCKSTEP_INLINE void Store(F32x16 x, float* to) { _mm512_storeu_ps(to, x.v); }
LOCKSTEP_INLINE F32x16 LoadBf16(const BFloat16* from) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
}
// Rounds as ToBFloat16 does.
LOCKSTEP_INLINE void StoreBf16(F32x16 x, BFloat16* to) {
  const __m512i bits = _mm512_castps_si512(x.v);
  const __m512i high = _mm512_srli_epi32(bits, 16);
  const __m512i is_odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i bias = _mm512_add_epi32(is_odd, _mm512_set1_epi32(0x7FFF));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, bias), 16);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
  const __m512i result =
      _mm512_mask_or_epi32(rounded, is_nan, high, _mm512_set1_epi32(0x40));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(result));
}
LOCKSTEP_INLINE F32x16 Add(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
LOCKSTEP_INLINE F32x16 Multiply(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
// a * b + c, rounded once.
LOCKSTEP_INLINE F32x16 MultiplyAdd(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
LOCKSTEP_INLINE Bf16Pairs LoadPairs(const BFloat16* from) {
  return {reinterpret_cast<__m512bh>(_mm512_loadu_si512(from))};
}
LOCKSTEP_INLINE Bf16Pairs BroadcastPair(const BFloat16* from) {
  int32_t pair;
  std::memcpy(&pair, from, sizeof(pair));
  return {reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair))};
}
LOCKSTEP_INLINE F32x16 DotPairs(Bf16Pairs a, Bf16Pairs b, F32x16 sum) {
  return {_mm512_dpbf16_ps(sum.v, a.v, b.v)};
}

#elif LOCKSTEP_ISA_LEVEL == 1

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

#else

struct F32x16 {
  float v[kLanes];
};
struct Bf16Pairs {
  BFloat16 v[2 * kLanes];
};

LOCKSTEP_INLINE F32x16 Broadcast(float x) {
  F32x16 result;
  for (float& lane : result.v) lane = x;
  return result;
}
LOCKSTEP_INLINE F32x16 Zero() { return Broadcast(0.0f); }
LOCKSTEP_INLINE F32x16 Load(const float* from) {
  F32x16 result;
  std::memcpy(result.v, from, sizeof(result.v));
  return result;
}
LOCKSTEP_INLINE void Store(F32x16 x, float* to) { std::memcpy(to, x.v, sizeof(x.v)); }
LOCKSTEP_INLINE F32x16 LoadBf16(const BFloat16* from) {
  F32x16 result;
  for (int i = 0; i < kLanes; ++i) result.v[i] = ToFloat(from[i]);
  return result;
}
// Rounds as ToBFloat16 does.
LOCKSTEP_INLINE void StoreBf16(F32x16 x, BFloat16* to) {
  for (int i = 0; i < kLanes; ++i) to[i] = ToBFloat16(x.v[i]);
}
LOCKSTEP_INLINE F32x16 Add(F32x16 a, F32x16 b) {
  for (int i = 0; i < kLanes; ++i) a.v[i] += b.v[i];
  return a;
}
LOCKSTEP_INLINE F32x16 Multiply(F32x16 a, F32x16 b) {
  for (int i = 0; i < kLanes; ++i) a.v[i] *= b.v[i];
  return a;
}
// a * b + c, rounded twice: a fused one in software would be slow.
LOCKSTEP_INLINE F32x16 MultiplyAdd(F32x16 a, F32x16 b, F32x16 c) {
  for (int i = 0; i < kLanes; ++i) c.v[i] += a.v[i] * b.v[i];
  return c;
}
LOCKSTEP_INLINE Bf16Pairs LoadPairs(const BFloat16* from) {
  Bf16Pairs result;
  std::memcpy(result.v, from, sizeof(result.v));
  return result;
}
LOCKSTEP_INLINE Bf16Pairs BroadcastPair(const BFloat16* from) {
  Bf16Pairs result;
  for (int i = 0; i < kLanes; ++i) {
    result.v[2 * i] = from[0];
    result.v[2 * i + 1] = from[1];
  }
  return result;
}
LOCKSTEP_INLINE F32x16 DotPairs(Bf16Pairs a, Bf16Pairs b, F32x16 sum) {
  for (int i = 0; i < kLanes; ++i) {
    sum.v[i] += ToFloat(a.v[2 * i]) * ToFloat(b.v[2 * i]);
    sum.v[i] += ToFloat(a.v[2 * i + 1]) * ToFloat(b.v[2 * i + 1]);
  }
  return sum;
}

#endif

}  // namespace lockstep::kernels::LOCKSTEP_ISA
