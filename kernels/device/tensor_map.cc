#include "kernels/device/tensor_map.h"

#include <absl/status/statusor.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "common/check.h"
#include "common/status.h"

namespace lockstep::kernels {
namespace {

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

}  // namespace

absl::Status EncodeTensorMap(const void* data, std::span<const TensorDimension> dimensions,
                             CUtensorMap* map, TensorElement element) {
  LOCKSTEP_ASSIGN_OR_RETURN(const PFN_cuTensorMapEncodeTiled_v12000 encode, TensorMapEncoder());
  constexpr size_t kMaxDimensions = 5;
  const size_t count = dimensions.size();
  LOCKSTEP_CHECK(count >= 1 && count <= kMaxDimensions, "{} dimensions", count);
  cuuint64_t sizes[kMaxDimensions];
  cuuint64_t strides_bytes[kMaxDimensions];
  cuuint32_t box[kMaxDimensions];
  const cuuint32_t steps[kMaxDimensions] = {1, 1, 1, 1, 1};
  for (size_t i = 0; i < count; ++i) {
    sizes[i] = static_cast<cuuint64_t>(dimensions[i].size);
    strides_bytes[i] = static_cast<cuuint64_t>(dimensions[i].stride_bytes);
    box[i] = static_cast<cuuint32_t>(dimensions[i].box_size);
  }
  // The driver does not take a stride of the first dimension. A promotion to 256 bytes makes an
  // H200 read weights 7 to 10 % more slowly (bench/results/diary.md, "Products: what the copy
  // engine asks for").
  const CUresult result =
      encode(map,
             element == TensorElement::kByte ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                             : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
             static_cast<cuuint32_t>(count), const_cast<void*>(data), sizes, strides_bytes + 1, box,
             steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  return Internal("cuTensorMapEncodeTiled: error {}", static_cast<int>(result));
}

}  // namespace lockstep::kernels
