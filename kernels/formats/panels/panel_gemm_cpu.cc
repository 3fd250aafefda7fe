#include "common/status.h"
#include "kernels/core/divide_up.h"
#include "kernels/formats/panels/panel_gemm.h"
#include "kernels/formats/panels/panel_gemm_isa.h"
#include "kernels/gemm/packed_matrix.h"

namespace lockstep::kernels {

absl::Status PanelGemm(const Stream& stream, const PanelGemmParams& params) {
  if ((params.output == nullptr) == (params.output_f32 == nullptr)) {
    return InvalidArgument("panel gemm: exactly one output must be set");
  }
  const int64_t num_panels = NumPanels(params.weights.n);
  const int64_t num_row_blocks = DivideUp(params.num_rows, kPanelBlockRows);
  ParallelRanges(stream, num_panels * num_row_blocks, 2, [&](int64_t begin, int64_t end) {
    if (num_row_blocks == 1) {
      LOCKSTEP_DISPATCH(stream, ComputePanelBlock, params,
                        PanelGemmBlock{0, params.num_rows, begin, end});
      return;
    }
    for (int64_t item = begin; item < end; ++item) {
      const int64_t panel = item / num_row_blocks;
      const int64_t block = item % num_row_blocks;
      // Blocks of nearly equal height.
      LOCKSTEP_DISPATCH(
          stream, ComputePanelBlock, params,
          PanelGemmBlock{params.num_rows * block / num_row_blocks,
                         params.num_rows * (block + 1) / num_row_blocks, panel, panel + 1});
    }
  });
  return absl::OkStatus();
}

bool DecodesInRegisters(const Stream& stream) {
  bool answer = false;
  LOCKSTEP_DISPATCH(stream, TellDecodesInRegisters, &answer);
  return answer;
}

}  // namespace lockstep::kernels
