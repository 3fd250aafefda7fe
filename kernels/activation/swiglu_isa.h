#pragma once

#include "kernels/activation/swiglu.h"
#include "kernels/core/dispatch.h"

namespace lockstep::kernels {

LOCKSTEP_DECLARE_PER_ISA(void SwiGluRows(const SwiGluParams& params, int64_t row_begin,
                                         int64_t row_end))

}  // namespace lockstep::kernels
