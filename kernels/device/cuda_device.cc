#include "kernels/device/cuda_device.h"

#include <cuda_runtime_api.h>

#include "common/status.h"

namespace lockstep::kernels {
namespace {

absl::Status CudaStatus(cudaError_t error, const char* call) {
  switch (error) {
    case cudaSuccess:
      return absl::OkStatus();
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
      return Unavailable("{}: {}", call, cudaGetErrorString(error));
    default:
      return Internal("{}: {}", call, cudaGetErrorString(error));
  }
}

}  // namespace

absl::StatusOr<CudaDevice> DescribeCudaDevice(int index) {
  cudaDeviceProp properties;
  LOCKSTEP_RETURN_IF_ERROR(
      CudaStatus(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties"));
  return CudaDevice{
      .name = properties.name,
      .compute_capability = 10 * properties.major + properties.minor,
      .num_multiprocessors = properties.multiProcessorCount,
      .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
      .l2_bytes = properties.l2CacheSize,
      .max_shared_memory_per_block_bytes =
          static_cast<int64_t>(properties.sharedMemPerBlockOptin)};
}

}  // namespace lockstep::kernels
