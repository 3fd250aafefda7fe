#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "router/core/messages/events.h"
#include "router/core/policy/tenant_shares.h"
#include "router/core/requests/sequence.h"
#include "router/core/requests/worker_lease.h"

namespace lockstep::router {

// How a sequence ended.
struct Ending {
  FinishReason reason = FinishReason::kAborted;
  std::optional<TokenId> stop_token = std::nullopt;
  absl::Status error = absl::OkStatus();
};

// Owns every live request and sequence. It is the only code that moves a sequence from one state to
// another:
//
//   Gated -> Waiting                           it leads its request, or the gate opened
//   Waiting -> Running -> Waiting              suspended with nothing in flight
//              Running -> Draining -> Waiting  suspended with steps in flight
//   any -> Ended
//
// Also collects the events for clients. Decides nothing.
class Population {
 public:
  LiveRequest& Add(std::shared_ptr<const Request> request);
  LiveRequest* Find(RequestKey key);
  // Move a request between two populations. Remove takes out a request without running or draining
  // sequences. Insert puts it behind the requests that are there.
  std::unique_ptr<LiveRequest> Remove(RequestKey key);
  LiveRequest& Insert(std::unique_ptr<LiveRequest> request);

  // Waiting and draining sequences. The order has no meaning but is reproducible.
  const std::vector<Sequence*>& waiting() const { return waiting_; }
  // In order of start.
  const std::vector<Sequence*>& running() const { return running_; }
  const std::map<RequestKey, std::unique_ptr<LiveRequest>>& requests() const { return requests_; }
  const std::set<std::pair<Instant, RequestKey>>& deadlines() const { return deadlines_; }
  uint32_t num_waiting_sequences() const {
    return static_cast<uint32_t>(waiting_.size()) + num_gated_;
  }
  const TenantShares& tenants() const { return tenants_; }
  uint32_t num_waiting_requests() const { return num_waiting_requests_; }
  // Prompt tokens of waiting requests, and the part of requests that compute their whole prompt.
  uint64_t num_waiting_tokens() const { return num_waiting_tokens_; }
  uint64_t num_waiting_whole_tokens() const { return num_waiting_whole_tokens_; }
  // Known tokens of running sequences that are not computed yet, without the one token that a
  // decode computes next.
  uint64_t num_prefill_tokens() const;

  // Lets the other samples of the request start.
  void OpenGate(LiveRequest& request);
  void Start(Sequence& sequence, std::unique_ptr<Residency> residency);
  // Takes a running sequence off the worker. It keeps its tokens and will start again.
  void Suspend(Sequence& sequence, WorkerLease& lease, Instant now);
  // Call when the last step of a draining sequence was acknowledged.
  void Resume(Sequence& sequence);
  // `lease` may be null when there is no worker.
  void End(Sequence& sequence, Ending ending, WorkerLease* lease, Instant now);
  void EndAll(LiveRequest& request, const Ending& ending, WorkerLease* lease);
  // Forgets the requests that have ended since the last call. References to them stay valid until
  // this call, even after End.
  void ForgetEnded();
  // Frees every residency. Running and draining sequences wait again. Sequences that were in flight
  // in too many losses fail, and their error quotes `reason`. After that the lease may be dropped.
  void LeaveWorker(WorkerLease& lease, const absl::Status& reason, Instant now);

  template <typename Event>
  void Emit(Event event) {
    events_.emplace_back(std::in_place_type<Event>, std::move(event));
  }
  std::vector<SchedulerEvent> TakeEvents();

  absl::Status CheckIntegrity() const;

 private:
  void UpdateQueue(LiveRequest& request);
  void EnterQueue(const LiveRequest& request);
  void LeaveQueue(const LiveRequest& request);
  void LetIn(Sequence& sequence);
  std::unique_ptr<Residency> TakeOffWorker(Sequence& sequence, const WorkerLease& lease,
                                           Instant now);
  void CountLoss(Sequence& sequence, const absl::Status& reason, Instant now);

  std::map<RequestKey, std::unique_ptr<LiveRequest>> requests_;
  TenantShares tenants_;  // requests_ point into it
  std::vector<Sequence*> waiting_;
  std::vector<Sequence*> running_;
  std::set<std::pair<Instant, RequestKey>> deadlines_;  // only of requests with a finite deadline
  std::vector<RequestKey> ended_;
  std::vector<SchedulerEvent> events_;
  uint64_t next_order_ = 1;
  uint32_t num_gated_ = 0;
  uint32_t num_waiting_requests_ = 0;
  uint64_t num_waiting_tokens_ = 0;
  uint64_t num_waiting_whole_tokens_ = 0;
};

}  // namespace lockstep::router
