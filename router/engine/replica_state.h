#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/runtime/clock.h"
#include "router/core/scheduler.h"
#include "router/engine/live_requests.h"
#include "router/engine/replica_config.h"
#include "router/engine/replica_status.h"
#include "router/engine/replica_worker.h"
#include "router/engine/router_metrics.h"
#include "router/fleet/fleet.h"
#include "router/workers/step_link.h"
#include "router/workers/worker_agreement.h"
#include "router/workers/worker_state.h"

namespace lockstep::router {

// What a replica uses and does not own. Everything passed by pointer must outlive the replica.
struct ReplicaPlace {
  const Clock* clock = nullptr;
  StepLink* link = nullptr;
  RouterMetrics* metrics = nullptr;
  std::string worker = {};  // its address, for metrics and people
  Fleet* fleet = nullptr;   // null: there are no other replicas
  uint32_t index = 0;       // the replica's seat in the fleet
  // Shared by all replicas. Null: any worker will do.
  WorkerAgreement* agreement = nullptr;
  // kOther: the worker belongs to another router, and this one stands in for it.
  WorkerOwner owner = WorkerOwner::kSelf;
};

// What the parts of a replica share. Belongs to the replica's thread. Any thread may read `board`.
struct ReplicaState {
  ReplicaState(ReplicaConfig replica_config, std::unique_ptr<SchedulingPolicy> policy,
               ReplicaPlace replica_place)
      : config(std::move(replica_config)),
        place(std::move(replica_place)),
        series(place.metrics->ForWorker(place.worker)),
        scheduler(config.scheduler, std::move(policy)),
        live(*place.metrics, place.worker),
        board(place.worker, place.clock, config.no_worker_grace) {}

  const ReplicaConfig config;
  const ReplicaPlace place;
  const WorkerSeries series;
  Scheduler scheduler;
  LiveRequests live;
  ReplicaWorker worker;
  StatusBoard board;
};

}  // namespace lockstep::router
