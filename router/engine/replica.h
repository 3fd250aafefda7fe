#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/instant.h"
#include "common/runtime/clock.h"
#include "common/runtime/mutex.h"
#include "router/core/scheduler.h"
#include "router/engine/live_requests.h"
#include "router/engine/router_metrics.h"
#include "router/fleet/fleet.h"
#include "router/mailboxes/inbox.h"
#include "router/workers/circuit_breaker.h"
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

// What other threads may know of a replica.
struct ReplicaStatus {
  std::string worker;  // its address
  WorkerState worker_state = WorkerState::kConnecting;
  std::string worker_text = "no worker has been reached yet";  // one line for people
  Instant lost_at = Instant::InfinitePast();                   // while there is no worker
  worker::v1::DescribeResponse description;                    // of the worker attached now or last
  SchedulerStats scheduler;
  uint32_t live_requests = 0;
  bool gone = false;  // it was retired, and holds nothing any more
};

// All that a replica's loop does, without the thread: applies what came in, sends steps to the
// worker, and writes outputs to the requests' outboxes. Owns the scheduler and the record of steps
// in flight. Knows nothing of connections: a lease is an epoch that comes and goes. Requests that
// lost their worker go to another replica that can go on with them, or wait here for one. A replica
// that is retired lets what runs end, gives the rest away, and then its worker. Process and
// NextWakeup belong to one thread; status() may be called from any.
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
  };
  Replica(ReplicaConfig config, std::unique_ptr<SchedulingPolicy> policy, Context context);

  void Process(InboxBatch batch);
  // When Process has something to do even if nothing comes in.
  Instant NextWakeup() const;
  // Ends the process if the books don't add up. Process does so now and then, when it is idle.
  void CheckIntegrity() const;

  ReplicaStatus status() const;
  WorkerState worker_state() const;
  bool gone() const;
  // Whether a worker came, went or changed its mind since the last call; of Process's thread.
  bool TakeWorkerChange() { return std::exchange(worker_changed_, false); }
  // OK when a new request has a worker or may soon have one again (one that drains is about to be
  // replaced); else UNAVAILABLE saying why.
  absl::Status CheckWorker() const;

 private:
  struct StepInFlight {
    StepPlan plan;
    Instant sent_at;
    absl::Duration router_time;  // spent by this thread on the step so far
  };
  // Of a result: whether the worker did what it was told.
  struct ResultVerdict {
    bool refused = false;
    uint32_t num_failed_rows = 0;
    uint32_t num_failed_requests = 0;  // that these rows belong to; at least 1 if there are any
    absl::Status last_failure;         // of these
    uint32_t num_inert_rows = 0;
  };
  struct Arrivals {
    uint32_t num_requests = 0;
    uint64_t num_prompt_tokens = 0;
  };

  void HandleLinkEvent(LinkUp event, Instant now);
  void HandleLinkEvent(LinkResult event, Instant now);
  void HandleLinkEvent(LinkDown event, Instant now);
  // Whether the worker may serve beside the others; it is ready from then on.
  absl::Status JoinAgreement(const WorkerBits& bits);
  // Requests that outlived a worker resume on one that computes what it would have; otherwise those
  // that have output fail.
  void CompareBits(const worker::v1::DescribeResponse& description, Instant now);
  ResultVerdict VerdictOf(const StepOutcome& outcome) const;
  // What results say of the worker. False: it was given up.
  bool JudgeRefusal(const StepPlan& plan, const absl::Status& refusal, Instant now);
  bool JudgeRows(const StepPlan& plan, const ResultVerdict& verdict, Instant now);
  bool IsGivenUpAfter(uint32_t num_faults, const absl::Status& last, Instant now);
  void NoteDraining(std::string text, Instant now);
  void LoseWorker(const absl::Status& reason, CircuitBreaker::Loss loss, Instant now);
  // What it says of the worker that its lease ends now without our doing.
  CircuitBreaker::Loss LossNow() const;
  void NoteUnusable(const absl::Status& reason, WorkerState state);
  void BreakLease(const absl::Status& reason, CircuitBreaker::Loss loss, Instant now);
  // Lets `change` do something to the scheduler that may end requests because a worker was lost.
  template <typename Change>
  void CountFailed(Change change, Instant now);
  void Accept(Submission submission, Instant now);
  void Stop(const SequenceStop& stop, Instant now);
  void Cancel(const Cancellation& cancellation, Instant now);
  void CancelAll(Instant now);
  void ExpireWorker(Instant now);
  void ExpireWaits(Instant now);
  // When the worker has kept us waiting for too long: for the oldest step in flight, or for the end
  // of a lease on which nothing runs any more. Never while we wait for nothing.
  Instant WorkerDeadline() const;
  // When the next request has waited for a worker for too long.
  Instant FailoverDeadline() const { return scheduler_.UnservedSince() + config_.failover_wait; }
  void SendSteps(Instant now);

  void DeliverEvents(Instant now);

  // --- the other replicas (replica_fleet.cc) ---
  bool HasPeers() const { return context_.fleet != nullptr; }
  bool OthersTake(const Request& request) const;
  PlacementQuery QueryOf(const StrandedRequest& stranded) const;
  void TakeOver(Handover handover);
  // To where it can be taken on; false, and it is as it was, if that is nowhere.
  bool PassOn(Handover& handover);
  void MoveStranded(Instant now);
  // What a worker of these limits and bits could not go on with, before it is attached.
  void MoveUnfit(const WorkerLimits& limits, const WorkerBits& bits, Instant now);
  bool MoveTo(uint32_t to, const StrandedRequest& stranded);
  void StartRetirement(Instant now);
  // The worker is given up once nothing is left to do here.
  void EndRetirement(Instant now);
  void TellLoad();
  void TellFleet(const Arrivals& arrivals, Instant now);

  void PublishStats();
  void SetWorker(WorkerState state, std::string text, Instant lost_at);
  // To the other replicas and to the metrics: what follows from the worker's state and the breaker.
  void TellCircuit(WorkerState state);
  void CheckIntegrityWhenIdle(Instant now);

  const ReplicaConfig config_;
  const Context context_;
  RouterMetrics& metrics_;
  const WorkerSeries worker_series_;
  Scheduler scheduler_;
  LiveRequests live_;

  uint64_t epoch_ = 0;  // of the lease; 0: none
  uint64_t incarnation_ = 0;
  std::optional<WorkerBits> bits_;  // of the lease now or last
  WorkerLimits limits_;             // likewise
  CircuitBreaker breaker_;
  // Up to this step of the lease the worker refuses what was sent before it had refused one.
  StepId doomed_until_ = 0;
  // While the worker is ready.
  WorkerAgreement::Membership membership_;
  bool worker_draining_ = false;  // the lease's worker is about to leave
  bool shutting_down_ = false;    // everything was cancelled: nothing is taken on any more
  bool retiring_ = false;         // nothing comes any more, and no other worker is taken
  std::deque<StepInFlight> in_flight_;
  Instant last_result_at_ = Instant::InfinitePast();
  Instant lost_at_ = Instant::InfinitePast();
  absl::Status lost_reason_;
  bool worker_changed_ = false;
  bool was_idle_ = true;
  Instant tell_fleet_at_ = Instant::InfiniteFuture();  // there are prefixes left to tell
  Instant retry_at_ = Instant::InfiniteFuture();       // there are requests left to move
  Instant integrity_checked_at_ = Instant::InfinitePast();
  Instant check_integrity_at_ = Instant::InfiniteFuture();

  mutable Mutex mutex_;
  ReplicaStatus status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
