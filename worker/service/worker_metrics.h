#pragma once

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "lockstep/worker/v1/worker.pb.h"
#include "worker/model/forward_model.h"
#include "worker/steps/step_runner.h"

namespace lockstep::worker {

// The worker's series (docs/metrics.md), all present from the start. Safe to use from any thread.
// The registry owns the series and must outlive the object.
class WorkerMetrics {
 public:
  WorkerMetrics(prometheus::Registry& registry, const ForwardModelInfo& info);

  // A step that was executed or refused.
  void RecordStep(const v1::StepResult& result, const StepStats& stats);
  // A claim that was not granted.
  void RecordRefusedClaim() { invalid_requests_.Increment(); }

 private:
  prometheus::Counter& invalid_requests_;
  prometheus::Counter& prefill_steps_;
  prometheus::Counter& decode_steps_;
  prometheus::Counter& mixed_steps_;
  prometheus::Counter& graph_replays_;
  prometheus::Counter& graph_misses_;
  prometheus::Counter& constraint_masks_;
  prometheus::Counter& constraint_mask_seconds_;
  prometheus::Counter& constraint_restarts_;
  prometheus::Histogram& compute_seconds_;
  prometheus::Histogram& host_seconds_;
  prometheus::Histogram& idle_seconds_;
};

}  // namespace lockstep::worker
