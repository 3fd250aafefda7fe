#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "router/core/kv/block_pool.h"
#include "router/core/policy/draft_record.h"

namespace lockstep::router {

struct SchedulerStats {
  uint32_t waiting_requests = 0, waiting_sequences = 0, running_sequences = 0;
  uint32_t steps_in_flight = 0;
  uint64_t waiting_tokens = 0;
  uint64_t prefill_tokens = 0;  // known tokens of running sequences that are not computed yet
  // Blocks of the first group of KV.
  uint32_t free_blocks = 0, used_blocks = 0, cached_blocks = 0, fenced_blocks = 0;
  std::vector<BlockCounts> further_groups = {};  // of groups 1, 2, ...
  uint32_t prefix_index_nodes = 0;
  uint64_t preemptions = 0, prefix_query_tokens = 0, prefix_hit_tokens = 0, rollbacks = 0;
  uint64_t refused_steps = 0, wasted_rows = 0;  // wasted: the sequence had ended, or was inert
  // Requests that were refused because the requests before them would take too long.
  uint64_t refused_for_deadline = 0, refused_for_first_token = 0;
  // Of all steps. Drafts count as decodes once they are kept.
  uint64_t planned_prefill_tokens = 0, planned_decode_tokens = 0;
  // Tokens that workers drafted, and how many of them were kept.
  uint64_t drafted_tokens = 0, accepted_drafts = 0;
  // Rows of decodes by the number of tokens that were drafted for them, while the worker drafts.
  std::array<uint64_t, kMaxDrafts + 1> rounds_by_drafts = {};
  std::array<uint64_t, kMaxDrafts> accepted_by_place = {};  // kept drafts by their place in a row
};

}  // namespace lockstep::router
