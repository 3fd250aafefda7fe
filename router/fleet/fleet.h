#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <optional>

#include "common/instant.h"
#include "common/runtime/mutex.h"
#include "router/fleet/placement.h"
#include "router/fleet/prefix_directory.h"
#include "router/fleet/replica_finder.h"
#include "router/fleet/retry_budget.h"
#include "router/fleet/seats.h"
#include "router/mailboxes/inbox.h"

namespace lockstep::router {

// All replicas of a router, with each replica's inbox, its load, the prefixes that it holds, and
// which replica has which request. Replicas come and go. Each has a seat while it is there. Finds a
// replica for a request, and brings the request and messages about it there. Safe to use from any
// thread. No call waits for a loop. A loop waits only for placements that it makes itself, for
// requests that its worker left.
class Fleet {
 public:
  // The first `num_replicas` seats are taken from the start. The number of seats is the larger of
  // the two parameters.
  explicit Fleet(const PlacementConfig& placement, uint32_t num_replicas,
                 uint32_t max_replicas = 0);

  // Number of seats that were ever taken. They are the lowest ones.
  uint32_t size() const { return seats_.size(); }
  Inbox& inbox(uint32_t replica) { return seats_.inbox(replica); }

  // --- who is there: one thread at a time ---
  // Takes the lowest vacant seat. None: all are taken.
  std::optional<uint32_t> TakeSeat();
  // No more requests come to the replica. Its loop hears that it must give up its requests.
  void Dismiss(uint32_t replica);
  // Call when its loop has ended with no request left.
  void LeaveSeat(uint32_t replica);

  // --- any thread ---
  // Sends a request to the best replica. If none is open, sends it to a replica where it may wait.
  void Submit(Submission submission);
  // Go to the replica that has the request. Do nothing if there is none.
  void Cancel(Cancellation cancellation);
  void Stop(SequenceStop stop);
  // From now on no request changes its replica.
  void Close();

  // --- the loop of `replica` ---
  using Lease = Seats::Lease;
  void SetLease(uint32_t replica, const Lease& lease) { seats_.SetLease(replica, lease); }
  // A replica that opens wakes the others that may have requests for it. Call SetLoad before.
  void SetReadiness(uint32_t replica, Readiness readiness) {
    seats_.SetReadiness(replica, readiness);
  }
  using Load = Seats::Load;
  void SetLoad(uint32_t replica, const Load& load) { seats_.SetLoad(replica, load); }
  // This many of the requests posted to the replica, with this many prompt tokens, are part of its
  // load from now on.
  void NoteTaken(uint32_t replica, uint32_t num_requests, uint64_t num_tokens) {
    seats_.NoteTaken(replica, num_requests, num_tokens);
  }
  // Returns false if some changes are left for later.
  bool TellPrefixes(uint32_t replica, PrefixChanges& changes) {
    return directory_.TryTell(replica, changes);
  }
  bool AnyOtherReady(uint32_t replica) const;
  // True if another open replica could continue the request.
  bool AnyOtherTakes(uint32_t replica, const PlacementQuery& query) const;
  // The other replica that should continue a request.
  std::optional<uint32_t> FindOther(uint32_t replica, const PlacementQuery& query) {
    return finder_.Find(query, replica);
  }
  // As FindOther. If none is open: a replica with a last worker that could continue the request.
  // There it waits for the next worker.
  std::optional<uint32_t> FindOtherOrRoom(uint32_t replica, const PlacementQuery& query);
  // Returns true if one more request may change its replica now.
  bool TakeRetry(Instant now);
  // Takes `handover`. Returns false, and leaves `handover` unchanged, if requests no longer change
  // their replica or `to` takes none.
  bool HandOver(uint32_t to, Handover& handover);
  // Call when the request has ended.
  void Forget(RequestKey request);

 private:
  // Returns false, and leaves `submission` unchanged, if the replica takes no requests.
  bool TryPost(uint32_t replica, Submission& submission);
  template <typename Post>
  void PostToOwner(RequestKey request, Post post);

  Seats seats_;  // who is there changes with routes_mutex_ held
  PrefixDirectory directory_;
  ReplicaFinder finder_;

  Mutex retries_mutex_;
  RetryBudget retries_ ABSL_GUARDED_BY(retries_mutex_);

  // Held while something is posted to a request's replica and while a request moves. So messages
  // about a request never overtake it.
  Mutex routes_mutex_;
  absl::flat_hash_map<RequestKey, uint32_t> routes_ ABSL_GUARDED_BY(routes_mutex_);
  bool closed_ ABSL_GUARDED_BY(routes_mutex_) = false;
};

}  // namespace lockstep::router
