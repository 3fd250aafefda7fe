#pragma once

#include <cstdint>

#include "kernels/core/dispatch.h"

namespace lockstep::kernels {

// terms[i] = e^((score - max) / temperature) with the scores' NaN read as -inf and +inf as the
// largest finite number. scores, terms: [count]
LOCKSTEP_DECLARE_PER_ISA(void ExpTerms(const float* scores, int64_t count, float max,
                                       float temperature, float* terms))

}  // namespace lockstep::kernels
