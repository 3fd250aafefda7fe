#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/ids.h"
#include "common/runtime/mutex.h"
#include "router/core/messages/request.h"
#include "router/core/messages/worker_limits.h"
#include "router/fleet/placement.h"
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

// True if a worker with these limits can hold the whole request, and enforces its constraint.
bool FitsWorker(const PlacementQuery& query, const WorkerLimits& limits);

// The seats of a fleet: each replica has one while it is there. A seat has the replica's inbox, and
// what the others know of the replica. Safe to use from any thread. No call waits for a loop.
class Seats {
 public:
  struct Lease {
    WorkerBits bits;
    WorkerLimits limits;
  };
  struct Load {
    uint64_t queued_tokens = 0;
    uint32_t num_sequences = 0;
    uint32_t available_blocks = 0;
    uint32_t free_blocks = 0;
  };

  // The first `num_taken` of the seats are taken from the start.
  Seats(uint32_t num_taken, uint32_t num_seats);

  // Number of seats that were ever taken. They are the lowest ones.
  uint32_t size() const { return size_.load(); }
  Inbox& inbox(uint32_t replica) { return seats_[replica]->inbox; }

  // --- who is there: one call at a time ---
  // Takes the lowest vacant seat. None: all are taken.
  std::optional<uint32_t> Take();
  // The replica gets no more requests.
  void Dismiss(uint32_t replica);
  void Leave(uint32_t replica);

  // --- what the replica's loop says ---
  void SetLease(uint32_t replica, const Lease& lease);
  // A replica that opens wakes the others that may have requests for it.
  void SetReadiness(uint32_t replica, Readiness readiness);
  void SetLoad(uint32_t replica, const Load& load);
  // A request was posted to the replica. It counts as load until NoteTaken.
  void NoteUnderway(uint32_t replica, uint64_t num_tokens);
  void NoteTaken(uint32_t replica, uint32_t num_requests, uint64_t num_tokens);

  // --- what the others ask ---
  // False if the replica is not there or is leaving.
  bool TakesRequests(uint32_t replica) const;
  // kAway if the replica takes no requests.
  Readiness ReadinessOf(uint32_t replica) const;
  bool IsOpen(uint32_t replica) const { return ReadinessOf(replica) >= Readiness::kTrial; }
  // The current or last lease of `replica`, if it could serve the request.
  std::optional<Lease> MatchLease(uint32_t replica, const PlacementQuery& query) const;
  ReplicaLoad LoadOf(uint32_t replica, uint32_t block_size_tokens) const;
  // What the loop said last, and when the replica lost its last worker: a higher number is later.
  // 0: it never had one.
  Readiness LastReadinessOf(uint32_t replica) const { return seats_[replica]->readiness.load(); }
  uint64_t ClosedOrderOf(uint32_t replica) const { return seats_[replica]->closed_order.load(); }

 private:
  enum class Occupancy { kVacant, kTaken, kLeaving };
  struct Seat {
    Inbox inbox;
    std::atomic<Occupancy> occupancy = Occupancy::kVacant;
    std::atomic<Readiness> readiness = Readiness::kAway;
    std::atomic<uint64_t> closed_order = 0;
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

  std::vector<std::unique_ptr<Seat>> seats_;
  std::atomic<uint32_t> size_;
  std::atomic<uint64_t> num_closings_ = 0;
};

}  // namespace lockstep::router
