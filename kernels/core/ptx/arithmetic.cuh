#pragma once

#include <cstdint>

// One function per instruction; PTX ISA 9.0, "Floating-point instructions" and "cvt".
namespace lockstep::kernels::ptx {

// 2^x to 2 ulp; 0 for -infinity.
__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Rounds two values to bf16 (nearest, ties to even); the first goes to the lower half.
__device__ __forceinline__ uint32_t PackBf16x2(float lower, float upper) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(upper), "f"(lower));
  return pair;
}

// Two E4M3 codes, the lower byte first, as two fp16: exact for every code.
__device__ __forceinline__ uint32_t UnpackE4M3x2(uint32_t codes) {
  uint32_t pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<uint16_t>(codes)));
  return pair;
}

}  // namespace lockstep::kernels::ptx
