#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/core/bfloat16.h"

// The elementwise formulas of the CUDA kernels. Each exists once, with its roundings spelt out.
// Every kernel that needs a formula calls it, so all kernels give the same bits for it
// (docs/numerics.md). In addition, CUDA files are compiled with -fmad=false.
namespace lockstep::kernels {

__device__ __forceinline__ float DeviceToFloat(BFloat16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}

// Two neighbours in a 32-bit word, the first in the lower half. Round to nearest, ties to even. A
// single value is converted as one of a pair, too: nvcc has another instruction for it, which takes
// longer.
__device__ __forceinline__ uint32_t PackBFloat16x2(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return static_cast<uint32_t>(__bfloat16_as_ushort(pair.x)) |
         static_cast<uint32_t>(__bfloat16_as_ushort(pair.y)) << 16;
}
__device__ __forceinline__ BFloat16 DeviceToBFloat16(float value) {
  return BFloat16{static_cast<uint16_t>(PackBFloat16x2(value, 0.0f))};
}
__device__ __forceinline__ float LowerBFloat16(uint32_t pair) {
  return __uint_as_float(pair << 16);
}
__device__ __forceinline__ float UpperBFloat16(uint32_t pair) {
  return __uint_as_float(pair & 0xFFFF0000u);
}

// SwiGLU, arXiv 2002.05202: silu(gate) * up with silu(x) = x / (1 + e^-x).
__device__ __forceinline__ float DeviceGatedValue(float gate, float up) {
  return __fmul_rn(__fdiv_rn(gate, __fadd_rn(1.0f, expf(-gate))), up);
}

// GELU, arXiv 1606.08415. The tanh form uses (1 + tanh(z)) / 2 = 1 / (1 + e^-2z). The erf form uses
// erfc, which keeps its relative precision where x is very negative.
__device__ __forceinline__ float DeviceGeluTanh(float x) {
  constexpr float kMinusTwiceSqrtTwoOverPi = -1.595769122f;
  const float cube = __fmul_rn(__fmul_rn(x, x), x);
  const float exponent =
      __fmul_rn(kMinusTwiceSqrtTwoOverPi, __fadd_rn(x, __fmul_rn(0.044715f, cube)));
  return __fdiv_rn(x, __fadd_rn(1.0f, expf(exponent)));
}
__device__ __forceinline__ float DeviceGeluErf(float x) {
  constexpr float kMinusSqrtHalf = -0.7071067812f;
  return __fmul_rn(__fmul_rn(0.5f, x), erfcf(__fmul_rn(x, kMinusSqrtHalf)));
}

// 1 / sqrt(sum / size + eps) and the value that an RMSNorm computes with it.
__device__ __forceinline__ float DeviceInverseRms(float sum_of_squares, float size, float eps) {
  return __frcp_rn(__fsqrt_rn(__fadd_rn(__fdiv_rn(sum_of_squares, size), eps)));
}
__device__ __forceinline__ float DeviceNormedValue(float value, float inverse_rms, float weight) {
  return __fmul_rn(__fmul_rn(value, inverse_rms), weight);
}

// Rotary embedding, arXiv 2104.09864: an element and its partner, half a head further on.
__device__ __forceinline__ float DeviceRotatedFirst(float first, float second, float cos,
                                                    float sin) {
  return __fsub_rn(__fmul_rn(first, cos), __fmul_rn(second, sin));
}
__device__ __forceinline__ float DeviceRotatedSecond(float first, float second, float cos,
                                                     float sin) {
  return __fadd_rn(__fmul_rn(second, cos), __fmul_rn(first, sin));
}

}  // namespace lockstep::kernels
