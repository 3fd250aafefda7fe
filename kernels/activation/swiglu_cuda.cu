#include "common/status.h"
#include "kernels/activation/swiglu.h"
#include "kernels/core/device_math.cuh"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/device/launch.cuh"

namespace lockstep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kVector = 8;  // elements of a 16-byte access

__device__ __forceinline__ uint32_t GatedPair(uint32_t gate, uint32_t up) {
  return PackBFloat16x2(DeviceGatedValue(LowerBFloat16(gate), LowerBFloat16(up)),
                        DeviceGatedValue(UpperBFloat16(gate), UpperBFloat16(up)));
}

// Block (row, piece of the row).
__global__ void __launch_bounds__(kThreads) SwiGluKernel(SwiGluParams params) {
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
  const int64_t num_vectors = params.size / kVector;
  const int64_t index = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (index >= num_vectors) return;
  const uint4* gates =
      reinterpret_cast<const uint4*>(params.gate_up + blockIdx.x * 2 * params.size);
  const uint4 gate = gates[index];
  const uint4 up = gates[num_vectors + index];
  reinterpret_cast<uint4*>(params.output + blockIdx.x * params.size)[index] =
      make_uint4(GatedPair(gate.x, up.x), GatedPair(gate.y, up.y), GatedPair(gate.z, up.z),
                 GatedPair(gate.w, up.w));
}

}  // namespace

absl::Status SwiGlu(const CudaStream& stream, const SwiGluParams& params) {
  if (params.size % kVector != 0) {
    return InvalidArgument("SwiGlu: the row size must be a multiple of {}, got {}", kVector,
                           params.size);
  }
  if (params.num_rows == 0 || params.size == 0) return absl::OkStatus();
  const int64_t num_pieces = (params.size / kVector + kThreads - 1) / kThreads;
  return Launch(
      stream, "SwiGlu",
      {.grid = dim3(static_cast<unsigned>(params.num_rows), static_cast<unsigned>(num_pieces)),
       .block = kThreads},
      SwiGluKernel, params);
}

}  // namespace lockstep::kernels
