#include "kernels/norm/rms_norm.h"
#include "kernels/norm/rms_norm_isa.h"

namespace lockstep::kernels {
namespace {

// A row of a few hundred elements costs less than waking a thread.
constexpr int64_t kMinRmsNormRowsToShare = 8;

}  // namespace

absl::Status RmsNorm(const Stream& stream, const RmsNormParams& params) {
  ParallelRanges(stream, params.num_rows, kMinRmsNormRowsToShare, [&](int64_t begin, int64_t end) {
    LOCKSTEP_DISPATCH(stream, RmsNormRows, params, begin, end);
  });
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
