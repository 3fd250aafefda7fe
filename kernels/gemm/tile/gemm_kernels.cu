#include <type_traits>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tile/gemm_swapped_unit.cuh"
#include "kernels/gemm/tile/gemm_task.h"
#include "kernels/gemm/tile/gemm_tile.cuh"
#include "kernels/gemm/tile/gemm_warpgroup_unit.cuh"

namespace lockstep::kernels {
namespace {

template <typename Unit>
GemmKernelEntry Entry() {
  return {.function = reinterpret_cast<const void*>(GemmKernel<Unit>),
          .num_threads = Unit::kWarps * 32 + kGemmProducerThreads};
}

// Only gated products swap more than kMaxSwappedRows.
template <int kInputRows, int kWeightRows, bool kHolds>
GemmKernelEntry SwappedKernel(GemmEpilogue epilogue) {
  constexpr auto entry = [](auto of) {
    return Entry<GemmSwappedUnit<kWeightRows, kInputRows, of(), kHolds>>();
  };
  if (epilogue == GemmEpilogue::kSwiGlu) {
    return entry(std::integral_constant<GemmEpilogue, GemmEpilogue::kSwiGlu>());
  }
  if constexpr (kInputRows <= kMaxSwappedRows) {
    switch (epilogue) {
      case GemmEpilogue::kPlain:
        return entry(std::integral_constant<GemmEpilogue, GemmEpilogue::kPlain>());
      case GemmEpilogue::kGeluTanh:
        return entry(std::integral_constant<GemmEpilogue, GemmEpilogue::kGeluTanh>());
      case GemmEpilogue::kGeluErf:
        return entry(std::integral_constant<GemmEpilogue, GemmEpilogue::kGeluErf>());
      case GemmEpilogue::kSwiGlu:
        break;
    }
  }
  return {};
}

// Narrow tiles have no SwiGLU.
template <int kInputRows, int kWeightRows>
GemmKernelEntry GroupKernel(GemmEpilogue epilogue) {
  if (epilogue == GemmEpilogue::kPlain) {
    return Entry<GemmWarpgroupUnit<kWeightRows, kInputRows, false>>();
  }
  if constexpr (kWeightRows >= 32) {
    if (epilogue == GemmEpilogue::kSwiGlu) {
      return Entry<GemmWarpgroupUnit<kWeightRows, kInputRows, true>>();
    }
  }
  return {};
}

// find(std::integral_constant<int, height>()), if `height` is one of kHeights.
template <int... kHeights, typename Find>
GemmKernelEntry OfHeight(int height, const Find& find) {
  GemmKernelEntry entry;
  ((height == kHeights ? void(entry = find(std::integral_constant<int, kHeights>())) : void()),
   ...);
  return entry;
}
template <int kInputRows, bool kHolds = false>
GemmKernelEntry FindSwapped(int height, GemmEpilogue epilogue) {
  return OfHeight<16, 32, 48, 64>(height, [&](auto weight_rows) {
    return SwappedKernel<kInputRows, weight_rows(), kHolds>(epilogue);
  });
}
template <int kInputRows, int... kHeights>
GemmKernelEntry FindGroup(int height, GemmEpilogue epilogue) {
  return OfHeight<kHeights...>(
      height, [&](auto weight_rows) { return GroupKernel<kInputRows, weight_rows()>(epilogue); });
}

}  // namespace

GemmKernelEntry FindGemmKernel(const GemmTiling& tiling, GemmEpilogue epilogue) {
  const int height = tiling.weight_rows;
  if (tiling.held_input_blocks > 0) {
    if (tiling.unit != GemmUnit::kSwapped || tiling.input_rows != 8) return {};
    return FindSwapped<8, /*kHolds=*/true>(height, epilogue);
  }
  if (tiling.unit == GemmUnit::kSwapped) {
    switch (tiling.input_rows) {
      case 8:
        return FindSwapped<8>(height, epilogue);
      case 16:
        return FindSwapped<16>(height, epilogue);
      case 32:
        return FindSwapped<32>(height, epilogue);
      default:
        return {};
    }
  }
  switch (tiling.input_rows) {
    case 64:
      return FindGroup<64, 16, 24, 32, 48, 64, 96, 128, 192>(height, epilogue);
    case 128:
      return FindGroup<128, 16, 32, 48, 64, 96, 128, 160, 192, 224, 256>(height, epilogue);
    case 192:
      return FindGroup<192, 64, 96, 128, 160, 192>(height, epilogue);
    case 256:
      return FindGroup<256, 64, 96, 128>(height, epilogue);
    default:
      return {};
  }
}

}  // namespace lockstep::kernels
