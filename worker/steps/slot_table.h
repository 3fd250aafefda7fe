#pragma once

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "lockstep/worker/v1/worker.pb.h"
#include "worker/steps/slot.h"

namespace lockstep::worker {

// The worker's mirror of its slots. The router can rebuild it, so it is never a source of truth.
// Applies the parts of a step that come before its rows. Messages must have been validated against
// this table.
class SlotTable {
 public:
  // `num_groups`: KV groups of the model.
  SlotTable(uint32_t max_slots, uint32_t num_groups) : slots_(max_slots, Slot(num_groups)) {}

  uint32_t max_slots() const { return static_cast<uint32_t>(slots_.size()); }
  const Slot& operator[](SlotId slot) const { return slots_[slot]; }
  Slot& operator[](SlotId slot) { return slots_[slot]; }
  // Slots of the latest step's rows, in batch order. repeat_rows refers to them. Empty after Clear.
  const std::vector<SlotId>& last_rows() const { return last_rows_; }
  // How many tokens may be drafted for each of last_rows(); empty: none. Repeated with the rows.
  const std::vector<uint32_t>& last_draft_limits() const { return last_draft_limits_; }
  // Slots with running sequences.
  uint32_t CountLive() const;

  void Clear();
  // Applies released, started and grown slots, and remembers the rows.
  void Apply(const v1::StepRequest& step);

 private:
  std::vector<Slot> slots_;
  std::vector<SlotId> last_rows_;
  std::vector<uint32_t> last_draft_limits_;
};

}  // namespace lockstep::worker
