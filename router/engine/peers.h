#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "common/instant.h"
#include "router/core/scheduler.h"
#include "router/engine/live_requests.h"
#include "router/engine/replica_worker.h"
#include "router/engine/router_metrics.h"
#include "router/fleet/fleet.h"

namespace lockstep::router {

// A replica's dealings with the other replicas: hands over requests that its worker cannot go on
// with, takes over theirs, and tells the fleet what it holds. A replica without a fleet has no
// peers; every call then does nothing. Belongs to the replica's thread.
class Peers {
 public:
  // Everything must outlive the object.
  struct Owner {
    Fleet* fleet;    // null: there are no others
    uint32_t index;  // of the replica in the fleet
    const std::string& worker_address;
    Scheduler& scheduler;
    LiveRequests& live;
    const ReplicaWorker& worker;
    RouterMetrics& metrics;
    const WorkerSeries& series;
  };
  explicit Peers(const Owner& owner) : my_(owner) {}

  // Whether another replica could serve a new request.
  bool Take(const Request& request) const;
  void Stop(const SequenceStop& stop) const;
  void Cancel(const Cancellation& cancellation) const;

  // A request that another replica handed over.
  void TakeOver(Handover handover, Instant now);
  // Hands over requests while this replica can start none of its own.
  void MoveStranded(Instant now);
  // Hands over what a worker of these limits and bits could not go on with, before it is attached.
  void MoveUnfit(const WorkerLimits& limits, const WorkerBits& bits, Instant now);

  // Of a lease that has begun, before anybody places requests by it.
  void TellLease() const;
  void TellReadiness(WorkerState state) const;
  // At the end of a turn: the load, requests that came and ended, and prefixes. True: the fleet
  // knows everything; false: some prefixes are left for the next turn.
  bool Tell(uint32_t num_new_requests, uint64_t num_new_tokens, Instant now);

  // No request goes to another replica any more.
  void Close() { closed_ = true; }

  // When something is left to do even if nothing comes in.
  Instant NextWakeup() const { return std::min(retry_at_, tell_at_); }

 private:
  PlacementQuery QueryOf(const StrandedRequest& stranded) const;
  // To a replica that can go on with it. False: there is none, and the request is as it was.
  bool PassOn(Handover& handover);
  bool MoveTo(uint32_t to, const StrandedRequest& stranded);
  void TellLoad() const;

  const Owner my_;
  bool closed_ = false;
  Instant retry_at_ = Instant::InfiniteFuture();  // there are requests left to move
  Instant tell_at_ = Instant::InfiniteFuture();   // there are prefixes left to tell
};

}  // namespace lockstep::router
