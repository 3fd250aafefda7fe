#include <algorithm>

#include "common/status.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_isa.h"
#include "kernels/gemm/packed_matrix.h"
#include "kernels/gemm/packed_weights.h"

namespace lockstep::kernels {
namespace {

// Rows that share one pass over a panel. More rows are dealt out as further work items, so that
// many threads find enough to do when the matrix is narrow.
constexpr int64_t kRowsPerItem = 96;

}  // namespace

absl::Status Gemm(const Stream& stream, const GemmParams& params) {
  if (params.weights.packed != nullptr) return params.weights.packed->Multiply(stream, params);
  if (params.weights.k % 2 != 0) {
    return InvalidArgument("gemm: k must be even, got {}", params.weights.k);
  }
  const int64_t num_panels = NumPanels(params.weights.n);
  const int64_t num_row_blocks = (params.num_rows + kRowsPerItem - 1) / kRowsPerItem;
  ParallelRanges(stream, num_panels * num_row_blocks, 2, [&](int64_t begin, int64_t end) {
    if (num_row_blocks == 1) {
      LOCKSTEP_DISPATCH(stream, ComputeGemmBlock, params,
                        GemmBlock{0, params.num_rows, begin, end});
      return;
    }
    for (int64_t item = begin; item < end; ++item) {
      const int64_t panel = item / num_row_blocks;
      const int64_t row_begin = item % num_row_blocks * kRowsPerItem;
      LOCKSTEP_DISPATCH(stream, ComputeGemmBlock, params,
                        GemmBlock{row_begin, std::min(row_begin + kRowsPerItem, params.num_rows),
                                  panel, panel + 1});
    }
  });
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
