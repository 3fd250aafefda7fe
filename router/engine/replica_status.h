#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <string>
#include <utility>

#include "common/instant.h"
#include "common/runtime/clock.h"
#include "common/runtime/mutex.h"
#include "lockstep/worker/v1/worker.pb.h"
#include "router/core/messages/scheduler_stats.h"
#include "router/workers/worker_state.h"

namespace lockstep::router {

// The status of a replica, for other threads.
struct ReplicaStatus {
  std::string worker;  // its address
  WorkerState worker_state = WorkerState::kConnecting;
  std::string worker_text = "no worker has been reached yet";  // one line for people
  Instant lost_at = Instant::InfinitePast();                   // while there is no worker
  worker::v1::DescribeResponse description;                    // of the current or last worker
  SchedulerStats scheduler;
  uint32_t live_requests = 0;
  bool gone = false;  // it was dismissed and has nothing left
};

// Where a replica's loop publishes its status. Any thread may read.
class StatusBoard {
 public:
  // `clock` must outlive the object.
  StatusBoard(std::string worker, const Clock* clock, absl::Duration no_worker_grace);

  ReplicaStatus status() const;
  WorkerState worker_state() const;
  bool gone() const;
  // OK if a new request has a worker or may soon have one: within the grace after a loss, or while
  // the worker drains and may be replaced. Otherwise UNAVAILABLE, with the reason.
  absl::Status CheckWorker() const;

  void SetWorker(WorkerState state, std::string text, Instant lost_at);
  void SetDescription(worker::v1::DescribeResponse description);
  void SetGone();
  struct Counts {
    SchedulerStats scheduler;
    uint32_t live_requests = 0;
  };
  // Returns the previous counts.
  Counts Exchange(const Counts& counts);

 private:
  const Clock& clock_;
  const absl::Duration no_worker_grace_;
  mutable Mutex mutex_;
  ReplicaStatus status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
