#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/core/bfloat16.h"
#include "kernels/core/simd_lanes.h"

namespace lockstep::kernels::LOCKSTEP_ISA {

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
  const __m512i result = _mm512_mask_or_epi32(rounded, is_nan, high, _mm512_set1_epi32(0x40));
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

}  // namespace lockstep::kernels::LOCKSTEP_ISA
