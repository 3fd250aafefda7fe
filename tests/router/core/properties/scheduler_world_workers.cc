// Workers that come, change their bits, drain and are lost.
#include <algorithm>

#include "common/status.h"
#include "tests/router/core/properties/scheduler_world.h"

namespace lockstep::router::testing {

absl::Status SchedulerWorld::Attach() {
  CountWorker();
  limits_ = random_.OneIn(3) ? MakeLimits() : limits_;
  worker_ = std::make_unique<ModelWorker>(limits_);
  observer_ = std::make_unique<PlanObserver>(limits_);
  compute_on_lease_ = absl::ZeroDuration();
  measured_prompt_ = false;
  LOCKSTEP_RETURN_IF_ERROR(scheduler_->AttachWorker(limits_, now_));
  return random_.OneIn(4) ? ChangeBits() : absl::OkStatus();
}

absl::Status SchedulerWorld::ChangeBits() {
  // Who ended in the meantime is not a client any more.
  LOCKSTEP_RETURN_IF_ERROR(CheckEverything());
  for (auto& [key, client] : clients_) {
    const bool has_tokens = std::ranges::any_of(
        client.samples, [](const Sample& sample) { return !sample.delivered.empty(); });
    // Prompt log-probabilities that are not complete are nobody's to see.
    const bool may_have_more = client.admitted && client.request->sampling.num_prompt_logprobs >= 0;
    client.other_bits = has_tokens || may_have_more;
  }
  const uint32_t num_failed =
      scheduler_->FailWithOutput(MakeError(absl::StatusCode::kAborted, "other bits"), now_);
  Count("failed by other bits", num_failed);
  LOCKSTEP_RETURN_IF_ERROR(CheckEverything());
  for (auto& [key, client] : clients_) {
    client.other_bits = false;
    for (const Sample& sample : client.samples) {
      if (!sample.delivered.empty()) return Internal("request {}: continues with other bits", key);
    }
  }
  return absl::OkStatus();
}

absl::Status SchedulerWorld::DrainWorker() {
  if (worker_ == nullptr) return absl::OkStatus();
  Count("workers drained");
  worker_drains_ = true;
  scheduler_->DrainWorker(now_);
  return absl::OkStatus();
}

absl::Status SchedulerWorld::LoseWorker() {
  if (worker_ == nullptr) return absl::OkStatus();
  Count(planned_.empty() && executed_.empty() ? "workers lost"
                                              : "workers lost with steps in flight");
  NoteLost();
  scheduler_->DetachWorker(Unavailable("lost"), now_);
  CountWorker();
  worker_.reset();
  worker_drains_ = false;
  observer_.reset();
  planned_.clear();
  executed_.clear();
  slot_owners_.clear();
  return absl::OkStatus();
}

void SchedulerWorld::CountWorker() {
  if (worker_ == nullptr) return;
  const ModelWorker::Counts& counts = worker_->counts();
  Count("inert rows", counts.inert_rows);
  Count("rows that sample nothing", counts.unsampled_rows);
  Count("steps of several iterations", counts.multi_iteration_steps);
  Count("resyncs", counts.resyncs);
  Count("repeated steps", counts.repeated_steps);
  Count("slots released and started in one step", counts.slots_reused_at_once);
  Count("blocks sent before they are needed", counts.early_blocks);
  Count("hits with blocks behind the window", counts.starts_behind_a_window);
  Count("chunks that a window grew for", counts.grown_windows);
  Count("drafts that were kept", counts.right_drafts);
  Count("drafts that were wrong", counts.wrong_drafts);
  Count("rows that wait", counts.waiting_rows);
}

}  // namespace lockstep::router::testing
