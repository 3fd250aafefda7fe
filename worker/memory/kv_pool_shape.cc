#include "worker/memory/kv_pool_shape.h"

#include "common/status.h"

namespace lockstep::worker {

using kernels::kKvBlockTokens;

absl::Status CheckKvCacheFits(const KvPoolShape& shape, uint64_t available_bytes) {
  if (shape.bytes() <= available_bytes) return absl::OkStatus();
  const auto num_tokens = static_cast<uint64_t>(shape.num_blocks * kKvBlockTokens);
  const uint64_t token_bytes = shape.bytes() / num_tokens;
  constexpr double kGib = 1 << 30;
  return ResourceExhausted(
      "the KV cache: {} tokens of {} bytes are {:.1f} GiB, and {:.1f} GiB of memory are available; "
      "at most {} tokens would fit without the weights",
      num_tokens, token_bytes, static_cast<double>(shape.bytes()) / kGib,
      static_cast<double>(available_bytes) / kGib,
      available_bytes / token_bytes / kKvBlockTokens * kKvBlockTokens);
}

}  // namespace lockstep::worker
