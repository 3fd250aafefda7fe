#include "kernels/device/cuda_status.h"

#include "common/status.h"

namespace lockstep::kernels {

absl::Status CudaStatus(cudaError_t error, const char* call) {
  switch (error) {
    case cudaSuccess:
      return absl::OkStatus();
    case cudaErrorNoDevice:
    case cudaErrorStubLibrary:
      return Unavailable("{}: {}", call, cudaGetErrorString(error));
    case cudaErrorMemoryAllocation:
      return MakeError(absl::StatusCode::kResourceExhausted, "{}: {}", call,
                       cudaGetErrorString(error));
    default:
      return Internal("{}: {}", call, cudaGetErrorString(error));
  }
}

}  // namespace lockstep::kernels
