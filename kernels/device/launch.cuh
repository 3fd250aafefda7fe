#pragma once

#include <absl/status/status.h>
#include <cuda_runtime.h>

#include "kernels/device/cuda_status.h"
#include "kernels/device/cuda_stream.h"

namespace lockstep::kernels {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;  // dynamic; above 48 KiB the kernel's limit must have been raised
};

// Enqueues kernel(arguments...). `name` appears in errors.
template <typename... Parameters, typename... Arguments>
absl::Status Launch(const CudaStream& stream, const char* name, const LaunchShape& shape,
                    void (*kernel)(Parameters...), Arguments&&... arguments) {
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream.handle;
  config.attrs = &overlap;
  config.numAttrs = stream.overlap_launches ? 1 : 0;
  return CudaStatus(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...),
                    name);
}

}  // namespace lockstep::kernels
