#include "tests/worker/cuda/poisoned_cuda_model.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "common/status.h"
#include "kernels/device/cuda_status.h"

namespace lockstep::worker {

absl::StatusOr<PoisonedCudaModel> LoadPoisonedCudaModel(const std::string& path,
                                                        const ModelOptions& options) {
  PoisonedCudaModel poisoned;
  LOCKSTEP_ASSIGN_OR_RETURN(poisoned.model, LoadCudaModel(path, options));
  const std::span<std::byte> kv = poisoned.model->kv_bytes();
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaMemset(kv.data(), 0xFF, kv.size()));
  // The model's stream writes next, and does not wait for this one.
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());
  LOCKSTEP_ASSIGN_OR_RETURN(poisoned.forward_model, CudaForwardModel::Create(*poisoned.model));
  return poisoned;
}

}  // namespace lockstep::worker
