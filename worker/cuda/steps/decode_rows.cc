#include "worker/cuda/steps/decode_rows.h"

#include <algorithm>

#include "kernels/slots/slot_state.h"

namespace lockstep::worker {

void DecodeRows::Clear() {
  shared_prefixes_.Clear();
  slots_.clear();
  draft_numbers_.clear();
  num_rows_ = 0;
  max_keys_ = 0;
  has_drafts_ = false;
  describes_ = false;
  all_plain_greedy_ = true;
}

void DecodeRows::Add(SlotId slot, uint32_t draft_number) {
  slots_.push_back(slot);
  draft_numbers_.push_back(draft_number);
  ++num_rows_;
}

void DecodeRows::AddRunning(SlotId slot_id, const Slot& slot, uint32_t num_drafts) {
  max_keys_ = std::max<int64_t>(max_keys_, MaxKeysOf(slot, num_drafts));
  has_drafts_ = has_drafts_ || num_drafts > 0;
  describes_ = describes_ || slot.num_logprobs() >= 0;
  // If fewer tokens may be known than are, the stop ids are masked for longer here: to sample in
  // the general way is always right.
  all_plain_greedy_ = all_plain_greedy_ && slot.IsPlainGreedy();
  for (uint32_t i = 0; i <= num_drafts; ++i) {
    Add(slot_id, i);
    shared_prefixes_.Add(slot.blocks(), slot.num_known() + i);
  }
}

void DecodeRows::PadTo(size_t count) {
  slots_.resize(std::max(count, slots_.size()), kernels::kNoSlot);
  draft_numbers_.resize(slots_.size(), 0);
}

uint32_t MaxKeysOf(const Slot& slot, uint32_t num_drafts) {
  // The last token of a sequence is never computed.
  return std::min(slot.num_known() + slot.max_unreported() + num_drafts,
                  slot.max_total_tokens() - 1);
}

uint32_t MaxDraftsOf(const Slot& slot, uint32_t limit) {
  // The last token is sampled, so it need not be drafted. num_known() may be too low.
  return std::min(limit, slot.max_total_tokens() - slot.num_known() - 1);
}

}  // namespace lockstep::worker
