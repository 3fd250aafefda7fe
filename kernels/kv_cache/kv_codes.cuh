#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <cstring>

#include "kernels/core/ptx/pack_e4m3.cuh"
#include "kernels/kv_cache/device_paged_kv.h"
#include "kernels/kv_cache/fp8_kv.h"

// Codes of a KV pool, made and read by CUDA kernels. The order is that of device_paged_kv.h.
namespace lockstep::kernels {

// What moves the exponent of a code and multiplies with its scale, as bf16: 2^(scale - 127).
// Infinite for a token that is not finite.
__device__ __forceinline__ uint32_t KvMultiplier(uint32_t scale) { return scale << 7; }

__device__ __forceinline__ uint32_t MultiplyBFloat16x2(uint32_t a, uint32_t b) {
  __nv_bfloat162 first;
  __nv_bfloat162 second;
  memcpy(&first, &a, 4);
  memcpy(&second, &b, 4);
  const __nv_bfloat162 product = __hmul2_rn(first, second);
  uint32_t word;
  memcpy(&word, &product, 4);
  return word;
}

// The elements of the even, or of the odd, two of four codes, as a pair of bf16. A code's 7 bits of
// magnitude become exponent and fraction of a bf16, which is 2^-120 of the code.
__device__ __forceinline__ uint32_t EvenKvElements(uint32_t codes, uint32_t multipliers) {
  return MultiplyBFloat16x2((codes << 4 & 0x07F007F0u) | (codes << 8 & 0x80008000u), multipliers);
}
__device__ __forceinline__ uint32_t OddKvElements(uint32_t codes, uint32_t multipliers) {
  return MultiplyBFloat16x2((codes >> 4 & 0x07F007F0u) | (codes & 0x80008000u), multipliers);
}

// The larger of two magnitudes, for each half of a pair of bf16.
__device__ __forceinline__ uint32_t MaxMagnitudes(uint32_t magnitudes, uint32_t pair) {
  return __vmaxu2(magnitudes, pair & 0x7FFF7FFFu);
}
__device__ __forceinline__ uint32_t MaxOfPair(uint32_t magnitudes) {
  return max(magnitudes & 0xFFFFu, magnitudes >> 16);
}

// The codes of a pair of bf16 elements, the first in the lower byte.
__device__ __forceinline__ uint32_t KvCodes(uint32_t pair, float inverse_scale) {
  const float first = __uint_as_float(pair << 16) * inverse_scale;
  const float second = __uint_as_float(pair & 0xFFFF0000u) * inverse_scale;
  return ptx::PackE4M3x2(first, second);
}

}  // namespace lockstep::kernels
