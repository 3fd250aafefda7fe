#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "common/instant.h"
#include "router/core/scheduler.h"
#include "router/engine/peers.h"
#include "router/engine/replica_life.h"
#include "router/engine/replica_state.h"
#include "router/engine/replica_status.h"
#include "router/mailboxes/inbox.h"

namespace lockstep::router {

// Everything that the loop of a replica does, without the thread. Applies messages, sends steps to
// the worker, and writes outputs to the outboxes of the requests. Owns the scheduler and the lease
// on the worker. Knows nothing of connections: a lease is an epoch that comes and goes. Process and
// NextWakeup belong to one thread; any thread may read board().
class Replica {
 public:
  Replica(ReplicaConfig config, std::unique_ptr<SchedulingPolicy> policy, ReplicaPlace place);
  ~Replica();

  void Process(InboxBatch batch);
  // When to call Process again even if nothing comes in.
  Instant NextWakeup() const;
  // Ends the process if the books don't add up. Process calls this now and then, while it is idle.
  void CheckIntegrity() const;

  const StatusBoard& board() const { return state_.board; }
  // Returns true if a worker came, went or changed its state since the last call. Belongs to the
  // thread of Process.
  bool TakeWorkerChange() { return life_.TakeWorkerChange(); }

 private:
  // Requests that came in during one call of Process.
  struct NewWork {
    uint32_t num_requests = 0;
    uint64_t num_tokens = 0;  // of their prompts
  };

  NewWork TakeRequests(InboxBatch& batch, Instant now);
  void Accept(Submission submission, Instant now);
  void Stop(const SequenceStop& stop, Instant now);
  void Cancel(const Cancellation& cancellation, Instant now);
  void CancelAll(Instant now);

  void HandleLinkEvent(LinkUp event, Instant now) { life_.OnUp(std::move(event), now); }
  void HandleLinkEvent(LinkDown event, Instant now) { life_.OnDown(std::move(event), now); }
  void HandleLinkEvent(LinkStandby event, Instant /*now*/) { life_.OnStandby(std::move(event)); }
  void HandleLinkEvent(LinkResult event, Instant now);
  // If `status` is an error, the worker must be given up. `loss` tells the circuit breaker why.
  struct Fault {
    absl::Status status;
    CircuitBreaker::Loss loss = CircuitBreaker::Loss::kFailure;
  };
  Fault ApplyResult(const worker::v1::StepResult& result, const StepInFlight& step, Instant now);
  StepVerdict VerdictOf(const StepOutcome& outcome) const;
  void SendSteps(Instant now);

  void PublishStats();
  void CheckIntegrityWhenIdle(Instant now);

  ReplicaState state_;
  Peers peers_;
  ReplicaLife life_;
  RouterMetrics& metrics_;

  bool shutting_down_ = false;  // every request was cancelled, and none is accepted any more
  bool was_idle_ = true;
  Instant integrity_checked_at_ = Instant::InfinitePast();
  Instant check_integrity_at_ = Instant::InfiniteFuture();
};

}  // namespace lockstep::router
