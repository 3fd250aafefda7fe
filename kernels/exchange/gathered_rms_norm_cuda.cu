#include "common/status.h"
#include "kernels/device/launch.cuh"
#include "kernels/exchange/exchange_check.h"
#include "kernels/exchange/exchange_link.cuh"
#include "kernels/exchange/gathered_rms_norm.h"
#include "kernels/norm/rms_norm_row.cuh"
#include "kernels/norm/row_norm_cuda.h"

namespace lockstep::kernels {
namespace {

struct Arguments {
  GatheredRmsNormParams params;
  ExchangeMemory memory;
  int units_per_row;  // of one rank's columns; a unit is a group of a row
};

// A block for each row. A thread sends its groups if they are this rank's, and else waits for them.
template <int kGroups>
__global__ void __launch_bounds__(kMaxRowThreads, 2)
    GatheredRmsNormKernel(const __grid_constant__ Arguments arguments) {
  const ExchangeGroup& group = arguments.params.group;
  const RmsNormParams& norm = arguments.params.norm;
  RmsNormRow<kGroups> row(norm);
  AwaitExchange(group);
  const ExchangeLink<false> link(group, arguments.memory);

  const int units_per_row = arguments.units_per_row;
  const auto first_unit = static_cast<uint32_t>(blockIdx.x) * units_per_row;
  const uint4* const columns = reinterpret_cast<const uint4*>(norm.delta) + first_unit;
  const auto is_own = [&](int index) { return index / units_per_row == group.rank; };
  row.ForEachGroup([&](int index) {
    const int column = index % units_per_row;
    if (is_own(index)) link.Push(first_unit + column, columns[column]);
  });
  row.LoadAdding([&](int index) {
    const int column = index % units_per_row;
    return is_own(index) ? columns[column] : link.Take(index / units_per_row, first_unit + column);
  });
  row.Normalize();
  link.End();
}

int UnitsPerRow(const GatheredRmsNormParams& params) {
  return static_cast<int>(params.norm.size / params.group.degree) / kRowGroup;
}

template <int kGroups>
absl::Status LaunchKernel(const CudaStream& stream, const Arguments& arguments) {
  const RmsNormParams& norm = arguments.params.norm;
  const auto kernel = GatheredRmsNormKernel<kGroups>;
  // As for Exchange.
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(
      kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
  return Launch(stream, "GatheredRmsNorm",
                {.grid = dim3(static_cast<unsigned>(norm.num_rows)),
                 .block = dim3(static_cast<unsigned>(RowThreads(norm.size)))},
                kernel, arguments);
}

}  // namespace

bool GathersInNorm(const GatheredRmsNormParams& params) {
  const auto& [group, norm] = params;
  const int64_t num_bytes =
      norm.num_rows * norm.size / group.degree * static_cast<int64_t>(sizeof(BFloat16));
  return norm.num_rows <= MaxGatheredNormRows(group) && num_bytes <= group.max_push_bytes &&
         norm.size % (group.degree * kRowGroup) == 0;
}

absl::Status GatheredRmsNorm(const CudaStream& stream, const GatheredRmsNormParams& params) {
  const RmsNormParams& norm = params.norm;
  LOCKSTEP_RETURN_IF_ERROR(CheckRowSize("GatheredRmsNorm", norm.size));
  LOCKSTEP_RETURN_IF_ERROR(CheckExchange("GatheredRmsNorm", params.group,
                                         {norm.input, norm.delta, norm.residual_out, norm.output}));
  if (norm.num_rows < 1 || norm.delta == nullptr || !GathersInNorm(params)) {
    return InvalidArgument(
        "GatheredRmsNorm: {} rows of {} elements and {} ranks; takes 1 to {} rows", norm.num_rows,
        norm.size, params.group.degree, MaxGatheredNormRows(params.group));
  }
  const Arguments arguments = {
      .params = params,
      .memory = ExchangeMemory(params.group.degree, params.group.max_push_bytes),
      .units_per_row = UnitsPerRow(params)};
  return norm.size <= kMaxRowThreads * kRowGroup ? LaunchKernel<1>(stream, arguments)
                                                 : LaunchKernel<2>(stream, arguments);
}

}  // namespace lockstep::kernels
