#pragma once

#include <cstdint>

#include "kernels/core/simd.h"
#if LOCKSTEP_ISA_LEVEL == 2
#include <immintrin.h>
#endif

// The step of a dot product from bf16 weights that lie in lanes of fp32. It has the bits of
// DotPairs, and needs fewer instructions: DotPairs must widen its operands every time.
namespace lockstep::kernels::LOCKSTEP_ISA {

// The weights of 16 outputs for a pair of columns.
struct WidePairs {
  F32x16 even;
  F32x16 odd;
};

#if LOCKSTEP_ISA_LEVEL == 2

// vdpbf16ps adds the product of the odd columns first. It takes subnormal numbers for zero, and
// makes zeros of them: DotWide needs FlushSubnormals.
template <int kVectors>
LOCKSTEP_INLINE void DotWide(const WidePairs (&w)[kVectors], float even, float odd,
                             F32x16 (&sums)[kVectors]) {
  F32x16 local[kVectors];
  for (int i = 0; i < kVectors; ++i) local[i] = MultiplyAdd(w[i].odd, Broadcast(odd), sums[i]);
  for (int i = 0; i < kVectors; ++i) sums[i] = MultiplyAdd(w[i].even, Broadcast(even), local[i]);
}

// While it lives, fp32 knows no subnormal numbers on this thread. The compiler may move arithmetic
// out of its scope, but not out of a function that is not inlined.
class FlushSubnormals {
 public:
  FlushSubnormals() : saved_(_mm_getcsr()) {
    _mm_setcsr(saved_ | kFlushToZero | kSubnormalsAreZero);
  }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;
  ~FlushSubnormals() { _mm_setcsr(saved_); }

 private:
  static constexpr unsigned kFlushToZero = 0x8000;
  static constexpr unsigned kSubnormalsAreZero = 0x0040;

  const unsigned saved_;
};

#else

template <int kVectors>
LOCKSTEP_INLINE void DotWide(const WidePairs (&w)[kVectors], float even, float odd,
                             F32x16 (&sums)[kVectors]) {
  F32x16 local[kVectors];
  for (int i = 0; i < kVectors; ++i) local[i] = MultiplyAdd(w[i].even, Broadcast(even), sums[i]);
  for (int i = 0; i < kVectors; ++i) sums[i] = MultiplyAdd(w[i].odd, Broadcast(odd), local[i]);
}

// DotPairs does not flush.
class FlushSubnormals {
 public:
  FlushSubnormals() {}
};

#endif

// Whether DotWide has the bits of DotPairs on this processor. Tried out once.
bool WideIsExact();

}  // namespace lockstep::kernels::LOCKSTEP_ISA
