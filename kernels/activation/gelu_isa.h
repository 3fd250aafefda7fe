#pragma once

#include "kernels/activation/gelu.h"
#include "kernels/core/dispatch.h"

namespace lockstep::kernels {

LOCKSTEP_DECLARE_PER_ISA(void GeluRows(const GeluParams& params, int64_t row_begin,
                                       int64_t row_end))

}  // namespace lockstep::kernels
