#include "common/status.h"
#include "kernels/core/alignment.h"
#include "kernels/core/device_math.cuh"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/core/ptx/pack_e4m3.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/formats/fp8_activations/quantize_activations.h"
#include "kernels/formats/small_floats.h"

namespace lockstep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kVector = 8;                                 // elements of a thread
constexpr int kBlockThreads = kFp8BlockColumns / kVector;  // that share a scale

__device__ __forceinline__ float LargestOfBlock(float largest) {
#pragma unroll
  for (int distance = kBlockThreads / 2; distance > 0; distance /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, distance));
  }
  return largest;
}

// Half a warp has a block of a row.
__global__ void __launch_bounds__(kThreads)
    QuantizeActivationsKernel(const __grid_constant__ QuantizeActivationsParams params,
                              int num_blocks, int scale_stride) {
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
  const int64_t item =
      static_cast<int64_t>(blockIdx.x) * (kThreads / kBlockThreads) + threadIdx.x / kBlockThreads;
  const int64_t row = item / num_blocks;
  const int block = static_cast<int>(item - row * num_blocks);
  const int in_block = static_cast<int>(threadIdx.x) % kBlockThreads;
  const int64_t column = int64_t{block} * kFp8BlockColumns + in_block * kVector;
  const bool exists = row < params.num_rows && column < params.k;
  uint4 words = make_uint4(0, 0, 0, 0);
  if (exists) {
    words = *reinterpret_cast<const uint4*>(params.input + row * params.input_stride + column);
  }
  const uint32_t pairs[kVector / 2] = {words.x, words.y, words.z, words.w};
  float values[kVector];
  float largest = 0.0f;
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    values[i] = i % 2 == 0 ? LowerBFloat16(pairs[i / 2]) : UpperBFloat16(pairs[i / 2]);
    largest = fmaxf(largest, fabsf(values[i]));  // without NaN
  }
  const float quotient = __fdiv_rn(LargestOfBlock(largest), kMaxE4M3);
  const float scale = quotient == 0.0f ? 1.0f : quotient;
  if (!exists) return;
  uint32_t codes[kVector / 4];
#pragma unroll
  for (int i = 0; i < kVector / 4; ++i) {
    const float* const four = values + 4 * i;
    codes[i] = ptx::PackE4M3x2(__fdiv_rn(four[0], scale), __fdiv_rn(four[1], scale)) |
               ptx::PackE4M3x2(__fdiv_rn(four[2], scale), __fdiv_rn(four[3], scale)) << 16;
  }
  *reinterpret_cast<uint2*>(params.codes + row * params.k + column) =
      make_uint2(codes[0], codes[1]);
  if (in_block == 0) params.scales[int64_t{block} * scale_stride + row] = scale;
}

}  // namespace

absl::Status QuantizeActivations(const CudaStream& stream,
                                 const QuantizeActivationsParams& params) {
  if (params.k <= 0 || params.k % 16 != 0 || params.input_stride % kVector != 0) {
    return InvalidArgument(
        "QuantizeActivations: {} columns, input stride {}: k must be a multiple of 16, the stride "
        "one of {}",
        params.k, params.input_stride, kVector);
  }
  if (!IsAligned(params.input, 16) || !IsAligned(params.codes, 16)) {
    return InvalidArgument("QuantizeActivations: input and codes must be aligned to 16 bytes");
  }
  if (params.num_rows == 0) return absl::OkStatus();
  const int64_t num_blocks = NumFp8Blocks(params.k);
  const int64_t num_items = params.num_rows * num_blocks;
  return Launch(stream, "QuantizeActivations",
                {.grid = dim3(static_cast<unsigned>(DivideUp(num_items, kThreads / kBlockThreads))),
                 .block = kThreads},
                QuantizeActivationsKernel, params, static_cast<int>(num_blocks),
                static_cast<int>(ActivationScaleStride(params.num_rows)));
}

}  // namespace lockstep::kernels
