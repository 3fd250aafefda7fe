#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <limits>

namespace lockstep::router {

// What a worker announced. Valid for one epoch and one incarnation.
struct WorkerLimits {
  uint32_t num_blocks = 0;
  uint32_t block_size_tokens = 16;
  uint32_t max_slots = 0;
  uint32_t max_step_tokens = 0;
  uint32_t max_context_tokens = 0;
  uint32_t vocab_size = std::numeric_limits<uint32_t>::max();  // every token id is smaller
  uint32_t max_decode_iterations = 1;
  uint32_t max_steps_in_flight = std::numeric_limits<uint32_t>::max();

  // INVALID_ARGUMENT names the first limit that makes no sense.
  absl::Status Validate() const;
};

}  // namespace lockstep::router
