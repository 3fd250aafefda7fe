#pragma once

#include <functional>
#include <memory>

#include "common/named_thread.h"
#include "router/engine/inbox.h"
#include "router/engine/replica.h"

namespace lockstep::router {

// The thread of one replica ("replica-0"): waits for its inbox or the next deadline, and lets the
// Replica process what came. Owns link, replica and thread, and nothing else runs on the thread.
class ReplicaLoop {
 public:
  // Starts link and thread. `on_worker_change` is called on the thread after a worker came or went;
  // it must not block. `clock` and `metrics` must outlive the object.
  ReplicaLoop(ReplicaConfig config, std::unique_ptr<SchedulingPolicy> policy,
              std::unique_ptr<StepLink> link, const Clock* clock, RouterMetrics* metrics,
              std::function<void()> on_worker_change);
  // Ends the lease and joins the thread. Requests that are still live end with UNAVAILABLE.
  ~ReplicaLoop();

  // May be posted to from any thread.
  Inbox& inbox() { return inbox_; }
  ReplicaStatus status() const { return replica_.status(); }
  WorkerState worker_state() const { return replica_.worker_state(); }
  absl::Status CheckWorker() const { return replica_.CheckWorker(); }

 private:
  void Run(std::stop_token stop);

  const Clock& clock_;
  const std::function<void()> on_worker_change_;
  const std::unique_ptr<StepLink> link_;
  Inbox inbox_;
  Replica replica_;
  NamedThread thread_;
};

}  // namespace lockstep::router
