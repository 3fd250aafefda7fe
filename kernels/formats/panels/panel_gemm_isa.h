#pragma once

#include "kernels/core/dispatch.h"
#include "kernels/formats/panels/panel_gemm.h"

namespace lockstep::kernels {

// Rows that share one expansion of a panel.
inline constexpr int64_t kPanelBlockRows = 192;

// All panels of [panel_begin, panel_end) times rows [row_begin, row_end), at most kPanelBlockRows.
struct PanelGemmBlock {
  int64_t row_begin;
  int64_t row_end;
  int64_t panel_begin;
  int64_t panel_end;
};

LOCKSTEP_DECLARE_PER_ISA(void ComputePanelBlock(const PanelGemmParams& params,
                                                const PanelGemmBlock& block))
LOCKSTEP_DECLARE_PER_ISA(void TellDecodesInRegisters(bool* answer))

}  // namespace lockstep::kernels
