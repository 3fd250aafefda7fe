#include "kernels/device/cuda_device.h"

#include <cuda_runtime_api.h>

#include "common/status.h"
#include "kernels/device/cuda_status.h"

namespace lockstep::kernels {

absl::StatusOr<CudaDevice> DescribeCudaDevice(int index) {
  // Without a driver the runtime says that the driver's version is insufficient.
  int driver_version = 0;
  LOCKSTEP_RETURN_IF_ERROR(
      CudaStatus(cudaDriverGetVersion(&driver_version), "cudaDriverGetVersion"));
  if (driver_version == 0) return Unavailable("this machine has no NVIDIA driver");
  cudaDeviceProp properties;
  LOCKSTEP_RETURN_IF_ERROR(
      CudaStatus(cudaGetDeviceProperties(&properties, index),
                 fmt::format("cudaGetDeviceProperties of device {}", index).c_str()));
  return CudaDevice{.name = properties.name,
                    .compute_capability = 10 * properties.major + properties.minor,
                    .num_multiprocessors = properties.multiProcessorCount,
                    .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem)};
}

}  // namespace lockstep::kernels
