#include "router/core/messages/worker_limits.h"

#include <string_view>

#include "common/status.h"

namespace lockstep::router {

absl::Status WorkerLimits::Validate() const {
  const auto positive = [](std::string_view name, uint64_t value) {
    return value > 0 ? absl::OkStatus()
                     : InvalidArgument("worker limits: {} is 0, expected at least 1", name);
  };
  LOCKSTEP_RETURN_IF_ERROR(positive("num_blocks", num_blocks));
  LOCKSTEP_RETURN_IF_ERROR(positive("block_size_tokens", block_size_tokens));
  LOCKSTEP_RETURN_IF_ERROR(positive("max_slots", max_slots));
  LOCKSTEP_RETURN_IF_ERROR(positive("max_step_tokens", max_step_tokens));
  LOCKSTEP_RETURN_IF_ERROR(positive("max_steps_in_flight", max_steps_in_flight));
  LOCKSTEP_RETURN_IF_ERROR(positive("max_context_tokens", max_context_tokens));
  return positive("max_decode_iterations", max_decode_iterations);
}

}  // namespace lockstep::router
