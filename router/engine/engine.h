#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/instant.h"
#include "common/runtime/clock.h"
#include "router/engine/replica_loop.h"
#include "router/fleet/fleet.h"
#include "router/limits/admission.h"

namespace lockstep::router {

struct EngineConfig {
  AdmissionLimits admission;
  ReplicaConfig replica;
  PlacementConfig placement;
  size_t max_pending_output_bytes = 1 << 20;  // of one request, if its client reads slowly
  uint32_t max_replicas = 1024;               // at a time

  absl::Status Validate() const;  // reports every violation
};

// All replicas as if they were one.
struct FleetStatus {
  WorkerState worker_state = WorkerState::kConnecting;         // the best one
  std::string worker_text = "no worker has been reached yet";  // of the replica in that state
  worker::v1::DescribeResponse description;  // of the worker that requests are checked against
  uint32_t live_requests = 0;
};

// Everything behind the API layer. Admits requests, keeps a replica for each worker, and drains.
// Safe to use from any thread. Stop and SetWorkers wait until loops have ended; no other call
// blocks.
class Engine {
 public:
  // `clock` and `metrics` must outlive the object. `on_readiness_change` must not block.
  Engine(EngineConfig config, std::vector<ReplicaParts> replicas, const Clock* clock,
         RouterMetrics* metrics, std::function<void()> on_readiness_change);
  // Calls Stop.
  ~Engine();
  // Ends the loops and their links. Requests that are still live end with UNAVAILABLE. Later calls
  // are allowed and have no effect.
  void Stop();

  // Makes the parts of a replica for this worker. `index` is its seat.
  using MakeParts = std::function<ReplicaParts(const std::string& worker, uint32_t index)>;
  // Sets which workers there are from now on. A new worker gets a replica. A worker that is no
  // longer named leaves: it gets no new work, its running requests end, and its other requests move
  // to other replicas. It does not leave before a named worker is ready, unless it only stands by
  // for another router. Returns how many named workers got no replica, because they still leave or
  // no seat is vacant. A later call takes them. Does nothing while draining. Call from one thread
  // at a time.
  size_t SetWorkers(const std::vector<std::string>& workers, const MakeParts& make);

  // UNAVAILABLE while draining or without a worker, RESOURCE_EXHAUSTED over a limit,
  // INVALID_ARGUMENT if the request can never be below the limit. Call before any work on the
  // request. The ticket is the request's place: hold it until the client has everything. `owner`:
  // the tenant that pays with its share of the queue. Empty: no tenant.
  absl::StatusOr<std::shared_ptr<Admission::Ticket>> Admit(uint64_t estimated_prompt_tokens,
                                                           std::string_view owner);
  RequestKey NextKey() { return next_key_.fetch_add(1); }
  // The replica's loop calls `on_ready` when the outbox has news.
  std::shared_ptr<Outbox> MakeOutbox(std::function<void()> on_ready,
                                     OutputMeter meter = nullptr) const;
  // An admitted request goes to the fleet. So do its cancellation and its stop strings. Give each
  // at most once. Every answer comes through the outbox, also a refusal.
  Fleet& fleet() { return fleet_; }
  const Admission& admission() const { return *admission_; }

  // From now on new requests get UNAVAILABLE, and no more orphans are claimed. Running requests go
  // on.
  void StartDrain();
  bool draining() const { return draining_.load(); }
  // Ends every request with UNAVAILABLE, also requests that are submitted later.
  void CancelAll();

  // True if a new request has a worker, or may wait behind a draining worker for the next one.
  bool ready() const;
  // Of all replicas, even if they are about to leave.
  std::vector<ReplicaStatus> replica_statuses() const;
  FleetStatus replica_status() const;
  // The description in it. It may be a second old if no worker came or went since.
  std::shared_ptr<const worker::v1::DescribeResponse> largest_worker() const;

 private:
  void AddReplica(uint32_t seat, ReplicaParts parts);
  // Ends the loops of replicas that are gone.
  void RemoveGone();
  bool AnyReady(const std::vector<std::string>& workers) const;
  // OK if some replica has a worker for a new request, or may soon have one.
  absl::Status CheckWorkers() const;

  const EngineConfig config_;
  const Clock& clock_;
  RouterMetrics& metrics_;
  const std::function<void()> on_readiness_change_;
  const std::shared_ptr<Admission> admission_;
  std::atomic<RequestKey> next_key_ = 1;
  std::atomic<bool> draining_ = false;
  Fleet fleet_;
  mutable std::atomic<bool> worker_changed_ = false;
  mutable Mutex largest_mutex_;
  mutable std::shared_ptr<const worker::v1::DescribeResponse> largest_
      ABSL_GUARDED_BY(largest_mutex_);
  mutable Instant largest_at_ ABSL_GUARDED_BY(largest_mutex_) = Instant::InfinitePast();
  mutable Mutex replicas_mutex_;
  // By seat. Loops start and end without the lock, because they call back.
  std::map<uint32_t, std::unique_ptr<ReplicaLoop>> replicas_ ABSL_GUARDED_BY(replicas_mutex_);
  std::set<uint32_t> leaving_;  // seats; belongs to the thread that calls SetWorkers
};

}  // namespace lockstep::router
