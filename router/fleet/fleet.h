#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/time/time.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/instant.h"
#include "common/runtime/mutex.h"
#include "router/fleet/placement.h"
#include "router/fleet/prefix_directory.h"
#include "router/fleet/retry_budget.h"
#include "router/mailboxes/inbox.h"
#include "router/workers/worker_contract.h"

namespace lockstep::router {

// What a replica's loop tells the other replicas about its worker. kStandby: it belongs to another
// router. kAway: there is no worker. kDraining: it starts nothing any more. kTrial: it has yet to
// prove itself, so it takes one request at a time, and more only if no other replica could. kReady:
// it takes requests. From kTrial on, the replica is open.
enum class Readiness { kStandby, kAway, kDraining, kTrial, kReady };

// What a request needs from a replica.
struct PlacementQuery {
  const Request* request = nullptr;
  std::span<const TokenId> known_tokens;
  std::optional<WorkerBits> bits = {};  // the worker must compute these; none: any
  bool suspect = false;
  // How many of the known tokens a cached prefix may cover at most. The last token is always
  // computed.
  uint32_t max_cached_tokens = std::numeric_limits<uint32_t>::max();

  static PlacementQuery ForNew(const Request& request);
};

// All replicas of a router, and what they know about each other: each replica's inbox, its load,
// the prefixes that it holds, and which replica has which request. Replicas come and go. Each has a
// seat while it is there. Finds a replica for a request, and brings the request and messages about
// it there. Safe to use from any thread. No call waits for a loop. A loop waits only for placements
// that it makes itself, for requests that its worker left.
class Fleet {
 public:
  // The first `num_replicas` seats are taken from the start. The number of seats is the larger of
  // the two parameters.
  explicit Fleet(const PlacementConfig& placement, uint32_t num_replicas,
                 uint32_t max_replicas = 0);

  // Number of seats that were ever taken. They are the lowest ones.
  uint32_t size() const { return size_.load(); }
  Inbox& inbox(uint32_t replica) { return seats_[replica]->inbox; }

  // --- who is there: one thread at a time ---
  // Takes the lowest vacant seat. None: all are taken.
  std::optional<uint32_t> TakeSeat();
  // No more requests come to the replica. Its loop is told to give up those that it has.
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
  struct Lease {
    WorkerBits bits;
    WorkerLimits limits;
  };
  void SetLease(uint32_t replica, const Lease& lease);
  // A replica that opens wakes the others that may have requests for it. Call SetLoad before.
  void SetReadiness(uint32_t replica, Readiness readiness);
  struct Load {
    uint64_t queued_tokens = 0;
    uint32_t num_sequences = 0;
    uint32_t available_blocks = 0;
    uint32_t free_blocks = 0;
  };
  void SetLoad(uint32_t replica, const Load& load);
  // This many of the requests posted to the replica, with this many prompt tokens, are part of its
  // load from now on.
  void NoteTaken(uint32_t replica, uint32_t num_requests, uint64_t num_tokens);
  // Returns false if some changes are left for later.
  bool TellPrefixes(uint32_t replica, PrefixChanges& changes) {
    return directory_.TryTell(replica, changes);
  }
  bool AnyOtherReady(uint32_t replica) const;
  // True if another open replica could continue the request.
  bool AnyOtherTakes(uint32_t replica, const PlacementQuery& query);
  // The other replica that should continue a request.
  std::optional<uint32_t> FindOther(uint32_t replica, const PlacementQuery& query);
  // As FindOther. If none is open, a replica whose last worker could continue the request, which
  // waits there for the next worker.
  std::optional<uint32_t> FindOtherOrRoom(uint32_t replica, const PlacementQuery& query);
  // Returns true if one more request may change its replica now.
  bool TakeRetry(Instant now);
  // Takes `handover`. Returns false, and leaves `handover` unchanged, if requests no longer change
  // their replica or `to` takes none.
  bool HandOver(uint32_t to, Handover& handover);
  // Call when the request has ended.
  void Forget(RequestKey request);

 private:
  enum class Occupancy { kVacant, kTaken, kLeaving };
  struct Seat {
    Inbox inbox;
    std::atomic<Occupancy> occupancy = Occupancy::kVacant;  // written with routes_mutex_ held
    std::atomic<Readiness> readiness = Readiness::kAway;
    std::atomic<uint64_t> closed_order = 0;  // higher: lost its worker later; 0: never had one
    // Posted requests that are not yet part of the load that the loop reported.
    std::atomic<uint32_t> num_underway = 0;
    std::atomic<uint64_t> underway_tokens = 0;
    std::atomic<uint64_t> queued_tokens = 0;
    std::atomic<uint32_t> num_sequences = 0;
    std::atomic<uint32_t> available_blocks = 0;
    std::atomic<uint32_t> free_blocks = 0;
    Mutex mutex;
    std::optional<Lease> lease ABSL_GUARDED_BY(mutex);  // current or last; none: no worker yet
  };

  // kAway if the replica is not there or is leaving.
  Readiness ReadinessOf(uint32_t replica) const;
  // The current or last lease of `replica`, if it could serve the request.
  std::optional<Lease> MatchLease(uint32_t replica, const PlacementQuery& query) const;
  std::optional<uint32_t> Find(const PlacementQuery& query, std::optional<uint32_t> except);
  ReplicaLoad LoadOf(uint32_t replica, uint32_t block_size_tokens) const;
  std::optional<uint32_t> FindRoom(const PlacementQuery& query,
                                   std::optional<uint32_t> except) const;
  std::optional<uint32_t> FindRoomForNew(const PlacementQuery& query) const;
  void FillCachedTokens(const PlacementQuery& query, std::span<ReplicaLoad> replicas) const;
  void NoteUnderway(uint32_t replica, uint64_t num_tokens);
  // Returns false, and leaves `submission` unchanged, if the replica takes no requests.
  bool TryPost(uint32_t replica, Submission& submission);
  template <typename Post>
  void PostToOwner(RequestKey request, Post post);

  const PlacementConfig config_;
  std::vector<std::unique_ptr<Seat>> seats_;
  std::atomic<uint32_t> size_;
  PrefixDirectory directory_;
  std::atomic<uint64_t> num_closings_ = 0;

  Mutex placement_mutex_;
  Placement placement_ ABSL_GUARDED_BY(placement_mutex_);
  RetryBudget retries_ ABSL_GUARDED_BY(placement_mutex_);

  // Held while something is posted to a request's replica and while a request moves. So messages
  // about a request never overtake it.
  Mutex routes_mutex_;
  absl::flat_hash_map<RequestKey, uint32_t> routes_ ABSL_GUARDED_BY(routes_mutex_);
  bool closed_ ABSL_GUARDED_BY(routes_mutex_) = false;
};

// True if a worker with these limits can hold the whole request.
bool FitsWorker(const PlacementQuery& query, const WorkerLimits& limits);

}  // namespace lockstep::router
