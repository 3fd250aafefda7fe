#pragma once

#include <functional>
#include <memory>
#include <string>

#include "router/engine/replica.h"
#include "router/mailboxes/inbox.h"
#include "router/strands/strand.h"
#include "router/workers/step_link.h"
#include "router/workers/worker_agreement.h"
#include "router/workers/worker_state.h"

namespace lockstep::router {

// What a replica owns. The program that starts the router makes it.
struct ReplicaParts {
  std::string worker;  // its address
  std::unique_ptr<StepLink> link;
  std::unique_ptr<SchedulingPolicy> policy;
  // Runs the loop. Best is the thread that receives the link's results.
  std::shared_ptr<TimedStrandRunner> runner;
  // Shared by all replicas. Null: any worker will do.
  std::shared_ptr<WorkerAgreement> agreement = nullptr;
  WorkerOwner owner = WorkerOwner::kSelf;
};

// The loop of one replica. It is a strand: whenever something comes to the inbox, and at the next
// deadline, it lets the Replica process it. Owns the link and the replica.
class ReplicaLoop {
 public:
  // Starts the link. `place` says where the replica stands: clock, metrics, fleet and index. The
  // rest of it follows from `parts`. `on_worker_change` is called on the loop after a worker came
  // or went, and must not block.
  ReplicaLoop(ReplicaConfig config, ReplicaParts parts, ReplicaPlace place,
              std::function<void()> on_worker_change);
  // Ends the lease, and returns when the loop has ended. Requests that are still live end with
  // UNAVAILABLE. The runner must still run strands. Do not call on its threads.
  ~ReplicaLoop();

  // If the board says that the replica is gone, the loop may be destroyed, and its seat is free.
  const StatusBoard& board() const { return replica_.board(); }
  const std::string& worker() const { return parts_.worker; }
  // See StepLink.
  void LeaveOrphans() { parts_.link->LeaveOrphans(); }
  // True if nothing runs here and the worker belongs to another router.
  bool stands_by() const;

 private:
  class LoopStrand;

  void TakeTurn();

  ReplicaParts parts_;  // without the policy, which the replica has
  const std::function<void()> on_worker_change_;
  const Clock& clock_;
  Inbox& inbox_;
  Replica replica_;
  const std::shared_ptr<LoopStrand> strand_;
};

}  // namespace lockstep::router
