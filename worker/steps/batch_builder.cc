#include "worker/steps/batch_builder.h"

#include <algorithm>

namespace lockstep::worker {
namespace {

// True if a token is sampled from the logits: of the last known token, and of each draft after it.
bool IsSampledFrom(const Slot& slot, uint32_t position) { return position + 1 >= slot.num_known(); }

}  // namespace

BatchBuilder::BatchBuilder(const ForwardModelInfo& info, uint32_t max_slots)
    : max_tokens_(info.max_step_tokens), max_logits_(info.max_logits_rows) {
  token_ids_.reserve(max_tokens_);
  rows_.reserve(max_slots);
  slots_.reserve(max_slots);
  logits_tokens_.reserve(max_logits_);
  uses_.reserve(max_logits_);
}

void BatchBuilder::Clear() {
  token_ids_.clear();
  rows_.clear();
  slots_.clear();
  logits_tokens_.clear();
  uses_.clear();
}

uint32_t BatchBuilder::FitLogits(const Slot& slot, uint32_t num_tokens) const {
  const uint32_t room = max_logits_ - static_cast<uint32_t>(uses_.size());
  uint32_t wanted = 0;
  for (uint32_t i = 0; i < num_tokens; ++i) {
    const uint32_t position = slot.num_computed() + i;
    if (!IsSampledFrom(slot, position) && !slot.WantsPromptLogprobAfter(position)) continue;
    if (++wanted > room) return i;
  }
  return num_tokens;
}

void BatchBuilder::AddLogits(const Slot& slot, SlotId slot_id, uint32_t row,
                             const ForwardRow& forward_row) {
  for (uint32_t i = 0; i < forward_row.num_tokens; ++i) {
    const uint32_t position = forward_row.first_position + i;
    const bool samples = IsSampledFrom(slot, position);
    if (!samples && !slot.WantsPromptLogprobAfter(position)) continue;
    logits_tokens_.push_back(forward_row.first_token + i);
    uses_.push_back({.slot = slot_id,
                     .row = row,
                     .position = position + 1,
                     .samples = samples,
                     .input = token_ids_[forward_row.first_token + i]});
  }
}

uint32_t BatchBuilder::FitDrafts(const Slot& slot, uint32_t num_tokens, size_t num_drafts) const {
  if (num_drafts == 0 || slot.num_computed() + num_tokens < slot.num_known()) return 0;
  // A row that drafts decodes: its token has logits, and so has each draft.
  const size_t used_tokens = token_ids_.size() + num_tokens;
  const size_t used_logits = uses_.size() + num_tokens;
  if (used_tokens >= max_tokens_ || used_logits >= max_logits_) return 0;
  return static_cast<uint32_t>(
      std::min({num_drafts, max_tokens_ - used_tokens, max_logits_ - used_logits}));
}

uint32_t BatchBuilder::Add(const Slot& slot, SlotId slot_id, uint32_t row, uint32_t num_tokens,
                           std::span<const TokenId> drafts) {
  const uint32_t room = max_tokens_ - static_cast<uint32_t>(token_ids_.size());
  num_tokens = std::min({num_tokens, slot.num_known() - slot.num_computed(), room});
  num_tokens = FitLogits(slot, num_tokens);
  if (num_tokens == 0) return 0;
  const uint32_t first = slot.num_computed();
  const uint32_t num_drafts = FitDrafts(slot, num_tokens, drafts.size());
  const ForwardRow forward_row{.first_token = static_cast<uint32_t>(token_ids_.size()),
                               .num_tokens = num_tokens + num_drafts,
                               .first_position = first,
                               .block_tables = slot.block_tables()};
  const auto tokens = std::span(slot.known_tokens()).subspan(first, num_tokens);
  token_ids_.insert(token_ids_.end(), tokens.begin(), tokens.end());
  token_ids_.insert(token_ids_.end(), drafts.begin(), drafts.begin() + num_drafts);
  rows_.push_back(forward_row);
  slots_.push_back(slot_id);
  AddLogits(slot, slot_id, row, forward_row);
  return num_tokens;
}

}  // namespace lockstep::worker
