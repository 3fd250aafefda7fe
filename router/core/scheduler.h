#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/instant.h"
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
  // RESOURCE_EXHAUSTED: the queue is full, or the prompts that surely go first would take until
  // after the deadline, even at twice the measured speed. INVALID_ARGUMENT: it can never fit the
  // queue or the worker (the prompt must fit the KV cache; prompt and new tokens must fit the
  // context). DEADLINE_EXCEEDED: it comes too late. Without a worker, requests are accepted and
  // wait.
  absl::Status Submit(std::shared_ptr<const Request> request, Instant now);
  // Ends all of a request's sequences as aborted; unknown keys are ignored.
  void Cancel(RequestKey request, Instant now);
  // The text layer found a stop string: the sequence ends; tokens that arrive later are dropped.
  void StopSequence(RequestKey request, uint32_t sample_index, Instant now);
  // Fails what is past its deadline with DEADLINE_EXCEEDED.
  void ExpireDeadlines(Instant now);
  Instant NextDeadline() const;
  // Start of the longest wait among requests that no worker serves; infinite future: there is none.
  // A request waits for a worker while there is none, or it drains, and nothing of the request
  // runs. Its wait starts when workers stopped making progress, when it arrived, or when it last
  // ran, whichever is latest. A lease that computes nothing new does not restart the wait.
  Instant UnservedSince() const;
  // Fails, with `reason`, those that have waited for a worker since `since` or longer. Returns
  // their number.
  uint32_t FailUnserved(Instant since, const absl::Status& reason, Instant now);

  // --- the worker ---
  // A new lease, in place of the one before. Block ids and prefix index start empty, step ids at 1.
  // Live sequences wait, and start afresh from all the tokens that are held. Sequences that cannot
  // fit this worker fail. INVALID_ARGUMENT, and nothing changes, when a limit makes no sense.
  absl::Status AttachWorker(const WorkerLimits& limits, Instant now);
  // `reason` says how the worker was lost. A sequence fails after four losses without progress, of
  // which it was alone in flight at the last two.
  void DetachWorker(const absl::Status& reason, Instant now);
  bool has_worker() const;
  // The worker will leave. Nothing starts on this lease any more, running sequences go on to their
  // end, and the rest waits for the next worker.
  void DrainWorker(Instant now);
  // The worker computes other bits than the one before it. Fails, with `reason`, the requests that
  // have output. Returns their number.
  uint32_t FailWithOutput(const absl::Status& reason, Instant now);

  // --- other schedulers ---
  std::vector<StrandedRequest> Stranded() const;
  // Gives a stranded request away. It takes along its tokens, the worker losses of its sequences,
  // and how long it has waited; not what this scheduler's workers refused, which says nothing about
  // others. Its events must have been taken.
  SuspendedRequest Release(RequestKey request);
  // Takes such a request on. The queue's bounds do not count, because it was admitted before. It
  // fails when the worker is too small for it, as in AttachWorker.
  void Adopt(SuspendedRequest suspended);
  // What the prefix index learned and forgot since somebody took it.
  PrefixChanges& prefix_changes();

  // The next step to send, if there is work, a worker, and room for one more step in flight. There
  // is always work while something is live and nothing is in flight, unless the worker drains. If
  // slots were freed and nothing runs, an empty step releases them a little later.
  std::optional<StepPlan> NextStep(Instant now);
  // When NextStep is to be asked again although nothing happens before.
  Instant NextStepAt() const;
  // Results come in step order. INTERNAL when the outcome contradicts the recorded plan: nothing of
  // it is applied, no step is planned any more, and the caller must drop the lease (DetachWorker).
  absl::Status Apply(StepOutcome outcome, Instant now);

  // The number of requests with failed rows in this outcome, without those whose sequences have
  // ended. The outcome is that of the oldest step in flight, and is not applied yet.
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
