#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/named_thread.h"
#include "router/engine/fleet.h"
#include "router/engine/replica.h"

namespace lockstep::router {

// What one replica is made of.
struct ReplicaParts {
  std::string worker;  // its address
  std::unique_ptr<StepLink> link;
  std::unique_ptr<SchedulingPolicy> policy;
};

// The thread of one replica ("replica-0" is the first): waits for its inbox or the next deadline,
// and lets the Replica process what came. Owns link, replica and thread, and nothing else runs on
// the thread.
class ReplicaLoop {
 public:
  // What the loop works with; all of it must outlive the object. `on_worker_change` is called on
  // the thread after a worker came or went; it must not block.
  struct Surroundings {
    const Clock* clock;
    RouterMetrics* metrics;
    Fleet* fleet;  // the inbox is there
    uint32_t index;
    std::function<void()> on_worker_change;
  };
  // Starts link and thread.
  ReplicaLoop(ReplicaConfig config, ReplicaParts parts, Surroundings surroundings);
  // Ends the lease and joins the thread. Requests that are still live end with UNAVAILABLE.
  ~ReplicaLoop();

  ReplicaStatus status() const { return replica_.status(); }
  WorkerState worker_state() const { return replica_.worker_state(); }
  // Retired, and nothing is left: it may be destroyed, and its seat left.
  bool gone() const { return replica_.gone(); }
  const std::string& worker() const { return worker_; }
  absl::Status CheckWorker() const { return replica_.CheckWorker(); }

 private:
  void Run(std::stop_token stop);

  const Surroundings surroundings_;
  const std::string worker_;
  const std::unique_ptr<StepLink> link_;
  Inbox& inbox_;
  Replica replica_;
  NamedThread thread_;
};

}  // namespace lockstep::router
