#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/ids.h"
#include "worker/model/forward_model.h"
#include "worker/steps/executor_limits.h"
#include "worker/steps/slot.h"

namespace lockstep::worker {

// The use of one row of logits.
struct LogitsUse {
  SlotId slot = 0;
  uint32_t row = 0;       // of the step
  uint32_t position = 0;  // of the token these logits predict
  bool samples = false;   // otherwise the prompt token there gets its log-probability
  TokenId input = 0;      // the token before it: the last known one, or a draft
};

// Packs pieces of rows into one forward pass, within the model's room for tokens and logits. A step
// that needs more room takes several passes. This changes no bits, because rows do not influence
// one another's bits.
class BatchBuilder {
 public:
  BatchBuilder(const ForwardModelInfo& info, uint32_t max_slots);

  void Clear();
  // Adds the next uncomputed tokens of `slot`, at most `num_tokens`, and returns how many had room.
  // Until Clear, the slot must not change or be added again. If the tokens end with the last known
  // one, `drafts` follow it, each with logits to sample from. Drafts without room are left out.
  uint32_t Add(const Slot& slot, SlotId slot_id, uint32_t row, uint32_t num_tokens,
               std::span<const TokenId> drafts = {});

  bool empty() const { return rows_.empty(); }
  ForwardBatch batch() const {
    return {.token_ids = token_ids_, .rows = rows_, .logits_tokens = logits_tokens_};
  }
  // Parallel to batch().logits_tokens.
  std::span<const LogitsUse> logits_uses() const { return uses_; }
  // Parallel to batch().rows.
  std::span<const SlotId> slots() const { return slots_; }

 private:
  // How many of the tokens have room for their logits.
  uint32_t FitLogits(const Slot& slot, uint32_t num_tokens) const;
  // How many drafts have room after this many tokens.
  uint32_t FitDrafts(const Slot& slot, uint32_t num_tokens, size_t num_drafts) const;
  void AddLogits(const Slot& slot, SlotId slot_id, uint32_t row, const ForwardRow& forward_row);

  const uint32_t max_tokens_;
  const uint32_t max_logits_;
  std::vector<TokenId> token_ids_;
  std::vector<ForwardRow> rows_;
  std::vector<SlotId> slots_;
  std::vector<uint32_t> logits_tokens_;
  std::vector<LogitsUse> uses_;
};

}  // namespace lockstep::worker
