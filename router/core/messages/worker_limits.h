#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <limits>

#include "router/core/kv/kv_group.h"

namespace lockstep::router {

// What a worker announced. Valid for one epoch and one incarnation.
struct WorkerLimits {
  KvGroups kv_groups = {KvGroup()};
  uint32_t max_slots = 0;
  uint32_t max_step_tokens = 0;
  uint32_t max_context_tokens = 0;
  uint32_t vocab_size = std::numeric_limits<uint32_t>::max();  // every token id is smaller
  uint32_t max_decode_iterations = 1;
  uint32_t max_draft_tokens = 0;  // for a row; 0: it drafts nothing
  uint32_t max_steps_in_flight = std::numeric_limits<uint32_t>::max();
  uint64_t constraint_engine = 0;  // hash of its version; 0: the worker has none

  // Of every group.
  uint32_t block_size_tokens() const { return kv_groups.front().block_size_tokens; }
  // The most tokens that one sequence may have in the KV cache.
  uint64_t max_cached_tokens() const;
  // INVALID_ARGUMENT names the first limit that makes no sense, UNIMPLEMENTED a group that no code
  // serves yet.
  absl::Status Validate() const;
};

}  // namespace lockstep::router
