#include "kernels/gemm/gemm_task.h"
#include "kernels/gemm/gemm_tile.cuh"
#include "kernels/gemm/gemm_warp_unit.cuh"
#include "kernels/gemm/gemm_warpgroup_unit.cuh"

namespace lockstep::kernels {
namespace {

template <typename Unit>
GemmKernelEntry Entry() {
  return {.function = reinterpret_cast<const void*>(GemmKernel<Unit>),
          .num_threads = Unit::kWarps * 32 + kGemmProducerThreads};
}

template <int kWeightRows, int kInputRows>
GemmKernelEntry WarpKernel(bool gated) {
  return gated ? Entry<GemmWarpUnit<kWeightRows, kInputRows, true>>()
               : Entry<GemmWarpUnit<kWeightRows, kInputRows, false>>();
}

template <int kInputRows>
GemmKernelEntry FindWarpKernel(int weight_rows, bool gated) {
  switch (weight_rows) {
    case 16:
      return WarpKernel<16, kInputRows>(gated);
    case 32:
      return WarpKernel<32, kInputRows>(gated);
    case 48:
      return WarpKernel<48, kInputRows>(gated);
    case 64:
      return WarpKernel<64, kInputRows>(gated);
    case 96:
      return WarpKernel<96, kInputRows>(gated);
    case 192:
      return WarpKernel<192, kInputRows>(gated);
    default:
      return {};
  }
}

template <int kWeightRows, int kInputRows>
GemmKernelEntry GroupKernel(bool gated) {
  return gated ? Entry<GemmWarpgroupUnit<kWeightRows, kInputRows, true>>()
               : Entry<GemmWarpgroupUnit<kWeightRows, kInputRows, false>>();
}

template <int kInputRows>
GemmKernelEntry FindGroupKernel(int weight_rows, bool gated) {
  switch (weight_rows) {
    case 32:
      return GroupKernel<32, kInputRows>(gated);
    case 48:
      return GroupKernel<48, kInputRows>(gated);
    case 64:
      return GroupKernel<64, kInputRows>(gated);
    case 96:
      return GroupKernel<96, kInputRows>(gated);
    case 128:
      return GroupKernel<128, kInputRows>(gated);
    case 192:
      return GroupKernel<192, kInputRows>(gated);
    default:
      break;
  }
  if constexpr (kInputRows == 128) {
    if (weight_rows == 16 && !gated) return Entry<GemmWarpgroupUnit<16, kInputRows, false>>();
  }
  return {};
}

}  // namespace

GemmKernelEntry FindGemmKernel(const GemmTiling& tiling, bool gated) {
  const bool by_warps = tiling.unit == GemmUnit::kWarp;
  switch (tiling.input_rows) {
    case 16:
      return by_warps ? FindWarpKernel<16>(tiling.weight_rows, gated) : GemmKernelEntry{};
    case 32:
      return by_warps ? FindWarpKernel<32>(tiling.weight_rows, gated) : GemmKernelEntry{};
    case 64:
      return by_warps ? GemmKernelEntry{} : FindGroupKernel<64>(tiling.weight_rows, gated);
    case 128:
      return by_warps ? GemmKernelEntry{} : FindGroupKernel<128>(tiling.weight_rows, gated);
    default:
      return {};
  }
}

}  // namespace lockstep::kernels
