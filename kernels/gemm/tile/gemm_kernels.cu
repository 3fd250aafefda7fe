#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tile/gemm_task.h"
#include "kernels/gemm/tile/gemm_tile.cuh"
#include "kernels/gemm/tile/gemm_warp_unit.cuh"
#include "kernels/gemm/tile/gemm_warpgroup_unit.cuh"

namespace lockstep::kernels {
namespace {

template <typename Unit>
GemmKernelEntry Entry() {
  return {.function = reinterpret_cast<const void*>(GemmKernel<Unit>),
          .num_threads = Unit::kWarps * 32 + kGemmProducerThreads};
}

template <int kWeightRows, int kInputRows>
GemmKernelEntry WarpKernel(GemmEpilogue epilogue) {
  switch (epilogue) {
    case GemmEpilogue::kPlain:
      return Entry<GemmWarpUnit<kWeightRows, kInputRows, GemmEpilogue::kPlain>>();
    case GemmEpilogue::kSwiGlu:
      return Entry<GemmWarpUnit<kWeightRows, kInputRows, GemmEpilogue::kSwiGlu>>();
    case GemmEpilogue::kGeluTanh:
      if constexpr (kInputRows > kGemmGeluMaxRows) return {};
      return Entry<GemmWarpUnit<kWeightRows, kGemmGeluMaxRows, GemmEpilogue::kGeluTanh>>();
    case GemmEpilogue::kGeluErf:
      if constexpr (kInputRows > kGemmGeluMaxRows) return {};
      return Entry<GemmWarpUnit<kWeightRows, kGemmGeluMaxRows, GemmEpilogue::kGeluErf>>();
  }
  return {};
}

template <int kInputRows>
GemmKernelEntry FindWarpKernel(int weight_rows, GemmEpilogue epilogue) {
  switch (weight_rows) {
    case 16:
      return WarpKernel<16, kInputRows>(epilogue);
    case 32:
      return WarpKernel<32, kInputRows>(epilogue);
    case 48:
      return WarpKernel<48, kInputRows>(epilogue);
    case 64:
      return WarpKernel<64, kInputRows>(epilogue);
    case 96:
      return WarpKernel<96, kInputRows>(epilogue);
    case 192:
      return WarpKernel<192, kInputRows>(epilogue);
    default:
      return {};
  }
}

// Narrow tiles have no SwiGLU, nor have tiles of few input rows.
template <int kWeightRows, int kInputRows>
GemmKernelEntry GroupKernel(bool gated) {
  if (!gated) return Entry<GemmWarpgroupUnit<kWeightRows, kInputRows, false>>();
  if constexpr (kWeightRows >= 32 && kInputRows >= 64) {
    return Entry<GemmWarpgroupUnit<kWeightRows, kInputRows, true>>();
  } else {
    return {};
  }
}

// Those of the heights that suit so many input rows.
template <int kInputRows, int... kWeightRows>
GemmKernelEntry FindGroupKernel(int weight_rows, bool gated) {
  GemmKernelEntry entry;
  ((weight_rows == kWeightRows ? void(entry = GroupKernel<kWeightRows, kInputRows>(gated))
                               : void()),
   ...);
  return entry;
}

}  // namespace

GemmKernelEntry FindGemmKernel(const GemmTiling& tiling, GemmEpilogue epilogue) {
  const bool by_warps = tiling.unit == GemmUnit::kWarp;
  const bool gated = epilogue == GemmEpilogue::kSwiGlu;
  if (!by_warps && !gated && epilogue != GemmEpilogue::kPlain) return {};
  switch (tiling.input_rows) {
    case 16:
      return by_warps
                 ? FindWarpKernel<16>(tiling.weight_rows, epilogue)
                 : FindGroupKernel<16, 16, 24, 32, 48, 64, 96, 128, 192>(tiling.weight_rows, gated);
    case 32:
      return by_warps ? FindWarpKernel<32>(tiling.weight_rows, epilogue) : GemmKernelEntry{};
    case 64:
      return by_warps
                 ? GemmKernelEntry{}
                 : FindGroupKernel<64, 16, 24, 32, 48, 64, 96, 128, 192>(tiling.weight_rows, gated);
    case 128:
      return by_warps ? GemmKernelEntry{}
                      : FindGroupKernel<128, 16, 32, 48, 64, 96, 128, 160, 192, 224, 256>(
                            tiling.weight_rows, gated);
    case 192:
      return by_warps ? GemmKernelEntry{}
                      : FindGroupKernel<192, 64, 96, 128, 160, 192>(tiling.weight_rows, gated);
    case 256:
      return by_warps ? GemmKernelEntry{}
                      : FindGroupKernel<256, 64, 96, 128>(tiling.weight_rows, gated);
    default:
      return {};
  }
}

}  // namespace lockstep::kernels
