#include "kernels/device/device_buffer.h"

#include <cuda_runtime_api.h>

#include "common/status.h"
#include "kernels/device/cuda_status.h"

namespace lockstep::kernels {
namespace {

// The status of allocating `num_bytes`, with their purpose.
absl::Status AllocationStatus(cudaError_t error, const char* call, size_t num_bytes,
                              std::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  return Annotate(CudaStatus(error, call), fmt::format("{}: {} bytes", what, num_bytes));
}

}  // namespace

absl::Status DeviceMemory::Allocate(size_t num_bytes, std::string_view what, void** data) {
  return AllocationStatus(cudaMalloc(data, num_bytes), "cudaMalloc", num_bytes, what);
}

void DeviceMemory::Free(void* data) { cudaFree(data); }

absl::Status PinnedMemory::Allocate(size_t num_bytes, std::string_view what, void** data) {
  return AllocationStatus(cudaMallocHost(data, num_bytes), "cudaMallocHost", num_bytes, what);
}

void PinnedMemory::Free(void* data) { cudaFreeHost(data); }

}  // namespace lockstep::kernels
