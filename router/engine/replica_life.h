#pragma once

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>

#include <string>
#include <utility>

#include "common/instant.h"
#include "router/engine/peers.h"
#include "router/engine/replica_state.h"

namespace lockstep::router {

// The life of a replica with its worker: attaches a worker, drains it, loses it, gives it up, and
// ends the replica when it is dismissed. Requests that lost their worker go to peers that can
// continue them, or wait for the next worker. Belongs to the replica's thread.
class ReplicaLife {
 public:
  // Both must outlive the object.
  ReplicaLife(ReplicaState& state, Peers& peers);
  ~ReplicaLife();

  // --- what the link says ---
  void OnUp(LinkUp event, Instant now);
  void OnDown(LinkDown event, Instant now);
  void OnStandby(LinkStandby event);

  // --- what the worker's results say ---
  // The worker failed. Gives up the lease and tells the link.
  void Break(const absl::Status& reason, CircuitBreaker::Loss loss, Instant now);
  // The worker will leave. Nothing new starts on it. `text`: why, for people.
  void Drain(WorkerState worker_state, std::string text, Instant now);
  // The owner of the worker is back and asks for it.
  void GiveBack(Instant now);
  // The circuit breaker changed its state.
  void TellCircuit() { TellCircuit(state_.board.worker_state()); }

  // --- time ---
  // Breaks the lease of a worker that hangs.
  void ExpireWorker(Instant now);
  // Fails requests that have waited for a worker for too long.
  void ExpireWaits(Instant now);
  // When one of the two has something to do.
  Instant NextDeadline() const;

  // --- the end of the replica ---
  // No request comes any more, and no other worker is attached.
  void StartLeaving(Instant now);
  // Gives up the worker once nothing is left to do.
  void FinishLeaving(Instant now);
  bool leaving() const { return leaving_; }
  // Nothing is left: no request and no worker.
  bool has_left() const { return leaving_ && state_.live.empty() && !state_.worker.attached(); }

  // Returns true if a worker came, went or changed its state since the last call.
  bool TakeWorkerChange() { return std::exchange(worker_changed_, false); }

 private:
  // Checks whether the worker may serve beside the others. It then counts as ready.
  absl::Status JoinAgreement(const WorkerBits& bits);
  // Fails the requests that have output, because the new worker computes other bits.
  void FailOtherBits(const WorkerBits& before, Instant now);
  void NoteAttached(const worker::v1::DescribeResponse& description, const WorkerLimits& limits);
  // There is no lease, and `reason` says why.
  void NoteUnusable(const absl::Status& reason, WorkerState worker_state);
  void Lose(const absl::Status& reason, CircuitBreaker::Loss loss, Instant now);
  // Runs `change`, and counts the requests that it ends as failed because of a lost worker.
  void CountFailed(absl::FunctionRef<void()> change, Instant now);
  Instant FailoverDeadline() const;

  void SetWorker(WorkerState worker_state, std::string text, Instant lost_at);
  // Tells the metrics and the peers the state of the worker and of its circuit breaker.
  void TellCircuit(WorkerState worker_state);

  ReplicaState& state_;
  Peers& peers_;
  RouterMetrics& metrics_;
  WorkerAgreement::Membership membership_;  // while the worker is ready
  bool leaving_ = false;
  bool worker_changed_ = false;
};

}  // namespace lockstep::router
