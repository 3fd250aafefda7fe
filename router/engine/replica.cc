#include "router/engine/replica.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "common/check.h"
#include "common/instant.h"
#include "common/status.h"
#include "common/violations.h"

namespace lockstep::router {
namespace {

// Looking at every block takes milliseconds: not while somebody may be about to come, and rarely.
constexpr absl::Duration kIdleBeforeIntegrityCheck = absl::Milliseconds(100);
constexpr absl::Duration kIntegrityCheckInterval = absl::Minutes(1);

}  // namespace

absl::Status ReplicaConfig::Validate() const {
  Violations violations;
  violations.Merge(scheduler.Validate());
  violations.Require(step_timeout > absl::ZeroDuration(), "step_timeout: must be positive");
  violations.Require(failover_wait >= absl::ZeroDuration(), "failover_wait: must not be negative");
  violations.Require(no_worker_grace >= absl::ZeroDuration(),
                     "no_worker_grace: must not be negative");
  return violations.ToStatus();
}

Replica::Replica(ReplicaConfig config, std::unique_ptr<SchedulingPolicy> policy, Context context)
    : config_(std::move(config)),
      context_(std::move(context)),
      metrics_(*context_.metrics),
      worker_series_(metrics_.ForWorker(context_.worker)),
      scheduler_(config_.scheduler, std::move(policy)),
      live_(metrics_),
      lost_reason_(absl::UnavailableError("no worker has been reached yet")) {
  status_.worker = context_.worker;
  worker_series_.SetState(WorkerState::kConnecting);
  worker_series_.SetCircuit(breaker_.state());
}

void Replica::Process(InboxBatch batch) {
  const Instant now = context_.clock->Now();
  for (LinkEvent& event : batch.link_events) {
    std::visit([&](auto& alternative) { HandleLinkEvent(std::move(alternative), now); }, event);
  }
  Arrivals arrivals;
  const auto count = [&arrivals](const Submission& submission) {
    ++arrivals.num_requests;
    arrivals.num_prompt_tokens += submission.request->prompt_tokens.size();
  };
  for (Handover& handover : batch.handovers) {
    count(handover.delivery.submission);
    TakeOver(std::move(handover));
  }
  for (Submission& submission : batch.submissions) {
    count(submission);
    Accept(std::move(submission), now);
  }
  for (const SequenceStop& stop : batch.stops) Stop(stop, now);
  for (const Cancellation& cancellation : batch.cancellations) Cancel(cancellation, now);
  if (batch.cancel_all) CancelAll(now);
  if (batch.retire) StartRetirement(now);
  ExpireWorker(now);
  MoveStranded(now);
  ExpireWaits(now);
  SendSteps(now);
  DeliverEvents(now);
  EndRetirement(now);
  // Readers look at the counts once they were told of an end: the counts come first.
  PublishStats();
  TellFleet(arrivals, now);
  live_.NotifyReaders();
  CheckIntegrityWhenIdle(now);
}

Instant Replica::NextWakeup() const {
  return std::min({scheduler_.NextDeadline(), scheduler_.NextStepAt(), WorkerDeadline(),
                   FailoverDeadline(), tell_fleet_at_, retry_at_, check_integrity_at_});
}

// --- requests ---

void Replica::Accept(Submission submission, Instant now) {
  absl::Status status;
  if (shutting_down_) {
    status = absl::UnavailableError("the router is shutting down");
  } else if (epoch_ == 0 && !OthersTake(*submission.request)) {
    status = CheckWorker();  // else it moves on to the other one
  }
  if (status.ok()) status = scheduler_.Submit(submission.request, now);
  if (status.ok()) {
    worker_series_.requests_total->Increment();
    live_.Add(std::move(submission));
  } else {
    live_.Refuse(std::move(submission), std::move(status));
  }
}

void Replica::Stop(const SequenceStop& stop, Instant now) {
  if (live_.Contains(stop.request)) {
    scheduler_.StopSequence(stop.request, stop.sample_index, now);
  } else if (HasPeers()) {
    context_.fleet->Stop(stop);
  }
}

void Replica::Cancel(const Cancellation& cancellation, Instant now) {
  if (live_.SetCancelled(cancellation.request, cancellation.cause)) {
    scheduler_.Cancel(cancellation.request, now);
  } else if (HasPeers()) {
    context_.fleet->Cancel(cancellation);
  }
}

void Replica::CancelAll(Instant now) {
  shutting_down_ = true;
  for (const RequestKey key : live_.keys()) {
    Cancel({.request = key, .cause = CancelCause::kShutdown}, now);
  }
}

void Replica::DeliverEvents(Instant now) {
  // Cancelling makes new events, so: until there are none.
  for (;;) {
    std::vector<SchedulerEvent> events = scheduler_.TakeEvents();
    if (events.empty()) return;
    std::vector<RequestKey> to_cancel;
    live_.Deliver(std::move(events), now, to_cancel);
    for (const RequestKey key : to_cancel) scheduler_.Cancel(key, now);
  }
}

// --- status ---

absl::Status Replica::CheckWorker() const {
  const Instant now = context_.clock->Now();
  MutexLock lock(mutex_);
  if (status_.worker_state == WorkerState::kReady ||
      status_.worker_state == WorkerState::kDraining) {
    return absl::OkStatus();
  }
  if (now - status_.lost_at < config_.no_worker_grace) return absl::OkStatus();
  return Unavailable("no worker is attached: {}", status_.worker_text);
}

ReplicaStatus Replica::status() const {
  MutexLock lock(mutex_);
  return status_;
}

WorkerState Replica::worker_state() const {
  MutexLock lock(mutex_);
  return status_.worker_state;
}

bool Replica::gone() const {
  MutexLock lock(mutex_);
  return status_.gone;
}

void Replica::TellCircuit(WorkerState state) {
  worker_series_.SetCircuit(breaker_.state());
  if (!HasPeers()) return;
  Openness openness = Openness::kClosed;
  if (state == WorkerState::kDraining) openness = Openness::kDraining;
  if (state == WorkerState::kReady) {
    openness = breaker_.state() == CircuitState::kHalfOpen ? Openness::kTrial : Openness::kOpen;
  }
  context_.fleet->SetOpenness(context_.index, openness);
}

void Replica::SetWorker(WorkerState state, std::string text, Instant lost_at) {
  worker_changed_ = true;
  worker_series_.SetState(state);
  TellCircuit(state);
  MutexLock lock(mutex_);
  status_.worker_state = state;
  status_.worker_text = std::move(text);
  status_.lost_at = lost_at;
}

void Replica::PublishStats() {
  const SchedulerStats stats = scheduler_.Stats();
  const auto num_live = static_cast<uint32_t>(live_.size());
  const auto num_running = [](uint32_t live, const SchedulerStats& of) {
    return static_cast<double>(live - std::min(live, of.waiting_requests));
  };
  worker_series_.Publish(stats);
  MutexLock lock(mutex_);
  metrics_.Publish(stats, status_.scheduler);
  metrics_.running_requests->Increment(num_running(num_live, stats) -
                                       num_running(status_.live_requests, status_.scheduler));
  status_.scheduler = stats;
  status_.live_requests = num_live;
}

void Replica::CheckIntegrityWhenIdle(Instant now) {
  const bool idle = scheduler_.Idle();
  if (!idle) {
    check_integrity_at_ = Instant::InfiniteFuture();
  } else if (!was_idle_) {
    check_integrity_at_ =
        std::max(now + kIdleBeforeIntegrityCheck, integrity_checked_at_ + kIntegrityCheckInterval);
  } else if (now >= check_integrity_at_) {
    check_integrity_at_ = Instant::InfiniteFuture();
    integrity_checked_at_ = now;
    CheckIntegrity();
  }
  was_idle_ = idle;
}

void Replica::CheckIntegrity() const {
  const absl::Status status = scheduler_.CheckIntegrity();
  LOCKSTEP_CHECK(status.ok(), "the scheduler's books don't add up: {}", Message(status));
}

}  // namespace lockstep::router
