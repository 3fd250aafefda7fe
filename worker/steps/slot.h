#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "common/ids.h"
#include "kernels/sampling/sample.h"
#include "lockstep/worker/v1/worker.pb.h"

namespace lockstep::worker {

// How often each token occurred in a sequence, for the penalties. Rebuilt from the known tokens.
class TokenHistogram {
 public:
  void Clear();
  void Add(TokenId token, bool generated);
  std::span<const kernels::TokenCount> counts() const { return counts_; }

 private:
  std::vector<kernels::TokenCount> counts_;
  absl::flat_hash_map<TokenId, uint32_t> index_of_;
};

// A block table entry behind the window. Must never be read.
inline constexpr BlockId kNoBlock = std::numeric_limits<BlockId>::max();

// The mirror of one sequence: all data from the router that a row of a step needs. A slot keeps its
// memory from one sequence to the next.
class Slot {
 public:
  // A block table for each KV group.
  explicit Slot(uint32_t num_groups) : block_tables_(num_groups) {}

  bool occupied() const { return occupied_; }
  // How often a sequence started here. While it stays the same, known tokens are only appended.
  uint64_t num_starts() const { return num_starts_; }
  // Stopped or failed: nothing is computed until the slot is released or started anew.
  bool inert() const { return inert_; }

  const std::vector<TokenId>& known_tokens() const { return known_tokens_; }
  uint32_t num_known() const { return static_cast<uint32_t>(known_tokens_.size()); }
  uint32_t num_prompt() const { return num_prompt_; }
  // How many more tokens than num_known() may be known, because rounds whose results the host does
  // not have yet may keep drafts. num_known() and num_computed() count one token for each of these
  // rounds.
  uint32_t max_unreported() const { return max_unreported_; }
  // Below num_known() unless inert. A draft does not count: it becomes known if it is sampled.
  uint32_t num_computed() const { return num_computed_; }
  // By position. Entries behind the window are stale or kNoBlock.
  const std::vector<BlockId>& blocks(uint32_t group = 0) const { return block_tables_[group]; }
  std::span<const std::vector<BlockId>> block_tables() const {
    return block_tables_;
  }  // by KV group
  uint32_t min_total_tokens() const { return min_total_tokens_; }
  uint32_t max_total_tokens() const { return max_total_tokens_; }
  int32_t num_logprobs() const { return num_logprobs_; }
  int32_t num_prompt_logprobs() const { return num_prompt_logprobs_; }
  const kernels::SampleParams& params() const { return params_; }
  std::span<const kernels::TokenCount> seen_tokens() const { return histogram_.counts(); }
  bool masks_stop_ids() const { return num_known() < min_total_tokens_; }
  // True if the next token is simply the one with the highest logit: no other parameter changes the
  // choice.
  bool IsPlainGreedy() const {
    return params_.temperature == 0 && params_.logit_bias_ids.empty() &&
           params_.allowed_token_ids.empty() && !params_.has_penalties() && !masks_stop_ids();
  }
  bool IsStopId(TokenId token) const;
  // True if the next prompt token needs a log-probability from the logits at `position`.
  bool WantsPromptLogprobAfter(uint32_t position) const {
    return first_prompt_logprob_ > 0 && position + 1 >= first_prompt_logprob_ &&
           position + 1 < num_prompt_;
  }

  // `message` must have been validated.
  void Start(const v1::StartedSlot& message);
  void Release();
  void AppendBlocks(uint32_t group, std::span<const BlockId> blocks);
  void Advance(uint32_t num_tokens) { num_computed_ += num_tokens; }
  void AppendSampled(TokenId token);
  // Appends a token that only the device knows so far. The host never needs its value.
  void AppendOnDevice() { known_tokens_.push_back(0); }
  // A round with this many drafts is under way.
  void ExpectDrafts(uint32_t num_drafts) { max_unreported_ += num_drafts; }
  // Its result: `num_kept` of the drafts became known, on the device.
  void TakeDrafts(uint32_t num_drafts, uint32_t num_kept);
  void MakeInert() { inert_ = true; }

 private:
  uint64_t num_starts_ = 0;
  bool occupied_ = false;
  bool inert_ = false;
  uint32_t num_prompt_ = 0;
  uint32_t num_computed_ = 0;
  uint32_t max_unreported_ = 0;
  uint32_t min_total_tokens_ = 0;
  uint32_t max_total_tokens_ = 0;
  uint32_t first_prompt_logprob_ = 0;
  int32_t num_logprobs_ = -1;
  int32_t num_prompt_logprobs_ = -1;
  std::vector<TokenId> known_tokens_;
  std::vector<std::vector<BlockId>> block_tables_;  // by KV group
  kernels::SampleParams params_;
  TokenHistogram histogram_;  // empty unless the sequence has penalties
};

}  // namespace lockstep::worker
