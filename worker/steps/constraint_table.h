#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "common/constraints/constraint.h"
#include "common/constraints/engine_process.h"
#include "lockstep/worker/v1/worker.pb.h"
#include "worker/steps/slot.h"

namespace lockstep::worker {

// INVALID_ARGUMENT for a kind that this worker does not know.
absl::StatusOr<Constraint> ReadConstraint(const v1::SlotConstraint& message);

// The constraints of a worker's slots, and what the engine knows of each. Lives on the executor
// thread. If the engine ends, the table starts it again, and the slots begin anew from their known
// tokens: a mask depends on nothing else. A slot that sees the engine end twice in a row fails.
class ConstraintTable {
 public:
  // `engine` must outlive the table; null: no slot has a constraint.
  ConstraintTable(ConstraintEngine* engine, uint32_t max_slots);

  void Clear();
  // Takes the constraints of a step that was accepted. Asks the engine for nothing.
  void Apply(const v1::StepRequest& step);

  bool Constrains(SlotId slot) const { return slots_[slot].constrained; }
  // The mask of the token after the slot's last known one. It is valid until the next call. Call
  // only if the slot has a constraint; `slot` is its mirror. INTERNAL says why there is none.
  absl::StatusOr<const TokenMask*> Mask(SlotId id, const Slot& slot);

  uint64_t num_restarts() const { return num_restarts_; }  // of the engine, so far

 private:
  struct Entry {
    bool constrained = false;
    Constraint constraint;
    bool begun = false;     // the engine knows the slot, and its first num_sent known tokens
    uint32_t num_sent = 0;  // prompt included
    uint32_t num_ends = 0;  // of the engine, over masks of this slot, since the last mask
  };

  void Drop(SlotId slot);
  absl::Status TryMask(SlotId id, const Slot& slot);
  absl::Status Restart();

  ConstraintEngine* const engine_;
  std::vector<Entry> slots_;
  TokenMask mask_;
  uint64_t num_restarts_ = 0;
};

}  // namespace lockstep::worker
