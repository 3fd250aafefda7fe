#include "router/engine/replica_loop.h"

#include <utility>

namespace lockstep::router {

ReplicaLoop::ReplicaLoop(ReplicaConfig config, std::unique_ptr<SchedulingPolicy> policy,
                         std::unique_ptr<StepLink> link, const Clock* clock, RouterMetrics* metrics,
                         std::function<void()> on_worker_change)
    : clock_(*clock),
      on_worker_change_(std::move(on_worker_change)),
      link_(std::move(link)),
      replica_(std::move(config), std::move(policy),
               {.clock = clock, .link = link_.get(), .metrics = metrics}),
      thread_("replica-0", [this](std::stop_token stop) { Run(std::move(stop)); }) {
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
    InboxBatch batch = inbox_.Wait(replica_.NextWakeup() - clock_.Now());
    // Read before the last batch is processed, so that what was posted before the stop is seen.
    stopping = stop.stop_requested();
    replica_.Process(std::move(batch));
    const WorkerState state = replica_.worker_state();
    if (state != last_state) {
      last_state = state;
      on_worker_change_();
    }
  }
}

}  // namespace lockstep::router
