#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "kernels/slots/slot_state.h"
#include "worker/cuda/steps/shared_prefixes.h"
#include "worker/steps/slot.h"

namespace lockstep::worker {

// The rows of one decode iteration: for each sequence the row of its last known token, and behind
// it rows for its drafts. Also collects what decides which graph runs them.
class DecodeRows {
 public:
  // `num_blocks`: of the first KV pool.
  explicit DecodeRows(size_t num_blocks) : shared_prefixes_(num_blocks) {}

  void Clear();
  // A row of padding, in the place of a sequence that is not to run.
  void AddPadding() { Add(kernels::kNoSlot, 0); }
  // A sequence that has ended, as far as the mirror knows. The device may not know it yet.
  void AddEnded(SlotId slot) { Add(slot, 0); }
  // A sequence that runs, with rows for `num_drafts` drafts.
  void AddRunning(SlotId slot_id, const Slot& slot, uint32_t num_drafts);
  // Adds padding until there are `count` rows. num_rows() does not count it.
  void PadTo(size_t count);

  int64_t num_rows() const { return num_rows_; }
  // Of each row, kernels::kNoSlot for padding.
  const std::vector<SlotId>& slots() const { return slots_; }
  // See kernels::DraftRows. They follow from the slots.
  const std::vector<uint32_t>& draft_numbers() const { return draft_numbers_; }

  bool has_drafts() const { return has_drafts_; }
  int64_t max_keys() const { return max_keys_; }                  // of a row, at most
  bool rows_share() const { return shared_prefixes_.AreMany(); }  // see CudaBatch
  bool describes() const { return describes_; }                // some row wants log-probabilities
  bool all_plain_greedy() const { return all_plain_greedy_; }  // see SampleRowsParams

 private:
  void Add(SlotId slot, uint32_t draft_number);

  SharedPrefixes shared_prefixes_;
  std::vector<SlotId> slots_;
  std::vector<uint32_t> draft_numbers_;
  int64_t num_rows_ = 0;
  int64_t max_keys_ = 0;
  bool has_drafts_ = false;
  bool describes_ = false;
  bool all_plain_greedy_ = true;
};

// The most keys that a row of a running sequence may attend to, if it has this many drafts.
uint32_t MaxKeysOf(const Slot& slot, uint32_t num_drafts);

// How many drafts the row of a running sequence may have, within the router's `limit`. The device
// may draft fewer.
uint32_t MaxDraftsOf(const Slot& slot, uint32_t limit);

}  // namespace lockstep::worker
