#include "worker/steps/step_mirror.h"

#include "common/check.h"
#include "common/status.h"
#include "worker/steps/row_result.h"

namespace lockstep::worker {

StepMirror::StepMirror(const StepBounds& bounds, uint64_t incarnation)
    : bounds_(bounds),
      incarnation_(incarnation),
      table_(bounds_.max_slots, bounds_.num_groups()),
      validator_(bounds_) {}

void StepMirror::BeginLease(uint64_t epoch) {
  LOCKSTEP_CHECK(epoch > 0, "epochs start at 1");
  table_.Clear();
  order_ = {.epoch = epoch, .last_step_id = 0, .refusing = false};
}

void StepMirror::EndLease() {
  table_.Clear();
  order_ = {};
}

bool StepMirror::Accept(const v1::StepRequest& step, v1::StepResult& result, StepStats& stats,
                        BackendCheck backend_check) {
  result.Clear();
  result.set_epoch(order_.epoch);
  result.set_incarnation(incarnation_);
  result.set_step_id(step.step_id());
  absl::Status status = validator_.Check(step, order_, table_);
  if (status.ok() && backend_check != nullptr) status = backend_check(step);
  order_.refusing = !status.ok();
  if (status.ok()) {
    order_.last_step_id = step.step_id();
    return true;
  }
  stats.refused = true;
  ReportRefusal(status, result);
  return false;
}

}  // namespace lockstep::worker
