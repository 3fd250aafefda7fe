#pragma once

#include <cstdint>

#include "kernels/core/bfloat16.h"

// The reduction and the formula that every RMSNorm shares: over hidden states and, in Qwen3, over
// the elements of a head.
namespace lockstep::kernels {

inline constexpr int kNormPartials = 16;

// 1 / sqrt(mean(values^2) + eps), by the tree that rms_norm.h describes.
[[gnu::always_inline]] inline float InverseRms(const BFloat16* values, int64_t size, float eps) {
  float partial[kNormPartials] = {};
  int64_t i = 0;
  for (; i + kNormPartials <= size; i += kNormPartials) {
    for (int j = 0; j < kNormPartials; ++j) {
      const float value = ToFloat(values[i + j]);
      partial[j] += value * value;
    }
  }
  for (int j = 0; i + j < size; ++j) {
    const float value = ToFloat(values[i + j]);
    partial[j] += value * value;
  }
  for (int stride = kNormPartials / 2; stride > 0; stride /= 2) {
    for (int j = 0; j < stride; ++j) partial[j] += partial[j + stride];
  }
  return 1.0f / __builtin_sqrtf(partial[0] / static_cast<float>(size) + eps);
}

[[gnu::always_inline]] inline float NormedValue(BFloat16 value, float inverse_rms, float weight) {
  return ToFloat(value) * inverse_rms * weight;
}

}  // namespace lockstep::kernels
