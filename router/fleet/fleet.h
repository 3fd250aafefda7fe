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

// What a replica's loop tells the others of its worker: there is none, it starts nothing any more,
// it takes on one request at a time (more only where nobody else could) because it has yet to
// prove itself, or it takes on requests.
enum class Openness { kClosed, kDraining, kTrial, kOpen };

// What a placement is to be found for.
struct PlacementQuery {
  const Request* request = nullptr;
  std::span<const TokenId> known_tokens;
  std::optional<WorkerBits> bits = {};  // that the worker must compute; none: any
  bool suspect = false;
  // Of the known tokens, those that a cached prefix may save at most; never the last one, which is
  // always computed.
  uint32_t max_cached_tokens = std::numeric_limits<uint32_t>::max();

  static PlacementQuery ForNew(const Request& request);
};

// All replicas of a router, and what they know of each other: the inbox of each, its load, the
// prefixes that it holds, and which request is where. Replicas come and go; each has a seat while
// it is there. Finds a replica for a request and brings requests, and what is said of them, to it.
// Safe to use from any thread; no call waits for a loop, and a loop waits for no placement but
// those it makes itself, of what its worker left.
class Fleet {
 public:
  // The seats below `num_replicas` are taken from the beginning; there are at least so many.
  explicit Fleet(const PlacementConfig& placement, uint32_t num_replicas,
                 uint32_t max_replicas = 0);

  // Seats that were ever taken: the lowest ones.
  uint32_t size() const { return size_.load(); }
  Inbox& inbox(uint32_t replica) { return seats_[replica]->inbox; }

  // --- who is there: one thread at a time ---
  // The lowest vacant seat; none: all are taken.
  std::optional<uint32_t> TakeSeat();
  // No request comes to the replica any more; its loop is told to give up those that it has.
  void Retire(uint32_t replica);
  // Its loop has ended, and had no request left.
  void LeaveSeat(uint32_t replica);

  // --- any thread ---
  // To the replica where it is best off; without an open one, to one where it may wait.
  void Submit(Submission submission);
  // To whichever replica has the request; nothing when none does.
  void Cancel(Cancellation cancellation);
  void Stop(SequenceStop stop);
  // No request changes its replica any more.
  void Close();

  // --- the loop of `replica` ---
  struct Lease {
    WorkerBits bits;
    WorkerLimits limits;
  };
  void SetLease(uint32_t replica, const Lease& lease);
  // A replica that opens wakes those that may have requests for it. Its load must be known.
  void SetOpenness(uint32_t replica, Openness openness);
  struct Load {
    uint64_t queued_tokens = 0;
    uint32_t num_sequences = 0;
    uint32_t available_blocks = 0;
    uint32_t free_blocks = 0;
  };
  void SetLoad(uint32_t replica, const Load& load);
  // So many of those posted to it, with these prompt tokens, are part of the load from now on.
  void NoteTaken(uint32_t replica, uint32_t num_requests, uint64_t num_tokens);
  // False: some changes are left for later.
  bool TellPrefixes(uint32_t replica, PrefixChanges& changes) {
    return directory_.TryTell(replica, changes);
  }
  bool AnyOtherOpen(uint32_t replica) const;
  // Another one is open that could go on with it.
  bool AnyOtherTakes(uint32_t replica, const PlacementQuery& query);
  // The replica, not this one, that should go on with a request.
  std::optional<uint32_t> FindOther(uint32_t replica, const PlacementQuery& query);
  // Without one that is open, one whose last worker could: the request waits there for the next.
  std::optional<uint32_t> FindOtherOrRoom(uint32_t replica, const PlacementQuery& query);
  // One more request may change its replica now.
  bool TakeRetry(Instant now);
  // Takes `handover`; false, and it is as it was, when requests no longer change their replica, or
  // not to that one.
  bool HandOver(uint32_t to, Handover& handover);
  // The request has ended.
  void Forget(RequestKey request);

 private:
  enum class Occupancy { kVacant, kTaken, kRetiring };
  struct Seat {
    Inbox inbox;
    std::atomic<Occupancy> occupancy = Occupancy::kVacant;  // set with routes_mutex_ held
    std::atomic<Openness> openness = Openness::kClosed;
    std::atomic<uint64_t> closed_order = 0;  // the higher, the later it closed; 0: never was open
    // Posted, and not yet part of the load that the loop told.
    std::atomic<uint32_t> num_underway = 0;
    std::atomic<uint64_t> underway_tokens = 0;
    std::atomic<uint64_t> queued_tokens = 0;
    std::atomic<uint32_t> num_sequences = 0;
    std::atomic<uint32_t> available_blocks = 0;
    std::atomic<uint32_t> free_blocks = 0;
    Mutex mutex;
    std::optional<Lease> lease ABSL_GUARDED_BY(mutex);  // now or last; none: there was none yet
  };

  // The openness of a replica that may be given requests.
  Openness OpennessOf(uint32_t replica) const;
  // The lease of `replica`, now or last, if it could serve the request.
  std::optional<Lease> MatchLease(uint32_t replica, const PlacementQuery& query) const;
  std::optional<uint32_t> Find(const PlacementQuery& query, std::optional<uint32_t> except);
  ReplicaLoad LoadOf(uint32_t replica, uint32_t block_size_tokens) const;
  std::optional<uint32_t> FindRoom(const PlacementQuery& query,
                                   std::optional<uint32_t> except) const;
  std::optional<uint32_t> FindRoomForNew(const PlacementQuery& query) const;
  void FillCachedTokens(const PlacementQuery& query, std::span<ReplicaLoad> replicas) const;
  void NoteUnderway(uint32_t replica, uint64_t num_tokens);
  // False: the replica takes nothing on, and `submission` is as it was.
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

  // Posting to a request's replica and moving the request exclude each other, so what is said of a
  // request never overtakes it.
  Mutex routes_mutex_;
  absl::flat_hash_map<RequestKey, uint32_t> routes_ ABSL_GUARDED_BY(routes_mutex_);
  bool closed_ ABSL_GUARDED_BY(routes_mutex_) = false;
};

// Whether a worker of these limits can hold all of the request.
bool FitsWorker(const PlacementQuery& query, const WorkerLimits& limits);

}  // namespace lockstep::router
