#pragma once

#include <cstdint>

#include "kernels/core/device_math.cuh"

// What RMSNorm and LayerNorm share on the device. A block holds one row in registers. Each thread
// has one or more runs of 8 consecutive elements. Sums follow the balanced tree of rms_norm.h.
namespace lockstep::kernels {

inline constexpr int kRowGroup = 8;
inline constexpr int kMaxRowThreads = 512;

__device__ __forceinline__ void Unpack(const uint4& words, float (&values)[kRowGroup]) {
  values[0] = LowerBFloat16(words.x);
  values[1] = UpperBFloat16(words.x);
  values[2] = LowerBFloat16(words.y);
  values[3] = UpperBFloat16(words.y);
  values[4] = LowerBFloat16(words.z);
  values[5] = UpperBFloat16(words.z);
  values[6] = LowerBFloat16(words.w);
  values[7] = UpperBFloat16(words.w);
}

__device__ __forceinline__ uint4 Pack(const float (&values)[kRowGroup]) {
  return make_uint4(PackBFloat16x2(values[0], values[1]), PackBFloat16x2(values[2], values[3]),
                    PackBFloat16x2(values[4], values[5]), PackBFloat16x2(values[6], values[7]));
}

// Group `index` of a vector of parameters.
__device__ __forceinline__ void LoadParameters(const float* parameters, int index,
                                               float (&values)[kRowGroup]) {
  const float4* source = reinterpret_cast<const float4*>(parameters) + 2 * index;
  const float4 first = source[0];
  const float4 second = source[1];
  values[0] = first.x;
  values[1] = first.y;
  values[2] = first.z;
  values[3] = first.w;
  values[4] = second.x;
  values[5] = second.y;
  values[6] = second.z;
  values[7] = second.w;
}

// values += delta, each rounded. Returns the sums, packed.
__device__ __forceinline__ uint4 AddRounded(const uint4& delta, float (&values)[kRowGroup]) {
  float added[kRowGroup];
  Unpack(delta, added);
  for (int i = 0; i < kRowGroup; ++i) added[i] = __fadd_rn(values[i], added[i]);
  const uint4 rounded = Pack(added);
  Unpack(rounded, values);
  return rounded;
}

// Group `index` of a row: the input, or the rounded sum of input and delta, which is also written
// to `residual_out`.
template <bool kAdds>
__device__ __forceinline__ void LoadResidual(const BFloat16* input, const BFloat16* delta,
                                             BFloat16* residual_out, int index,
                                             float (&values)[kRowGroup]) {
  Unpack(reinterpret_cast<const uint4*>(input)[index], values);
  if constexpr (kAdds) {
    reinterpret_cast<uint4*>(residual_out)[index] =
        AddRounded(reinterpret_cast<const uint4*>(delta)[index], values);
  }
}

__device__ __forceinline__ float GroupTreeSum(const float (&v)[kRowGroup]) {
  return __fadd_rn(__fadd_rn(__fadd_rn(v[0], v[1]), __fadd_rn(v[2], v[3])),
                   __fadd_rn(__fadd_rn(v[4], v[5]), __fadd_rn(v[6], v[7])));
}

// The sum over the block's threads, in ascending order of threads: the upper levels of the tree.
// Call from all threads, and do not reuse `warp_sums` before another barrier.
__device__ __forceinline__ float BlockTreeSum(float sum, float (&warp_sums)[32]) {
  for (int distance = 1; distance < 32; distance *= 2) {
    sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, distance));
  }
  const unsigned lane = threadIdx.x % 32;
  const unsigned num_warps = blockDim.x / 32;
  if (num_warps == 1) return sum;
  if (lane == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = lane < num_warps ? warp_sums[lane] : 0.0f;
  for (int distance = 1; distance < kMaxRowThreads / 32; distance *= 2) {
    sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, distance));
  }
  return __shfl_sync(0xFFFFFFFFu, sum, 0);
}

}  // namespace lockstep::kernels
