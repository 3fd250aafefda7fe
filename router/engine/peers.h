#pragma once

#include <algorithm>
#include <cstdint>

#include "common/instant.h"
#include "router/engine/replica_state.h"

namespace lockstep::router {

// What a replica has to do with the other replicas. Hands over requests that its worker cannot
// continue, takes over requests of others, and tells the fleet its load and prefixes. Without a
// fleet there are no peers, and every call does nothing. Belongs to the replica's thread.
class Peers {
 public:
  // `state` must outlive the object.
  explicit Peers(ReplicaState& state) : state_(state) {}

  // True if another replica could serve a new request.
  bool Take(const Request& request) const;
  void Stop(const SequenceStop& stop) const;
  void Cancel(const Cancellation& cancellation) const;

  // Takes on a request that another replica handed over.
  void TakeOver(Handover handover, Instant now);
  // Hands over requests while this replica cannot start its own.
  void MoveStranded(Instant now);
  // Hands over the requests that a worker with these limits and bits could not continue. Call
  // before it is attached.
  void MoveUnfit(const WorkerLimits& limits, const WorkerBits& bits, Instant now);

  // Tells the fleet of a new lease. Call before the replica becomes ready.
  void TellLease() const;
  void TellReadiness(WorkerState worker_state) const;
  // Tells the fleet the load, the requests that came and ended, and the prefixes. Call at the end
  // of each turn. Returns false if some prefixes are left for the next turn.
  bool Tell(uint32_t num_new_requests, uint64_t num_new_tokens, Instant now);

  // From now on no request goes to another replica.
  void Close() { closed_ = true; }

  // When there is work to do even if nothing comes in.
  Instant NextWakeup() const { return std::min(retry_at_, tell_at_); }

 private:
  PlacementQuery QueryOf(const StrandedRequest& stranded) const;
  // Hands the request to a replica that can continue it. Returns false, and leaves `handover`
  // unchanged, if there is none.
  bool PassOn(Handover& handover);
  bool MoveTo(uint32_t to, const StrandedRequest& stranded);
  void TellLoad() const;

  ReplicaState& state_;
  bool closed_ = false;
  Instant retry_at_ = Instant::InfiniteFuture();  // requests are left to move
  Instant tell_at_ = Instant::InfiniteFuture();   // prefixes are left to tell
};

}  // namespace lockstep::router
