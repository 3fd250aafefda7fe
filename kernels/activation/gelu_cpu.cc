#include "kernels/activation/gelu.h"
#include "kernels/activation/gelu_isa.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kMinGeluRowsToShare = 4;

}  // namespace

absl::Status Gelu(const Stream& stream, const GeluParams& params) {
  ParallelRanges(stream, params.num_rows, kMinGeluRowsToShare, [&](int64_t begin, int64_t end) {
    LOCKSTEP_DISPATCH(stream, GeluRows, params, begin, end);
  });
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
