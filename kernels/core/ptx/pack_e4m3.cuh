#pragma once

#include <cstdint>

// PTX ISA 9.0, "cvt".
namespace lockstep::kernels::ptx {

// Rounds two values to E4M3 (nearest, ties to even; beyond 448 to 448, NaN to 0x7F); the first goes
// to the lower byte.
__device__ __forceinline__ uint32_t PackE4M3x2(float lower, float upper) {
  uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(upper), "f"(lower));
  return pair;
}

}  // namespace lockstep::kernels::ptx
