#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "worker/model/forward_model.h"
#include "worker/steps/step_runner.h"
#include "worker/worker_config.h"

namespace lockstep::worker {

// A model in the memory of a device. Makes the runner of its steps.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const ForwardModelInfo& info() const = 0;
  // Call once. The runner must not outlive the backend.
  virtual absl::StatusOr<std::unique_ptr<StepRunner>> MakeRunner(uint64_t incarnation) = 0;
};

using LoadStageProgress = std::function<void(std::string_view stage, double fraction)>;

// Loads the model onto the configured device.
absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(const WorkerConfig& config,
                                                     LoadStageProgress progress);

// Checks that the first CUDA device can be used. UNAVAILABLE if there is no device, no driver, or
// no CUDA in this build.
absl::Status CheckCudaDevice(const WorkerConfig& config);
absl::StatusOr<std::unique_ptr<Backend>> OpenCudaBackend(const WorkerConfig& config,
                                                         LoadStageProgress progress);

}  // namespace lockstep::worker
