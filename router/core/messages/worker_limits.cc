#include "router/core/messages/worker_limits.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "common/status.h"

namespace lockstep::router {

uint64_t WorkerLimits::max_cached_tokens() const {
  uint64_t num_tokens = std::numeric_limits<uint64_t>::max();
  for (const KvGroup& group : kv_groups) {
    if (group.retention != Retention::kAll) continue;
    num_tokens = std::min(num_tokens, uint64_t{group.num_blocks} * group.block_size_tokens);
  }
  return num_tokens;
}

absl::Status WorkerLimits::Validate() const {
  const auto positive = [](std::string_view name, uint64_t value) {
    return value > 0 ? absl::OkStatus()
                     : InvalidArgument("worker limits: {} is 0, expected at least 1", name);
  };
  LOCKSTEP_RETURN_IF_ERROR(Annotate(router::Validate(kv_groups), "worker limits"));
  LOCKSTEP_RETURN_IF_ERROR(positive("max_slots", max_slots));
  LOCKSTEP_RETURN_IF_ERROR(positive("max_step_tokens", max_step_tokens));
  LOCKSTEP_RETURN_IF_ERROR(positive("max_steps_in_flight", max_steps_in_flight));
  LOCKSTEP_RETURN_IF_ERROR(positive("max_context_tokens", max_context_tokens));
  return positive("max_decode_iterations", max_decode_iterations);
}

}  // namespace lockstep::router
