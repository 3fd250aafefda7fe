#pragma once

#include "kernels/decoder/residual_norm.cuh"

// How ResidualNorm computes the norm of the rows.
namespace lockstep::kernels {

template <typename Form>
__device__ __forceinline__ void ResidualNorm<Form>::Norm(int group, Rows& rows) const {
  const bool exists = group < NumGroups();
  const float size = static_cast<float>(block_.Hidden());
  const float* const weights = block_.template At<float>(block_.Memory().norm_weights);
  NormWeights<Form>{block_}.Finish();
  float sums[kRows];
  if constexpr (Form::kStyle == DecoderStyle::kGpt2) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) sums[row] = GroupTreeSum(rows[row]);
    TreeSums(sums, 0);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      if (!exists) continue;
      const float mean = __fdiv_rn(sums[row], size);
      for (float& value : rows[row]) value = __fsub_rn(value, mean);
    }
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) sums[row] = SumOfSquares(rows[row]);
  TreeSums(sums, 1);
  if (!exists) return;
  float scales[kRowGroup];
  LoadParameters(weights, group, scales);
  float biases[kRowGroup];
  if constexpr (Form::kStyle == DecoderStyle::kGpt2) {
    LoadParameters(weights + block_.Hidden(), group, biases);
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    const float inverse_rms = DeviceInverseRms(sums[row], size, block_.Params().norm_eps);
    for (int i = 0; i < kRowGroup; ++i) {
      rows[row][i] = DeviceNormedValue(rows[row][i], inverse_rms, scales[i]);
      if constexpr (Form::kStyle == DecoderStyle::kGpt2) {
        rows[row][i] = __fadd_rn(rows[row][i], biases[i]);
      }
    }
    NormedGroup(row, group) = Pack(rows[row]);
  }
}

template <typename Form>
__device__ __forceinline__ float ResidualNorm<Form>::SumOfSquares(
    const float (&values)[kRowGroup]) {
  float squares[kRowGroup];
  for (int i = 0; i < kRowGroup; ++i) squares[i] = __fmul_rn(values[i], values[i]);
  return GroupTreeSum(squares);
}

template <typename Form>
__device__ __forceinline__ void ResidualNorm<Form>::TreeSums(float (&sums)[kRows], int turn) const {
  for (int distance = 1; distance < 32; distance *= 2) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      sums[row] = __fadd_rn(sums[row], __shfl_xor_sync(0xFFFFFFFFu, sums[row], distance));
    }
  }
  float* const warp_sums =
      block_.template At<float>(block_.Memory().warp_sums) + turn * kRows * kConsumerWarps;
  if (lane_ == 0) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) warp_sums[row * kConsumerWarps + warp_] = sums[row];
  }
  SyncConsumers();
  static_assert(kConsumerWarps == 8);
  const auto sum_of_four = [](const float4& of) {
    return __fadd_rn(__fadd_rn(of.x, of.y), __fadd_rn(of.z, of.w));
  };
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    const float4* const of_row = reinterpret_cast<const float4*>(warp_sums + row * kConsumerWarps);
    sums[row] = __fadd_rn(sum_of_four(of_row[0]), sum_of_four(of_row[1]));
  }
}

}  // namespace lockstep::kernels
