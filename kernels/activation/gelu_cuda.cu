#include "common/status.h"
#include "kernels/activation/gelu.h"
#include "kernels/core/device_math.cuh"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/device/launch.cuh"

namespace lockstep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kVector = 8;  // elements of a 16-byte access

template <GeluForm kForm>
__device__ __forceinline__ float GeluOf(float x) {
  return kForm == GeluForm::kTanh ? DeviceGeluTanh(x) : DeviceGeluErf(x);
}

template <GeluForm kForm>
__device__ __forceinline__ uint32_t GeluPair(uint32_t pair) {
  return PackBFloat16x2(GeluOf<kForm>(LowerBFloat16(pair)), GeluOf<kForm>(UpperBFloat16(pair)));
}

template <GeluForm kForm>
__global__ void __launch_bounds__(kThreads) GeluKernel(GeluParams params) {
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= params.num_rows * params.size / kVector) return;
  const uint4 values = reinterpret_cast<const uint4*>(params.input)[index];
  reinterpret_cast<uint4*>(params.output)[index] =
      make_uint4(GeluPair<kForm>(values.x), GeluPair<kForm>(values.y), GeluPair<kForm>(values.z),
                 GeluPair<kForm>(values.w));
}

}  // namespace

absl::Status Gelu(const CudaStream& stream, const GeluParams& params) {
  if (params.size % kVector != 0) {
    return InvalidArgument("Gelu: the row size must be a multiple of {}, got {}", kVector,
                           params.size);
  }
  const int64_t num_vectors = params.num_rows * params.size / kVector;
  if (num_vectors == 0) return absl::OkStatus();
  return Launch(
      stream, "Gelu",
      {.grid = dim3(static_cast<unsigned>((num_vectors + kThreads - 1) / kThreads)),
       .block = kThreads},
      params.form == GeluForm::kTanh ? GeluKernel<GeluForm::kTanh> : GeluKernel<GeluForm::kErf>,
      params);
}

}  // namespace lockstep::kernels
