#include "kernels/norm/layer_norm.h"
#include "kernels/norm/layer_norm_isa.h"

namespace lockstep::kernels {
namespace {

// A row of a few hundred elements costs less than waking a thread.
constexpr int64_t kMinLayerNormRowsToShare = 8;

}  // namespace

absl::Status LayerNorm(const Stream& stream, const LayerNormParams& params) {
  ParallelRanges(stream, params.num_rows, kMinLayerNormRowsToShare,
                 [&](int64_t begin, int64_t end) {
                   LOCKSTEP_DISPATCH(stream, LayerNormRows, params, begin, end);
                 });
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
