#pragma once

#include "kernels/core/dispatch.h"
#include "kernels/rope/rotary_append.h"

namespace lockstep::kernels {

inline constexpr int64_t kMaxRotaryHeadDim = 512;

LOCKSTEP_DECLARE_PER_ISA(void RotaryAppendTokens(const RotaryAppendParams& params,
                                                 int64_t token_begin, int64_t token_end))

}  // namespace lockstep::kernels
