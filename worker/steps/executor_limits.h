#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/model/forward_model.h"

namespace lockstep::worker {

// Limits that a worker announces in Describe in addition to its model's. Every step must keep them.
struct ExecutorLimits {
  uint32_t max_slots = 256;
  uint32_t max_step_tokens = 0;  // 0: as much as the model's workspace holds
  uint32_t max_logprobs = 20;    // best tokens per position
  uint32_t max_decode_iterations = 8;
  uint32_t max_draft_tokens = 0;                // for a row; 0: drafts are refused
  std::vector<std::string> draft_sources = {};  // names of the drafters, for information
};

// The numbers that step validation needs, from the model and the limits.
struct StepBounds {
  StepBounds(const ForwardModelInfo& info, const ExecutorLimits& limits);

  uint32_t max_slots;
  uint32_t max_step_tokens;
  uint32_t max_logprobs;
  uint32_t max_decode_iterations;
  uint32_t max_draft_tokens;
  std::vector<std::string> draft_sources;  // empty if it drafts nothing
  // Its version. A runner that has an engine sets it; empty: constraints are refused.
  std::string constraint_engine = {};
  uint32_t vocab_size;
  uint32_t max_context_tokens;
  uint32_t block_size_tokens;
  std::vector<KvGroupInfo> kv_groups;  // at least one
  uint32_t max_blocks_per_slot;        // in each group, with blocks behind a window

  uint32_t num_groups() const { return static_cast<uint32_t>(kv_groups.size()); }
  // Place in a block table. Tokens from `position` on read no block before this one.
  uint32_t FirstReadBlock(uint32_t group, uint32_t position) const {
    return kv_groups[group].FirstRead(position) / block_size_tokens;
  }
};

}  // namespace lockstep::worker
