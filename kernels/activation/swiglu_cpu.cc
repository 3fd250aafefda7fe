#include "kernels/activation/swiglu.h"
#include "kernels/activation/swiglu_isa.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kMinSwiGluRowsToShare = 4;

}  // namespace

absl::Status SwiGlu(const Stream& stream, const SwiGluParams& params) {
  ParallelRanges(stream, params.num_rows, kMinSwiGluRowsToShare, [&](int64_t begin, int64_t end) {
    LOCKSTEP_DISPATCH(stream, SwiGluRows, params, begin, end);
  });
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
