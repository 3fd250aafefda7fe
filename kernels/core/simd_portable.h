#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/core/bfloat16.h"
#include "kernels/core/simd_lanes.h"

namespace lockstep::kernels::LOCKSTEP_ISA {

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

}  // namespace lockstep::kernels::LOCKSTEP_ISA
