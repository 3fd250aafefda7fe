#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/instant.h"
#include "common/runtime/clock.h"
#include "router/core/scheduler.h"
#include "router/engine/live_requests.h"
#include "router/engine/peers.h"
#include "router/engine/replica_status.h"
#include "router/engine/replica_worker.h"
#include "router/engine/router_metrics.h"
#include "router/fleet/fleet.h"
#include "router/mailboxes/inbox.h"
#include "router/workers/step_link.h"
#include "router/workers/worker_agreement.h"

namespace lockstep::router {

struct ReplicaConfig {
  SchedulerConfig scheduler = {.target_step_time = kServingStepTime};
  // Without a result, or still there after it drained, for so long: a hung worker.
  absl::Duration step_timeout = absl::Seconds(60);
  // Requests outlive a worker that is lost, or wait behind one that drains, this long.
  absl::Duration failover_wait = absl::Seconds(30);
  absl::Duration no_worker_grace = absl::Seconds(2);  // then new requests are refused at once

  absl::Status Validate() const;  // every violation at once
};

// All that a replica's loop does, without the thread: applies what came in, sends steps to the
// worker, and writes outputs to the requests' outboxes. Owns the scheduler and the lease on the
// worker. Knows nothing of connections: a lease is an epoch that comes and goes. Requests that lost
// their worker go to another replica that can go on with them, or wait here for the next worker. A
// replica that is dismissed lets what runs end, gives the rest away, and then its worker. Process
// and NextWakeup belong to one thread; board() to any.
class Replica {
 public:
  // Everything passed by pointer must outlive the object.
  struct Context {
    const Clock* clock;
    StepLink* link;
    RouterMetrics* metrics;
    std::string worker;      // its address, for metrics and people
    Fleet* fleet = nullptr;  // the other replicas; null: there are none
    uint32_t index = 0;      // in the fleet
    // Of all replicas; null: any worker will do.
    WorkerAgreement* agreement = nullptr;
    // kOther: the link stands in for the router that the worker belongs to.
    WorkerOwner owner = WorkerOwner::kSelf;
  };
  Replica(ReplicaConfig config, std::unique_ptr<SchedulingPolicy> policy, Context context);
  ~Replica();

  void Process(InboxBatch batch);
  // When Process has something to do even if nothing comes in.
  Instant NextWakeup() const;
  // Ends the process if the books don't add up. Process does so now and then, when it is idle.
  void CheckIntegrity() const;

  // What other threads may ask.
  const StatusBoard& board() const { return board_; }
  // Whether a worker came, went or changed its mind since the last call; of Process's thread.
  bool TakeWorkerChange() { return std::exchange(worker_changed_, false); }

 private:
  void HandleLinkEvent(LinkUp event, Instant now);
  void HandleLinkEvent(LinkResult event, Instant now);
  void HandleLinkEvent(LinkDown event, Instant now);
  void HandleLinkEvent(LinkStandby event, Instant now);
  // Whether the worker may serve beside the others; it is ready from then on.
  absl::Status JoinAgreement(const WorkerBits& bits);
  // Requests that outlived a worker resume on one that computes the same bits. On another worker
  // those with output fail.
  void FailOtherBits(const WorkerBits& before, Instant now);
  StepVerdict VerdictOf(const StepOutcome& outcome) const;
  void NoteDraining(WorkerState state, std::string text, Instant now);
  void NoteUnusable(const absl::Status& reason, WorkerState state);
  void LoseWorker(const absl::Status& reason, CircuitBreaker::Loss loss, Instant now);
  void BreakLease(const absl::Status& reason, CircuitBreaker::Loss loss, Instant now);
  // Lets `change` do something to the scheduler that may end requests because a worker was lost.
  template <typename Change>
  void CountFailed(Change change, Instant now);
  void SendSteps(Instant now);
  void ExpireWorker(Instant now);
  void ExpireWaits(Instant now);
  // When the next request has waited for a worker for too long.
  Instant FailoverDeadline() const { return scheduler_.UnservedSince() + config_.failover_wait; }

  void Accept(Submission submission, Instant now);
  void Stop(const SequenceStop& stop, Instant now);
  void Cancel(const Cancellation& cancellation, Instant now);
  void CancelAll(Instant now);

  void StartLeaving(Instant now);
  // The worker is given up once nothing is left to do here.
  void FinishLeaving(Instant now);

  void PublishStats();
  void SetWorker(WorkerState state, std::string text, Instant lost_at);
  // Tells the metrics and the other replicas what follows from the worker's state and the breaker.
  void TellCircuit(WorkerState state);
  void CheckIntegrityWhenIdle(Instant now);

  const ReplicaConfig config_;
  const Context context_;
  RouterMetrics& metrics_;
  const WorkerSeries worker_series_;
  Scheduler scheduler_;
  LiveRequests live_;
  ReplicaWorker worker_;
  WorkerAgreement::Membership membership_;  // while the worker is ready
  Peers peers_;

  bool shutting_down_ = false;  // everything was cancelled: nothing is taken on any more
  bool leaving_ = false;        // nothing comes any more, and no other worker is taken
  bool worker_changed_ = false;
  bool was_idle_ = true;
  Instant integrity_checked_at_ = Instant::InfinitePast();
  Instant check_integrity_at_ = Instant::InfiniteFuture();
  StatusBoard board_;
};

}  // namespace lockstep::router
