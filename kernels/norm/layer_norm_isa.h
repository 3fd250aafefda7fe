#pragma once

#include "kernels/core/dispatch.h"
#include "kernels/norm/layer_norm.h"

namespace lockstep::kernels {

LOCKSTEP_DECLARE_PER_ISA(void LayerNormRows(const LayerNormParams& params, int64_t row_begin,
                                            int64_t row_end))

}  // namespace lockstep::kernels
