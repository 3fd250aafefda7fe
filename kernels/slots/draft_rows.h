#pragma once

#include <cstdint>

#include "common/ids.h"

// Rows of drafts in a decode batch. A draft is a guess of a sequence's next token. The row of a
// slot's last known token is followed by rows of the slot's drafts, in order. Row j behind the
// first one computes draft j at the position of the last known token plus j.
namespace lockstep::kernels {

// The drafts of the round at hand, device memory. Only the device knows how many a slot has.
struct DraftTable {
  TokenId* tokens = nullptr;       // [num_slots, max_drafts]
  uint32_t* num_drafts = nullptr;  // [num_slots], valid for slots with rows of drafts
  uint32_t max_drafts = 0;         // of a slot
};

// A row whose number of the draft is above the slot's num_drafts is padding.
struct DraftRows {
  // [num_rows]: 0 for a last known token and for padding, j for the row of the slot's j-th draft.
  // Null: no row is one of a draft.
  const uint32_t* numbers = nullptr;
  DraftTable table = {};

  bool exist() const { return numbers != nullptr; }
};

}  // namespace lockstep::kernels
