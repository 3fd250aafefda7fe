#pragma once

#include <cstddef>
#include <span>

#include "kernels/core/bfloat16.h"

namespace lockstep::kernels {

// Index of the first value that is not finite as bf16: NaN, an infinity, or an fp32 that rounds to
// an infinity. The number of values if there is none.
size_t FindNotFinite(std::span<const float> values);
size_t FindNotFinite(std::span<const BFloat16> values);

}  // namespace lockstep::kernels
