#include "kernels/core/ptx/memory.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/norm/rms_norm.h"
#include "kernels/norm/rms_norm_row.cuh"
#include "kernels/norm/row_norm_cuda.h"

namespace lockstep::kernels {
namespace {

template <int kGroups, bool kAdds>
__global__ void __launch_bounds__(kMaxRowThreads)
    RmsNormKernel(const __grid_constant__ RmsNormParams params) {
  RmsNormRow<kGroups> row(params);
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
  if constexpr (kAdds) {
    const uint4* const delta =
        reinterpret_cast<const uint4*>(params.delta + blockIdx.x * params.size);
    row.LoadAdding([delta](int index) { return delta[index]; });
  } else {
    row.Load();
  }
  row.Normalize();
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
