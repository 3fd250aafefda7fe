#pragma once

#include <cstdint>

#include "kernels/core/dispatch.h"
#include "kernels/sampling/noise/best_with_noise.h"

namespace lockstep::kernels {

// BestWithNoise in place. scores: [count]
LOCKSTEP_DECLARE_PER_ISA(void RaiseToBestWithNoise(const NoisyDraw& draw, const float* scores,
                                                   int64_t count, NoisyToken* best))

}  // namespace lockstep::kernels
