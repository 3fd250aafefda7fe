#include "router/engine/replica_status.h"

#include "common/status.h"

namespace lockstep::router {

StatusBoard::StatusBoard(std::string worker, const Clock* clock, absl::Duration no_worker_grace)
    : clock_(*clock), no_worker_grace_(no_worker_grace) {
  status_.worker = std::move(worker);
}

ReplicaStatus StatusBoard::status() const {
  MutexLock lock(mutex_);
  return status_;
}

WorkerState StatusBoard::worker_state() const {
  MutexLock lock(mutex_);
  return status_.worker_state;
}

bool StatusBoard::gone() const {
  MutexLock lock(mutex_);
  return status_.gone;
}

absl::Status StatusBoard::CheckWorker() const {
  const Instant now = clock_.Now();
  MutexLock lock(mutex_);
  if (status_.worker_state == WorkerState::kReady ||
      status_.worker_state == WorkerState::kDraining) {
    return absl::OkStatus();
  }
  if (status_.worker_state == WorkerState::kStandby) {
    return Unavailable("the worker is left to another router: {}", status_.worker_text);
  }
  if (now - status_.lost_at < no_worker_grace_) return absl::OkStatus();
  return Unavailable("no worker is attached: {}", status_.worker_text);
}

void StatusBoard::SetWorker(WorkerState state, std::string text, Instant lost_at) {
  MutexLock lock(mutex_);
  status_.worker_state = state;
  status_.worker_text = std::move(text);
  status_.lost_at = lost_at;
}

void StatusBoard::SetDescription(worker::v1::DescribeResponse description) {
  MutexLock lock(mutex_);
  status_.description = std::move(description);
}

void StatusBoard::SetGone() {
  MutexLock lock(mutex_);
  status_.gone = true;
}

StatusBoard::Counts StatusBoard::Exchange(const Counts& counts) {
  MutexLock lock(mutex_);
  return {.scheduler = std::exchange(status_.scheduler, counts.scheduler),
          .live_requests = std::exchange(status_.live_requests, counts.live_requests)};
}

}  // namespace lockstep::router
