#include "router/engine/engine.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "router/engine/violations.h"

namespace lockstep::router {

namespace {

bool IsAttached(WorkerState state) {
  return state == WorkerState::kReady || state == WorkerState::kDraining;
}

// The higher, the better off.
int WorkerRank(WorkerState state) {
  if (state == WorkerState::kReady) return 2;
  return state == WorkerState::kDraining ? 1 : 0;
}

SchedulerStats Sum(const SchedulerStats& a, const SchedulerStats& b) {
  return {.waiting_requests = a.waiting_requests + b.waiting_requests,
          .waiting_sequences = a.waiting_sequences + b.waiting_sequences,
          .running_sequences = a.running_sequences + b.running_sequences,
          .steps_in_flight = a.steps_in_flight + b.steps_in_flight,
          .waiting_tokens = a.waiting_tokens + b.waiting_tokens,
          .free_blocks = a.free_blocks + b.free_blocks,
          .used_blocks = a.used_blocks + b.used_blocks,
          .cached_blocks = a.cached_blocks + b.cached_blocks,
          .fenced_blocks = a.fenced_blocks + b.fenced_blocks,
          .prefix_index_nodes = a.prefix_index_nodes + b.prefix_index_nodes,
          .preemptions = a.preemptions + b.preemptions,
          .prefix_query_tokens = a.prefix_query_tokens + b.prefix_query_tokens,
          .prefix_hit_tokens = a.prefix_hit_tokens + b.prefix_hit_tokens,
          .rollbacks = a.rollbacks + b.rollbacks,
          .refused_steps = a.refused_steps + b.refused_steps,
          .wasted_rows = a.wasted_rows + b.wasted_rows};
}

}  // namespace

absl::Status EngineConfig::Validate() const {
  Violations violations;
  violations.Merge(admission.Validate());
  violations.Merge(replica.Validate());
  violations.Merge(placement.Validate());
  violations.Require(max_pending_output_bytes >= 4096,
                     "max_pending_output_bytes: must be at least 4096");
  return violations.ToStatus();
}

Engine::Engine(EngineConfig config, std::vector<ReplicaParts> replicas, const Clock* clock,
               RouterMetrics* metrics, std::function<void()> on_readiness_change)
    : config_(std::move(config)),
      metrics_(*metrics),
      on_readiness_change_(std::move(on_readiness_change)),
      admission_(Admission::Make(config_.admission)),
      fleet_(config_.placement, static_cast<uint32_t>(replicas.size())) {
  for (uint32_t i = 0; i < replicas.size(); ++i) {
    replicas_.push_back(std::make_unique<ReplicaLoop>(
        config_.replica, std::move(replicas[i]),
        ReplicaLoop::Surroundings{.clock = clock,
                                  .metrics = metrics,
                                  .fleet = &fleet_,
                                  .index = i,
                                  .on_worker_change = on_readiness_change_}));
  }
}

Engine::~Engine() {
  // Nothing may move to a loop that has ended.
  fleet_.Close();
  CancelAll();
}

absl::StatusOr<std::shared_ptr<Admission::Ticket>> Engine::Admit(uint64_t estimated_prompt_tokens) {
  const auto reject = [this](Rejection reason) {
    metrics_.At(metrics_.requests_rejected_total, reason).Increment();
  };
  if (draining()) {
    reject(Rejection::kDraining);
    return absl::UnavailableError("the router is shutting down");
  }
  if (absl::Status status = CheckWorkers(); !status.ok()) {
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

void Engine::Submit(Submission submission) { fleet_.Submit(std::move(submission)); }

void Engine::Cancel(RequestKey request, CancelCause cause) {
  fleet_.Cancel({.request = request, .cause = cause});
}

void Engine::StopSequence(RequestKey request, uint32_t sample_index) {
  fleet_.Stop({.request = request, .sample_index = sample_index});
}

void Engine::CancelAll() {
  for (uint32_t i = 0; i < fleet_.size(); ++i) fleet_.inbox(i).CancelAll();
}

void Engine::StartDrain() {
  draining_.store(true);
  on_readiness_change_();
}

bool Engine::ready() const {
  return !draining() && std::ranges::any_of(replicas_, [](const auto& replica) {
    return IsAttached(replica->worker_state());
  });
}

absl::Status Engine::CheckWorkers() const {
  absl::Status first;
  for (const auto& replica : replicas_) {
    absl::Status status = replica->CheckWorker();
    if (status.ok()) return status;
    if (first.ok()) first = std::move(status);
  }
  if (replicas_.size() == 1) return first;
  return Unavailable("none of {} workers is attached; of the first: {}", replicas_.size(),
                     Message(first));
}

ReplicaStatus Engine::replica_status() const {
  ReplicaStatus all = replica_status(0);
  const auto rank = [](const ReplicaStatus& status) {
    return std::pair(WorkerRank(status.worker_state), status.description.max_context_tokens());
  };
  for (size_t i = 1; i < replicas_.size(); ++i) {
    ReplicaStatus one = replica_status(i);
    const SchedulerStats stats = Sum(all.scheduler, one.scheduler);
    const uint32_t live_requests = all.live_requests + one.live_requests;
    if (rank(one) > rank(all)) all = std::move(one);
    all.scheduler = stats;
    all.live_requests = live_requests;
  }
  return all;
}

}  // namespace lockstep::router
