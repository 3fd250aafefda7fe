#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "router/core/kv/prefix_changes.h"
#include "router/core/messages/events.h"
#include "router/core/messages/request.h"
#include "router/core/messages/scheduler_config.h"
#include "router/core/messages/scheduler_stats.h"
#include "router/core/messages/step.h"
#include "router/core/messages/suspended_request.h"
#include "router/core/messages/worker_limits.h"
#include "router/core/policy/policy.h"

namespace lockstep::router {

// The whole policy of one replica as a pure state machine: no thread, socket, clock, lock or proto.
// Owns requests, sequences, block ids, the prefix index. Events come in through the methods, plans
// go out of NextStep, and what clients must hear waits in TakeEvents. Never knows who computes.
class Scheduler {
 public:
  Scheduler(SchedulerConfig config, std::unique_ptr<SchedulingPolicy> policy);
  ~Scheduler();

  // --- requests ---
  // RESOURCE_EXHAUSTED when the queue is full, or when the prompts that surely go before it would
  // take until after its deadline even at twice the speed that was measured; INVALID_ARGUMENT when
  // it can never fit the queue or the worker (its prompt the KV cache, prompt and new tokens the
  // context), DEADLINE_EXCEEDED when it comes too late. Without a worker requests are accepted and
  // wait.
  absl::Status Submit(std::shared_ptr<const Request> request, absl::Time now);
  // Ends all of a request's sequences as aborted; unknown keys are ignored.
  void Cancel(RequestKey request, absl::Time now);
  // The text layer found a stop string: the sequence ends; tokens that arrive later are dropped.
  void StopSequence(RequestKey request, uint32_t sample_index, absl::Time now);
  // Fails what is past its deadline with DEADLINE_EXCEEDED.
  void ExpireDeadlines(absl::Time now);
  absl::Time NextDeadline() const;
  // Since when the request that has waited for a worker longest does so; infinite future: none
  // does. While there is no worker, or it drains, the requests wait of which nothing runs; and each
  // has waited since no worker gets further with anything, or since it came, or last ran. A lease
  // that computes nothing new does not begin the wait anew.
  absl::Time UnservedSince() const;
  // Fails, with `reason`, those that have waited for a worker since `since` or longer. Returns
  // their number.
  uint32_t FailUnserved(absl::Time since, const absl::Status& reason, absl::Time now);

  // --- the worker ---
  // A new lease: block ids and prefix index start empty, step ids at 1. Live sequences wait and are
  // started afresh from all tokens that are held; those that cannot fit this worker fail. Replaces
  // the worker before it. INVALID_ARGUMENT, and nothing changes, when a limit makes no sense.
  absl::Status AttachWorker(const WorkerLimits& limits, absl::Time now);
  // `reason` says how the worker was lost. Whoever is in flight at each loss, gets no further in
  // between, and was alone at the last of them, fails.
  void DetachWorker(const absl::Status& reason, absl::Time now);
  bool has_worker() const;
  // The worker will leave: nothing is started on this lease any more, what runs goes on to its end,
  // and the rest waits for the next worker.
  void DrainWorker(absl::Time now);
  // The worker computes other bits than the one before it: fails, with `reason`, the requests of
  // which anything was computed. Returns their number.
  uint32_t FailWithOutput(const absl::Status& reason, absl::Time now);

  // --- other schedulers ---
  std::vector<StrandedRequest> Stranded() const;
  // Gives a stranded request away, with all its tokens, and with what its sequences have lost
  // workers over; what this one's workers refused says nothing of others. Its events must have been
  // taken. How long it has waited for a worker counts on.
  SuspendedRequest Release(RequestKey request);
  // Takes such a request on, whatever the queue's bounds: it was let in before. It fails when the
  // worker is too small for it, as in AttachWorker.
  void Adopt(SuspendedRequest suspended);
  // What the prefix index learned and forgot since somebody took it.
  PrefixChanges& prefix_changes();

  // The next step to send, if there is work, a worker, and room for one more step in flight. While
  // anything is live and nothing is in flight, there is work, unless the worker drains. Slots that
  // were given up are work as well, a little later: the worker is told even when nothing is left to
  // run.
  std::optional<StepPlan> NextStep(absl::Time now);
  // When NextStep is to be asked again although nothing happens before.
  absl::Time NextStepAt() const;
  // Results come in step order. INTERNAL when the outcome contradicts the recorded plan: nothing of
  // it is applied, no step is planned any more, and the caller must drop the lease (DetachWorker).
  absl::Status Apply(StepOutcome outcome, absl::Time now);

  // To how many requests the failed rows of this outcome belong, which is that of the oldest step
  // in flight and is not applied yet. Rows whose sequences have ended are left out.
  uint32_t CountFailedRequests(const StepOutcome& outcome) const;

  std::vector<SchedulerEvent> TakeEvents();
  SchedulerStats Stats() const;
  bool Idle() const;  // nothing waiting, running or in flight
  // Pool, index and tables add up; the first violation found. O(everything).
  absl::Status CheckIntegrity() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::router
