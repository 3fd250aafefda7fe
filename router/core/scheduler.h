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
// Owns requests, sequences, block ids and the prefix index. Events come in through the methods,
// plans come out of NextStep, and events for clients wait in TakeEvents. Never knows what kind of
// worker computes the steps.
class Scheduler {
 public:
  Scheduler(SchedulerConfig config, std::unique_ptr<SchedulingPolicy> policy);
  ~Scheduler();

  // --- requests ---
  // RESOURCE_EXHAUSTED: the queue is full, or the prompts that certainly go first would take longer
  // than the deadline allows, even at twice the measured speed. INVALID_ARGUMENT: the request can
  // never fit the queue or the worker (the prompt must fit the KV cache; prompt and new tokens must
  // fit the context). DEADLINE_EXCEEDED: the deadline has already passed. Without a worker,
  // requests are accepted and wait.
  absl::Status Submit(std::shared_ptr<const Request> request, Instant now);
  // Ends all sequences of a request as aborted. Unknown keys are ignored.
  void Cancel(RequestKey request, Instant now);
  // The text layer found a stop string. The sequence ends, and tokens that arrive later are
  // dropped.
  void StopSequence(RequestKey request, uint32_t sample_index, Instant now);
  // Fails requests that are past their deadline with DEADLINE_EXCEEDED.
  void ExpireDeadlines(Instant now);
  Instant NextDeadline() const;
  // Start of the longest wait among requests that no worker serves. Infinite future: there is none.
  // A request waits for a worker if none of its sequences runs, and there is no worker or it
  // drains. Its wait starts at the latest of three times: when workers stopped making progress,
  // when it arrived, and when it last ran. A lease that computes nothing new does not restart the
  // wait.
  Instant UnservedSince() const;
  // Fails the requests that have waited for a worker since `since` or longer, with `reason`.
  // Returns their number.
  uint32_t FailUnserved(Instant since, const absl::Status& reason, Instant now);

  // --- the worker ---
  // A new lease replaces the previous one. The blocks and the prefix index start empty, step ids
  // start at 1. Live sequences wait, and start again from all their tokens. Sequences that cannot
  // fit this worker fail. INVALID_ARGUMENT if a limit makes no sense; nothing changes then.
  absl::Status AttachWorker(const WorkerLimits& limits, Instant now);
  // `reason` says how the worker was lost. A sequence fails after four losses without progress, the
  // last two while it ran alone.
  void DetachWorker(const absl::Status& reason, Instant now);
  bool has_worker() const;
  // The worker will leave. Nothing starts on this lease any more. Running sequences continue to
  // their end, and the rest waits for the next worker.
  void DrainWorker(Instant now);
  // The worker computes other bits than the previous one. Fails the requests that have output, with
  // `reason`. Returns their number.
  uint32_t FailWithOutput(const absl::Status& reason, Instant now);

  // --- other schedulers ---
  std::vector<StrandedRequest> Stranded() const;
  // Gives a stranded request away, with its tokens, the worker losses of its sequences, and how
  // long it has waited. What this scheduler's workers refused is forgotten, because it says nothing
  // about other workers. The request's events must have been taken before.
  SuspendedRequest Release(RequestKey request);
  // Takes on a request that another scheduler gave away. The queue's bounds do not apply, because
  // the request was admitted before. It fails if the worker is too small for it, as in
  // AttachWorker.
  void Adopt(SuspendedRequest suspended);
  // What the prefix index learned and forgot since the changes were last taken.
  PrefixChanges& prefix_changes();

  // The next step to send, if there is work, a worker, and room for one more step in flight. There
  // is always work while something is live and nothing is in flight, unless the worker drains. If
  // slots were freed and nothing runs, an empty step releases them a little later.
  std::optional<StepPlan> NextStep(Instant now);
  // When to call NextStep again even if nothing happens before.
  Instant NextStepAt() const;
  // Results must come in step order. INTERNAL if the outcome contradicts the recorded plan. Then
  // nothing of it is applied, no more steps are planned, and the caller must drop the lease
  // (DetachWorker).
  absl::Status Apply(StepOutcome outcome, Instant now);

  // The number of requests with failed rows in this outcome. Sequences that have ended do not
  // count. The outcome must belong to the oldest step in flight and must not be applied yet.
  uint32_t CountFailedRequests(const StepOutcome& outcome) const;

  std::vector<SchedulerEvent> TakeEvents();
  SchedulerStats Stats() const;
  bool Idle() const;  // nothing waiting, running or in flight
  // Checks that pool, index and tables add up. Returns the first violation. O(everything).
  absl::Status CheckIntegrity() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::router
