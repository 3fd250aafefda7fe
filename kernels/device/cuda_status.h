#pragma once

#include <absl/status/status.h>
#include <cuda_runtime_api.h>

namespace lockstep::kernels {

// UNAVAILABLE when the machine has no device, or only the toolkit's stub in place of a driver.
// RESOURCE_EXHAUSTED when device or pinned memory is short. INTERNAL for any other error, also for
// a driver that is too old or not ready. Each names the call and has the runtime's message.
absl::Status CudaStatus(cudaError_t error, const char* call);

}  // namespace lockstep::kernels

#define LOCKSTEP_RETURN_IF_CUDA_ERROR(call)                                   \
  do {                                                                        \
    if (const cudaError_t cuda_error_ = (call); cuda_error_ != cudaSuccess) { \
      return ::lockstep::kernels::CudaStatus(cuda_error_, #call);             \
    }                                                                         \
  } while (false)
