#include "kernels/device/tensor_map.h"

#include <cuda_runtime_api.h>

#include "common/status.h"

namespace lockstep::kernels {

absl::StatusOr<PFN_cuTensorMapEncodeTiled_v12000> TensorMapEncoder() {
  static const PFN_cuTensorMapEncodeTiled_v12000 encoder = [] {
    constexpr unsigned kSinceVersion = 12000;
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result;
    const cudaError_t error = cudaGetDriverEntryPointByVersion(
        "cuTensorMapEncodeTiled", &function, kSinceVersion, cudaEnableDefault, &result);
    return error == cudaSuccess ? reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function)
                                : nullptr;
  }();
  if (encoder == nullptr) return Unavailable("the CUDA driver has no cuTensorMapEncodeTiled");
  return encoder;
}

}  // namespace lockstep::kernels
