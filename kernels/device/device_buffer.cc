#include "kernels/device/device_buffer.h"

#include <cuda_runtime_api.h>

#include "common/status.h"
#include "kernels/device/cuda_status.h"

namespace lockstep::kernels {
namespace {

absl::Status Sized(const absl::Status& status, size_t num_bytes) {
  return Annotate(status, fmt::format("{} bytes", num_bytes));
}

}  // namespace

absl::Status DeviceMemory::Allocate(size_t num_bytes, void** data) {
  return Sized(CudaStatus(cudaMalloc(data, num_bytes), "cudaMalloc"), num_bytes);
}

void DeviceMemory::Free(void* data) { cudaFree(data); }

absl::Status PinnedMemory::Allocate(size_t num_bytes, void** data) {
  return Sized(CudaStatus(cudaMallocHost(data, num_bytes), "cudaMallocHost"), num_bytes);
}

void PinnedMemory::Free(void* data) { cudaFreeHost(data); }

}  // namespace lockstep::kernels
