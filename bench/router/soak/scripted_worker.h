#pragma once

#include <absl/status/statusor.h>
#include <prometheus/registry.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "worker/model/forward_model.h"
#include "worker/service/worker_metrics.h"
#include "worker/service/worker_server.h"

namespace lockstep::bench {

// A worker in this process whose steps take a fixed time, whatever runs in them: capacity is known
// by arithmetic. Everything but the model is the real worker's; the model says the same token again
// and again.
class ScriptedWorker {
 public:
  struct Options {
    std::string model;  // what it passes for
    uint32_t max_slots = 16;
    std::chrono::milliseconds step_time = std::chrono::milliseconds(20);
  };
  static absl::StatusOr<std::unique_ptr<ScriptedWorker>> Start(const Options& options);

  std::string address() const;

 private:
  explicit ScriptedWorker(std::unique_ptr<worker::ForwardModel> model);

  const std::unique_ptr<worker::ForwardModel> model_;
  prometheus::Registry registry_;
  worker::WorkerMetrics metrics_;
  std::unique_ptr<worker::WorkerServer> server_;
};

}  // namespace lockstep::bench
