#pragma once

#include <variant>

#include "kernels/gemm/plan/cublaslt_gemm.h"
#include "kernels/gemm/tile/gemm_tiling.h"

namespace lockstep::kernels {

// How a product of a range of rows is computed: by our kernel or by cuBLASLt, with the same bits.
using GemmPlan = std::variant<GemmTiling, CublasLtPlan>;

}  // namespace lockstep::kernels
