#include "kernels/core/ptx/memory.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/norm/layer_norm.h"
#include "kernels/norm/row_norm_cuda.h"

namespace lockstep::kernels {
namespace {

// Sum of term(value) over the row; groups outside the row count 0.
template <int kGroups, typename Term>
__device__ __forceinline__ float RowSum(const float (&values)[kGroups][kRowGroup], int first_group,
                                        int num_groups, float (&warp_sums)[32], Term term) {
  float sums[kGroups] = {};
  for (int j = 0; j < kGroups; ++j) {
    if (first_group + j >= num_groups) break;
    float terms[kRowGroup];
    for (int i = 0; i < kRowGroup; ++i) terms[i] = term(values[j][i]);
    sums[j] = GroupTreeSum(terms);
  }
  return BlockTreeSum(kGroups == 1 ? sums[0] : __fadd_rn(sums[0], sums[kGroups - 1]), warp_sums);
}

template <int kGroups, bool kAdds>
__global__ void __launch_bounds__(kMaxRowThreads) LayerNormKernel(LayerNormParams params) {
  __shared__ float warp_sums[2][32];
  const int num_groups = static_cast<int>(params.size) / kRowGroup;
  const int first_group = static_cast<int>(threadIdx.x) * kGroups;
  float weight[kGroups][kRowGroup];
  float bias[kGroups][kRowGroup];
  for (int j = 0; j < kGroups; ++j) {
    if (first_group + j >= num_groups) break;
    LoadParameters(params.weight, first_group + j, weight[j]);
    LoadParameters(params.bias, first_group + j, bias[j]);
  }
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();

  const int64_t row_begin = blockIdx.x * params.size;
  float values[kGroups][kRowGroup] = {};
  for (int j = 0; j < kGroups; ++j) {
    if (first_group + j >= num_groups) break;
    LoadResidual<kAdds>(params.input + row_begin, params.delta + row_begin,
                        params.residual_out + row_begin, first_group + j, values[j]);
  }
  const float size = static_cast<float>(params.size);
  const float mean = __fdiv_rn(RowSum<kGroups>(values, first_group, num_groups, warp_sums[0],
                                               [](float value) { return value; }),
                               size);
  const float squares =
      RowSum<kGroups>(values, first_group, num_groups, warp_sums[1], [mean](float value) {
        const float centred = __fsub_rn(value, mean);
        return __fmul_rn(centred, centred);
      });
  const float inverse = DeviceInverseRms(squares, size, params.eps);
  uint4* output = reinterpret_cast<uint4*>(params.output + row_begin);
  for (int j = 0; j < kGroups; ++j) {
    if (first_group + j >= num_groups) break;
    for (int i = 0; i < kRowGroup; ++i) {
      const float normed = DeviceNormedValue(__fsub_rn(values[j][i], mean), inverse, weight[j][i]);
      values[j][i] = __fadd_rn(normed, bias[j][i]);
    }
    output[first_group + j] = Pack(values[j]);
  }
}

template <int kGroups>
absl::Status LaunchLayerNorm(const CudaStream& stream, const LayerNormParams& params) {
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(params.num_rows)),
                             .block = dim3(static_cast<unsigned>(RowThreads(params.size)))};
  return Launch(
      stream, "LayerNorm", shape,
      params.delta == nullptr ? LayerNormKernel<kGroups, false> : LayerNormKernel<kGroups, true>,
      params);
}

}  // namespace

absl::Status LayerNorm(const CudaStream& stream, const LayerNormParams& params) {
  LOCKSTEP_RETURN_IF_ERROR(CheckRowSize("LayerNorm", params.size));
  if (params.num_rows == 0) return absl::OkStatus();
  return params.size <= kMaxRowThreads * kRowGroup ? LaunchLayerNorm<1>(stream, params)
                                                   : LaunchLayerNorm<2>(stream, params);
}

}  // namespace lockstep::kernels
