#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/worker/v1/worker.pb.h"
#include "worker/steps/executor_limits.h"
#include "worker/steps/slot_table.h"
#include "worker/steps/stamp_set.h"
#include "worker/steps/table_rules.h"

namespace lockstep::worker {

// The position of a lease in its sequence of steps.
struct StepOrder {
  uint64_t epoch = 0;         // 0: no lease
  uint64_t last_step_id = 0;  // the latest applied step
  bool refusing = false;      // a step was refused; only a resync is accepted
};

// Decides if a step may be applied. A pure function of the message, the order and the mirror, so
// every kind of worker refuses the same steps. Knows every rule of the protocol and changes
// nothing. An accepted step can be executed without another check. Owns scratch memory only, and
// allocates nothing for an accepted step.
class StepValidator {
 public:
  explicit StepValidator(const StepBounds& bounds);

  // FAILED_PRECONDITION for a step out of order, otherwise INVALID_ARGUMENT or UNIMPLEMENTED.
  // Errors name the field, its index, the value and what was expected.
  absl::Status Check(const v1::StepRequest& step, const StepOrder& order, const SlotTable& table);

 private:
  // The state of a slot after the checked parts of the step.
  struct CheckedSlot {
    bool occupied = false;
    bool inert = false;
    uint32_t num_known = 0;
    uint32_t num_computed = 0;
    uint32_t max_unreported = 0;
    uint32_t max_total_tokens = 0;
  };

  absl::Status CheckOrder(const v1::StepRequest& step, const StepOrder& order) const;
  absl::Status CheckReleased(const v1::StepRequest& step);
  absl::Status CheckStarted(const v1::StepRequest& step);
  absl::Status CheckStartedSlot(const v1::StartedSlot& started);
  absl::Status CheckKnownTokens(const v1::StartedSlot& started) const;
  absl::Status CheckPromptLogprobs(const v1::StartedSlot& started) const;
  absl::Status CheckGrown(const v1::StepRequest& step);
  absl::Status CheckGrowth(SlotId slot, uint32_t group, std::span<const BlockId> blocks);
  absl::Status CheckRows(const v1::StepRequest& step);
  absl::Status CheckRowCounts(const v1::StepRequest& step, uint32_t iterations) const;
  absl::Status CheckDraftLimits(const v1::StepRequest& step) const;
  absl::Status CheckRow(SlotId slot, uint32_t num_tokens, uint32_t iterations,
                        uint32_t draft_limit);
  absl::Status CheckSlotRange(SlotId slot) const;
  // Checks that the slot is in range and not in mentioned_ yet. Adds it to mentioned_.
  absl::Status CheckSlotId(SlotId slot);
  CheckedSlot& CheckedSlotOf(SlotId slot);

  const StepBounds bounds_;
  const SlotTable* table_ = nullptr;        // null after a resync: every slot counts as empty
  std::vector<CheckedSlot> checked_slots_;  // [max_slots], valid where has_checked_slot_ says so
  StampSet has_checked_slot_;
  StampSet mentioned_;  // slots of the list being checked
  TableRules tables_;   // of the slots that has_checked_slot_ has
  StampSet tokens_;
};

}  // namespace lockstep::worker
