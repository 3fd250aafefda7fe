#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "router/core/scheduler.h"
#include "router/engine/router_metrics.h"
#include "router/mailboxes/inbox.h"

namespace lockstep::router {

// The requests of a replica's scheduler, as their clients see them. Hands the scheduler's events to
// the outboxes, measures latencies, and ends each request once. Belongs to the replica's thread.
class LiveRequests {
 public:
  // `metrics` must outlive the object. `worker`: its address, for traces.
  LiveRequests(RouterMetrics& metrics, std::string worker)
      : metrics_(metrics), worker_(std::move(worker)) {}

  void Add(Submission submission);
  // Takes on a request that another replica gave away.
  void Adopt(Delivery delivery);
  // Notes in its trace that the request came from another replica.
  void NoteMoved(RequestKey key, Instant now);
  // Call when the worker is lost. Marks every request, and notes the loss in the traces of started
  // requests.
  void NoteWorkerLost(Instant now);
  // Call when a worker is attached. Counts the marked requests, and clears the marks.
  uint32_t TakeResumed();
  // Gives a request away. It must be here. Its reader is notified of everything so far.
  Delivery Release(RequestKey key);
  // Ends a request that the scheduler never got.
  void Refuse(Submission submission, absl::Status status);
  // Sets how the request ends when its sequences have ended. Returns false if there is no such
  // request.
  bool SetCancelled(RequestKey key, CancelCause cause);

  // Takes the scheduler's events until there are none. Cancels the open sequences of a request that
  // ended.
  void Deliver(Scheduler& scheduler, Instant now);
  // Wakes the readers of everything delivered since the last call. A reader sees its admission
  // together with its first tokens, or after two step results without tokens. (Two steps are in
  // flight at a time, so the first step of the request is over by then.)
  void NotifyReaders();
  // Call for each result of a step.
  void OnResult();

  // The requests that ended or were refused since the last call.
  std::vector<RequestKey> TakeEnded() { return std::exchange(ended_, {}); }

  bool Contains(RequestKey key) const { return live_.contains(key); }
  std::vector<RequestKey> keys() const;
  size_t size() const { return live_.size(); }
  bool empty() const { return live_.empty(); }

 private:
  void DeliverOne(SchedulerEvent event, Instant now);
  void DeliverTo(Delivery& live, StartedEvent event, Instant now);
  void DeliverTo(Delivery& live, PromptLogprobsEvent event, Instant now);
  void DeliverTo(Delivery& live, TokensEvent event, Instant now);
  void DeliverTo(Delivery& live, FinishedEvent event, Instant now);
  static void DeliverTo(Delivery& live, PreemptedEvent event, Instant now);
  void ObservePhases(const Delivery& live, Instant now);
  void ObserveTokens(Delivery& live, uint32_t sample_index, size_t count, Instant now);
  // Ends a request because its output could not be kept for its reader.
  void EndUnread(Delivery& live, absl::Status reason, Instant now);
  // Destroys `live`.
  void End(Delivery& live, absl::Status status, Instant now);

  RouterMetrics& metrics_;
  const std::string worker_;
  absl::flat_hash_map<RequestKey, Delivery> live_;
  // Have news, and their readers are not notified yet.
  std::vector<std::shared_ptr<Outbox>> touched_;
  // Have no news except the admission: since the last result, and since the result before.
  std::vector<std::shared_ptr<Outbox>> started_;
  std::vector<std::shared_ptr<Outbox>> started_before_;
  std::vector<RequestKey> ended_;
  std::vector<RequestKey> to_cancel_;  // during Deliver
};

}  // namespace lockstep::router
