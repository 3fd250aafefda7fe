#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/strands/strand.h"
#include "router/engine/replica.h"
#include "router/fleet/fleet.h"
#include "router/workers/worker_agreement.h"

namespace lockstep::router {

// What one replica is made of.
struct ReplicaParts {
  std::string worker;  // its address
  std::unique_ptr<StepLink> link;
  std::unique_ptr<SchedulingPolicy> policy;
  std::shared_ptr<TimedStrandRunner> runner;  // best where the link's results come
  // Of all replicas; null: any worker will do.
  std::shared_ptr<WorkerAgreement> agreement = nullptr;
  WorkerOwner owner = WorkerOwner::kSelf;
};

// The loop of one replica, a strand: when something came to the inbox, or at the next deadline, it
// lets the Replica process what there is. Owns link and replica.
class ReplicaLoop {
 public:
  // What the loop works with; all of it must outlive the object. `on_worker_change` is called on
  // the loop after a worker came or went; it must not block.
  struct Surroundings {
    const Clock* clock;
    RouterMetrics* metrics;
    Fleet* fleet;  // the inbox is there
    uint32_t index;
    std::function<void()> on_worker_change;
  };
  // Starts the link.
  ReplicaLoop(ReplicaConfig config, ReplicaParts parts, Surroundings surroundings);
  // Ends the lease, and returns once the loop has ended. Requests that are still live end with
  // UNAVAILABLE. Not on the runner's threads, which must still run strands.
  ~ReplicaLoop();

  // Once the board says that the replica is gone, the loop may be destroyed, and its seat left.
  const StatusBoard& board() const { return replica_.board(); }
  const std::string& worker() const { return worker_; }
  // See StepLink.
  void LeaveOrphans() { link_->LeaveOrphans(); }
  // Nothing runs here, and the worker belongs to another router.
  bool stands_by() const;

 private:
  class Turns;

  void TakeTurn();

  const Surroundings surroundings_;
  const std::string worker_;
  const WorkerOwner owner_;
  const std::unique_ptr<StepLink> link_;
  const std::shared_ptr<TimedStrandRunner> runner_;
  const std::shared_ptr<WorkerAgreement> agreement_;
  Inbox& inbox_;
  Replica replica_;
  const std::shared_ptr<Turns> turns_;
};

}  // namespace lockstep::router
