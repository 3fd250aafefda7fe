#pragma once

#include "kernels/core/dispatch.h"
#include "kernels/norm/rms_norm.h"

namespace lockstep::kernels {

LOCKSTEP_DECLARE_PER_ISA(void RmsNormRows(const RmsNormParams& params, int64_t row_begin,
                                          int64_t row_end))

}  // namespace lockstep::kernels
