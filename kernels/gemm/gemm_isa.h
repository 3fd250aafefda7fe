#pragma once

#include "kernels/core/dispatch.h"
#include "kernels/gemm/gemm.h"

namespace lockstep::kernels {

// A block of the output: all rows of [row_begin, row_end) times panels [panel_begin, panel_end).
struct GemmBlock {
  int64_t row_begin;
  int64_t row_end;
  int64_t panel_begin;
  int64_t panel_end;
};

LOCKSTEP_DECLARE_PER_ISA(void ComputeGemmBlock(const GemmParams& params, const GemmBlock& block))

}  // namespace lockstep::kernels
