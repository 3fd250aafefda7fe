#include "common/status.h"
#include "kernels/rope/rotary_append.h"
#include "kernels/rope/rotary_append_isa.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kMinTokensToShare = 4;

}  // namespace

absl::Status RotaryAppend(const Stream& stream, const RotaryAppendParams& params) {
  if (params.kv.head_dim % 2 != 0 || params.kv.head_dim > kMaxRotaryHeadDim) {
    return InvalidArgument("rotary embedding: head_dim must be even and at most {}, got {}",
                           kMaxRotaryHeadDim, params.kv.head_dim);
  }
  ParallelRanges(stream, params.num_tokens, kMinTokensToShare, [&](int64_t begin, int64_t end) {
    LOCKSTEP_DISPATCH(stream, RotaryAppendTokens, params, begin, end);
  });
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
