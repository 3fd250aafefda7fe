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
  size_t max_pending_output_bytes = 1 << 20;  // of one request whose client lags
  uint32_t max_replicas = 1024;               // at a time

  absl::Status Validate() const;  // every violation at once
};

// All replicas as if they were one.
struct FleetStatus {
  WorkerState worker_state = WorkerState::kConnecting;         // the best one
  std::string worker_text = "no worker has been reached yet";  // of the replica in that state
  worker::v1::DescribeResponse description;  // of the worker that requests are checked against
  uint32_t live_requests = 0;
};

// What the API layer sees of everything behind it: admits requests, keeps a replica for each
// worker, and drains. All methods may be called from any thread and never block.
class Engine {
 public:
  // `clock` and `metrics` must outlive the object; `on_readiness_change` must not block.
  Engine(EngineConfig config, std::vector<ReplicaParts> replicas, const Clock* clock,
         RouterMetrics* metrics, std::function<void()> on_readiness_change);
  // Stops.
  ~Engine();
  // Ends the loops and their links: requests that are still live end with UNAVAILABLE. Afterwards
  // everything may still be called, but nothing is done about it. Once more does nothing.
  void Stop();

  // Makes what a replica of this worker consists of; `index` is its seat.
  using MakeParts = std::function<ReplicaParts(const std::string& worker, uint32_t index)>;
  // Which workers there are from now on. New ones get a replica; those that are not named any more
  // get no new work, what runs on them ends, and the rest moves on; but not before a worker that is
  // named is ready, unless they only stand by for another router. A worker that is named again
  // while it still leaves is taken at a later call, as are those that there is no seat for; returns
  // the number of those. Does nothing while draining. One thread at a time.
  size_t SetWorkers(const std::vector<std::string>& workers, const MakeParts& make);

  // UNAVAILABLE while draining or without a worker, RESOURCE_EXHAUSTED over a limit,
  // INVALID_ARGUMENT when it can never be below; all before any work on the request. The ticket is
  // the request's place: hold it until the client has everything. `owner`: whose share of the queue
  // it takes; empty: nobody's.
  absl::StatusOr<std::shared_ptr<Admission::Ticket>> Admit(uint64_t estimated_prompt_tokens,
                                                           std::string_view owner);
  RequestKey NextKey() { return next_key_.fetch_add(1); }
  // `on_ready` is called by the replica's loop when the outbox has news.
  std::shared_ptr<Outbox> MakeOutbox(std::function<void()> on_ready,
                                     OutputMeter meter = nullptr) const;
  // An admitted request goes to the fleet, and so do its end before time and its stop strings: each
  // at most once. Everything that follows, also a refusal, comes through the outbox.
  Fleet& fleet() { return fleet_; }
  const Admission& admission() const { return *admission_; }

  // New requests get UNAVAILABLE from now on; running ones go on. No further orphans are claimed.
  void StartDrain();
  bool draining() const { return draining_.load(); }
  // Ends every request as aborted, with UNAVAILABLE, also those that are submitted from now on.
  void CancelAll();

  // A new request would be taken on: it has a worker, or waits behind one that drains for the next.
  bool ready() const;
  // Of each that is there, those that leave included.
  std::vector<ReplicaStatus> replica_statuses() const;
  FleetStatus replica_status() const;
  // The description in it. It may be a second old if no worker came or went since.
  std::shared_ptr<const worker::v1::DescribeResponse> largest_worker() const;

 private:
  void AddReplica(uint32_t seat, ReplicaParts parts);
  // Ends the loops of those that are gone.
  void RemoveGone();
  bool AnyReady(const std::vector<std::string>& workers) const;
  // OK when some replica has a worker for a new request, or may soon have one.
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
  // By seat. Loops start and end without the lock: they call back.
  std::map<uint32_t, std::unique_ptr<ReplicaLoop>> replicas_ ABSL_GUARDED_BY(replicas_mutex_);
  std::set<uint32_t> leaving_;  // seats; of the thread that calls SetWorkers
};

}  // namespace lockstep::router
