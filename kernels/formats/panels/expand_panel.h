#pragma once

#include <cstdint>

#include "kernels/core/bfloat16.h"
#include "kernels/formats/panels/panel_matrix.h"

namespace lockstep::kernels {

// Some steps of a panel in bf16, in the order of kernels/gemm/packed_matrix.h: [pairs of
// columns][32 outputs][2]. Steps that reach beyond k are whole. Computes every value as
// DequantizeRow does, on every processor and for all scales. pairs: aligned to 64 bytes.
void ExpandPanel(const PanelMatrix& matrix, int64_t panel, int64_t step_begin, int64_t step_end,
                 BFloat16* pairs);

}  // namespace lockstep::kernels
