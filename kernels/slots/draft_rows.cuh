#pragma once

#include <cuda_runtime.h>

#include "kernels/slots/draft_rows.h"
#include "kernels/slots/slot_state.h"

namespace lockstep::kernels {

// The number of the row's draft; 0: the row is one of a last known token.
__device__ __forceinline__ uint32_t DraftNumber(const DraftRows& rows, int64_t row) {
  return rows.numbers == nullptr ? 0 : rows.numbers[row];
}

// Whether the row computes a token: it is no padding, its slot is active and has this draft.
__device__ __forceinline__ bool IsLiveRow(const SlotState& state, const DraftRows& rows,
                                          uint32_t slot, uint32_t draft_number) {
  if (slot == kNoSlot || state.active[slot] == 0) return false;
  return draft_number == 0 || draft_number <= rows.table.num_drafts[slot];
}

// The slot's draft with this number, from 1.
__device__ __forceinline__ TokenId DraftOf(const DraftRows& rows, uint32_t slot,
                                           uint32_t draft_number) {
  return rows.table.tokens[static_cast<int64_t>(slot) * rows.table.max_drafts + draft_number - 1];
}

}  // namespace lockstep::kernels
