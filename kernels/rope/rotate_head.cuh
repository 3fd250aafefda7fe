#pragma once

#include <cstdint>

#include "kernels/core/device_math.cuh"
#include "kernels/norm/row_norm.h"

// QK-norm and rotation of one head by one warp, for every kernel that does it. `words` are the
// head's elements in pairs.
namespace lockstep::kernels {

// 1 / rms by the tree of kernels/norm/row_norm.h: element i goes to partial i mod 16, ascending.
// Lane l computes partials 2 (l mod 8) and the next.
__device__ __forceinline__ float HeadInverseRms(const uint32_t* words, int head_dim, float eps,
                                                int lane) {
  float even = 0.0f;
  float odd = 0.0f;
  for (int begin = 0; begin < head_dim / 2; begin += kNormPartials / 2) {
    const int i = begin + lane % (kNormPartials / 2);
    if (i >= head_dim / 2) break;
    const float first = LowerBFloat16(words[i]);
    const float second = UpperBFloat16(words[i]);
    even = __fadd_rn(even, __fmul_rn(first, first));
    odd = __fadd_rn(odd, __fmul_rn(second, second));
  }
#pragma unroll
  for (int stride = 4; stride > 0; stride /= 2) {
    even = __fadd_rn(even, __shfl_xor_sync(0xFFFFFFFFu, even, stride));
    odd = __fadd_rn(odd, __shfl_xor_sync(0xFFFFFFFFu, odd, stride));
  }
  return DeviceInverseRms(__fadd_rn(even, odd), static_cast<float>(head_dim), eps);
}

struct RotatedPairs {
  uint32_t first;   // elements i and i + 1
  uint32_t second;  // elements i + head_dim / 2 and the next
};

// The factors of the elements i, i + 1 and of their partners.
struct RotaryFactors {
  float2 cos;
  float2 sin;
  float2 first_weight = {};
  float2 second_weight = {};

  RotaryFactors() = default;
  // cos, sin: of the position, [half]; weight: [2 * half], or null.
  __device__ __forceinline__ RotaryFactors(const float* cos_row, const float* sin_row,
                                           const float* weight, int i, int half)
      : cos(*reinterpret_cast<const float2*>(cos_row + i)),
        sin(*reinterpret_cast<const float2*>(sin_row + i)) {
    if (weight == nullptr) return;
    first_weight = *reinterpret_cast<const float2*>(weight + i);
    second_weight = *reinterpret_cast<const float2*>(weight + i + half);
  }
};

// Norms (if the head has a norm), rotates and rounds the elements i, i + 1 and their partners,
// given as pairs.
__device__ __forceinline__ RotatedPairs RotatePairs(uint32_t word, uint32_t partner, bool has_norm,
                                                    float inverse_rms,
                                                    const RotaryFactors& factors) {
  float2 first = make_float2(LowerBFloat16(word), UpperBFloat16(word));
  float2 second = make_float2(LowerBFloat16(partner), UpperBFloat16(partner));
  if (has_norm) {
    first = make_float2(DeviceNormedValue(first.x, inverse_rms, factors.first_weight.x),
                        DeviceNormedValue(first.y, inverse_rms, factors.first_weight.y));
    second = make_float2(DeviceNormedValue(second.x, inverse_rms, factors.second_weight.x),
                         DeviceNormedValue(second.y, inverse_rms, factors.second_weight.y));
  }
  const float2 cos = factors.cos;
  const float2 sin = factors.sin;
  return {PackBFloat16x2(DeviceRotatedFirst(first.x, second.x, cos.x, sin.x),
                         DeviceRotatedFirst(first.y, second.y, cos.y, sin.y)),
          PackBFloat16x2(DeviceRotatedSecond(first.x, second.x, cos.x, sin.x),
                         DeviceRotatedSecond(first.y, second.y, cos.y, sin.y))};
}

}  // namespace lockstep::kernels
