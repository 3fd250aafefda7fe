#pragma once

#include <cstdint>

#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/small_floats.h"

namespace lockstep::kernels {

// What a code means (CodeKind), in fp32 and before the rounding to bf16. All zero points are
// integers, so their difference to a code is exact.
template <CodeKind kind>
inline float CodeValue(uint8_t code, float zero, float scale, float minimum) {
  if constexpr (kind == CodeKind::kFp8E4M3) {
    return E4M3ToFloat(code) * scale;
  } else if constexpr (kind == CodeKind::kFp4E2M1) {
    return E2M1ToFloat(code) * scale;
  } else {
    float value = (static_cast<float>(code) - zero) * scale;
    if constexpr (HasMinimum(kind)) value -= minimum;
    return value + 0.0f;  // -0 + 0 is +0
  }
}

}  // namespace lockstep::kernels
