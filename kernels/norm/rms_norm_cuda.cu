#include "kernels/core/ptx/memory.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/norm/rms_norm.h"
#include "kernels/norm/row_norm_cuda.h"

namespace lockstep::kernels {
namespace {

template <int kGroups, bool kAdds>
__global__ void __launch_bounds__(kMaxRowThreads) RmsNormKernel(RmsNormParams params) {
  __shared__ float warp_sums[32];
  const int num_groups = static_cast<int>(params.size) / kRowGroup;
  const int first_group = static_cast<int>(threadIdx.x) * kGroups;
  float weight[kGroups][kRowGroup];
  for (int j = 0; j < kGroups; ++j) {
    if (first_group + j < num_groups) LoadParameters(params.weight, first_group + j, weight[j]);
  }
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();

  const int64_t row_begin = blockIdx.x * params.size;
  float values[kGroups][kRowGroup] = {};
  float sums[kGroups];
  for (int j = 0; j < kGroups; ++j) {
    if (first_group + j < num_groups) {
      LoadResidual<kAdds>(params.input + row_begin, params.delta + row_begin,
                          params.residual_out + row_begin, first_group + j, values[j]);
    }
    float squares[kRowGroup];
    for (int i = 0; i < kRowGroup; ++i) squares[i] = __fmul_rn(values[j][i], values[j][i]);
    sums[j] = GroupTreeSum(squares);
  }
  const float sum =
      BlockTreeSum(kGroups == 1 ? sums[0] : __fadd_rn(sums[0], sums[kGroups - 1]), warp_sums);
  const float inverse_rms = DeviceInverseRms(sum, static_cast<float>(params.size), params.eps);
  uint4* output = reinterpret_cast<uint4*>(params.output + row_begin);
  for (int j = 0; j < kGroups; ++j) {
    if (first_group + j >= num_groups) break;
    for (int i = 0; i < kRowGroup; ++i) {
      values[j][i] = DeviceNormedValue(values[j][i], inverse_rms, weight[j][i]);
    }
    output[first_group + j] = Pack(values[j]);
  }
}

template <int kGroups>
absl::Status LaunchRmsNorm(const CudaStream& stream, const RmsNormParams& params) {
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(params.num_rows)),
                             .block = dim3(static_cast<unsigned>(RowThreads(params.size)))};
  return Launch(
      stream, "RmsNorm", shape,
      params.delta == nullptr ? RmsNormKernel<kGroups, false> : RmsNormKernel<kGroups, true>,
      params);
}

}  // namespace

absl::Status RmsNorm(const CudaStream& stream, const RmsNormParams& params) {
  LOCKSTEP_RETURN_IF_ERROR(CheckRowSize("RmsNorm", params.size));
  if (params.num_rows == 0) return absl::OkStatus();
  return params.size <= kMaxRowThreads * kRowGroup ? LaunchRmsNorm<1>(stream, params)
                                                   : LaunchRmsNorm<2>(stream, params);
}

}  // namespace lockstep::kernels
