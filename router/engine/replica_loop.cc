#include "router/engine/replica_loop.h"

#include <fmt/format.h>

#include <utility>

namespace lockstep::router {

ReplicaLoop::ReplicaLoop(ReplicaConfig config, ReplicaParts parts, Surroundings surroundings)
    : surroundings_(std::move(surroundings)),
      worker_(std::move(parts.worker)),
      link_(std::move(parts.link)),
      inbox_(surroundings_.fleet->inbox(surroundings_.index)),
      replica_(std::move(config), std::move(parts.policy),
               {.clock = surroundings_.clock,
                .link = link_.get(),
                .metrics = surroundings_.metrics,
                .worker = worker_,
                .fleet = surroundings_.fleet,
                .index = surroundings_.index}),
      thread_(fmt::format("replica-{}", surroundings_.index),
              [this](std::stop_token stop) { Run(std::move(stop)); }) {
  link_->Start(&inbox_);
}

ReplicaLoop::~ReplicaLoop() {
  link_->Stop();
  inbox_.CancelAll();
  thread_.request_stop();
  inbox_.Wake();
  thread_.join();
}

void ReplicaLoop::Run(std::stop_token stop) {
  WorkerState last_state = WorkerState::kConnecting;
  bool stopping = false;
  while (!stopping) {
    InboxBatch batch = inbox_.Wait(replica_.NextWakeup() - surroundings_.clock->Now());
    // Read before the last batch is processed, so that what was posted before the stop is seen.
    stopping = stop.stop_requested();
    replica_.Process(std::move(batch));
    const WorkerState state = replica_.worker_state();
    if (state != last_state) {
      last_state = state;
      surroundings_.on_worker_change();
    }
  }
}

}  // namespace lockstep::router
