#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lockstep/worker/v1/worker.pb.h"
#include "worker/steps/slot_table.h"
#include "worker/steps/step_runner.h"
#include "worker/steps/step_validator.h"

namespace lockstep::worker {

// The worker's view of a lease: the order of its steps, and the mirror of its slots. Does the work
// that every step runner does before it computes a step.
class StepMirror {
 public:
  StepMirror(const StepBounds& bounds, uint64_t incarnation);
  StepMirror(const StepMirror&) = delete;  // runners refer to the table inside
  StepMirror& operator=(const StepMirror&) = delete;

  const StepBounds& bounds() const { return bounds_; }
  const SlotTable& table() const { return table_; }
  SlotTable& table() { return table_; }

  // Both drop every slot.
  void BeginLease(uint64_t epoch);
  void EndLease();

  // A rule of one backend, in addition to the protocol's rules.
  using BackendCheck = absl::Status (*)(const v1::StepRequest& step);
  // True if the step may be applied. Overwrites `result` with epoch, incarnation and step id. If
  // the step may not be applied, `result` refuses it, the slots do not change, and later steps are
  // refused too until a resync.
  bool Accept(const v1::StepRequest& step, v1::StepResult& result, StepStats& stats,
              BackendCheck backend_check = nullptr);

  // Applies an accepted step to the mirror. Then calls on_row(slot, num_tokens, draft_limit) for
  // each row that computes, in batch order. Adds inert slots to the result instead.
  template <typename OnRow>
  void Apply(const v1::StepRequest& step, v1::StepResult& result, StepStats& stats,
             const OnRow& on_row) {
    if (step.resync()) table_.Clear();
    table_.Apply(step);
    for (size_t i = 0; i < table_.last_rows().size(); ++i) {
      const SlotId slot_id = table_.last_rows()[i];
      const Slot& slot = table_[slot_id];
      if (slot.inert()) {
        result.add_inert_slots(slot_id);
        continue;
      }
      const uint32_t bound = step.run_tokens_size() == 0 ? 1 : step.run_tokens(static_cast<int>(i));
      const uint32_t num_uncomputed = slot.num_known() - slot.num_computed();
      ++(num_uncomputed == 1 ? stats.num_decode_rows : stats.num_prefill_rows);
      const std::vector<uint32_t>& limits = table_.last_draft_limits();
      on_row(slot_id, std::min(bound, num_uncomputed), limits.empty() ? 0 : limits[i]);
    }
  }

 private:
  const StepBounds bounds_;
  const uint64_t incarnation_;
  StepOrder order_;
  SlotTable table_;
  StepValidator validator_;
};

}  // namespace lockstep::worker
