#pragma once

#include <cstdint>

#include "kernels/formats/panels/panel_matrix.h"
#include "kernels/formats/panels/wide_dot.h"
#include "kernels/gemm/gemm_tile.h"

namespace lockstep::kernels::LOCKSTEP_ISA {

// Some rows of the input.
struct PanelRows {
  const BFloat16* input;
  int64_t stride;
  int64_t count;
};

// What a row has summed up for a panel.
struct RowSums {
  F32x16 sum[kVectorsPerPanel];
};

// Adds the products of a panel with a fused layout, if WideIsExact. For few rows, weights are used
// where they are decoded, in registers. For many rows, some columns are decoded once. The caller
// flushes subnormal numbers.
void AddWide(const PanelRows& rows, const PanelMatrix& weights, int64_t panel, RowSums* sums);

}  // namespace lockstep::kernels::LOCKSTEP_ISA
