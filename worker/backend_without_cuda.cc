#include "common/status.h"
#include "worker/backend.h"

namespace lockstep::worker {

absl::Status CheckCudaDevice(const WorkerConfig&) {
  return Unavailable("this program was built without CUDA");
}

absl::StatusOr<std::unique_ptr<Backend>> OpenCudaBackend(const WorkerConfig& config,
                                                         LoadStageProgress) {
  return CheckCudaDevice(config);
}

}  // namespace lockstep::worker
