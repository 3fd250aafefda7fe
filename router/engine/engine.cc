#include "router/engine/engine.h"

#include <utility>

#include "common/status.h"
#include "router/engine/violations.h"

namespace lockstep::router {

absl::Status EngineConfig::Validate() const {
  Violations violations;
  violations.Merge(admission.Validate());
  violations.Merge(replica.Validate());
  violations.Require(max_pending_output_bytes >= 4096,
                     "max_pending_output_bytes: must be at least 4096");
  return violations.ToStatus();
}

Engine::Engine(EngineConfig config, std::unique_ptr<SchedulingPolicy> policy,
               std::unique_ptr<StepLink> link, const Clock* clock, RouterMetrics* metrics,
               std::function<void()> on_readiness_change)
    : config_(std::move(config)),
      metrics_(*metrics),
      on_readiness_change_(std::move(on_readiness_change)),
      admission_(Admission::Make(config_.admission)),
      replica_(config_.replica, std::move(policy), std::move(link), clock, metrics,
               on_readiness_change_) {}

absl::StatusOr<std::shared_ptr<Admission::Ticket>> Engine::Admit(uint64_t estimated_prompt_tokens) {
  const auto reject = [this](Rejection reason) {
    metrics_.At(metrics_.requests_rejected_total, reason).Increment();
  };
  if (draining()) {
    reject(Rejection::kDraining);
    return absl::UnavailableError("the router is shutting down");
  }
  if (absl::Status status = replica_.CheckWorker(); !status.ok()) {
    reject(Rejection::kNoWorker);
    return status;
  }
  Rejection reason{};
  absl::StatusOr<std::shared_ptr<Admission::Ticket>> ticket =
      admission_->TryAdmit(estimated_prompt_tokens, reason);
  if (!ticket.ok()) reject(reason);
  return ticket;
}

std::shared_ptr<Outbox> Engine::MakeOutbox(std::function<void()> on_ready) const {
  return std::make_shared<Outbox>(config_.max_pending_output_bytes, std::move(on_ready));
}

void Engine::Submit(Submission submission) { replica_.inbox().Submit(std::move(submission)); }

void Engine::Cancel(RequestKey request, CancelCause cause) {
  replica_.inbox().Cancel({.request = request, .cause = cause});
}

void Engine::StopSequence(RequestKey request, uint32_t sample_index) {
  replica_.inbox().Stop({.request = request, .sample_index = sample_index});
}

void Engine::StartDrain() {
  draining_.store(true);
  on_readiness_change_();
}

bool Engine::ready() const {
  const WorkerState state = replica_.worker_state();
  return !draining() && (state == WorkerState::kReady || state == WorkerState::kDraining);
}

}  // namespace lockstep::router
