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

// The requests that a replica's scheduler knows, as their clients see them: hands the scheduler's
// events to the outboxes, measures latencies, and gives each request its one end. Lives on the
// loop's thread.
class LiveRequests {
 public:
  // `metrics` must outlive the object. `worker`: its address, for traces.
  LiveRequests(RouterMetrics& metrics, std::string worker)
      : metrics_(metrics), worker_(std::move(worker)) {}

  void Add(Submission submission);
  // A request that another replica began to serve, and one that goes on elsewhere (it must be
  // there). The reader has been told of everything by then: whoever goes on with it tells the
  // rest.
  void Adopt(Delivery delivery);
  // Of requests that came from another replica, in their traces.
  void NoteMoved(RequestKey key, Instant now);
  // Call when the worker is lost. Marks every request. The traces of started requests tell of it.
  void NoteWorkerLost(Instant now);
  // A worker is there: counts the marked requests, and clears the marks.
  uint32_t TakeResumed();
  Delivery Release(RequestKey key);
  // A request that the scheduler never got.
  void Refuse(Submission submission, absl::Status status);
  // How the request ends once its sequences have; false when there is none of that key.
  bool SetCancelled(RequestKey key, CancelCause cause);

  // Takes the scheduler's events, until it has none. Cancels what is left of a request that ended.
  void Deliver(Scheduler& scheduler, Instant now);
  // Wakes the readers of everything delivered since the last call. That its request was admitted a
  // reader is told with what comes next for it, or after two calls of OnResult: two steps are on
  // the way at a time, so its first one is over by then, and a first token that came of it needs no
  // message before it.
  void NotifyReaders();
  void OnResult();

  // The requests that ended, refused ones included, since the last call.
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
  // Its output could not be kept for its reader.
  void EndUnread(Delivery& live, absl::Status reason, Instant now);
  // `live` is gone afterwards.
  void End(Delivery& live, absl::Status status, Instant now);

  RouterMetrics& metrics_;
  const std::string worker_;
  absl::flat_hash_map<RequestKey, Delivery> live_;
  // Have news that their readers were not told of.
  std::vector<std::shared_ptr<Outbox>> touched_;
  // No other news, as far as is known: since the last result, and since the one before.
  std::vector<std::shared_ptr<Outbox>> started_;
  std::vector<std::shared_ptr<Outbox>> started_before_;
  std::vector<RequestKey> ended_;
  std::vector<RequestKey> to_cancel_;  // during Deliver
};

}  // namespace lockstep::router
