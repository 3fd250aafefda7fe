#include "kernels/gemm/gemm_isa.h"
#include "kernels/gemm/gemm_tile.h"

namespace lockstep::kernels::LOCKSTEP_ISA {
namespace {

// Panels that a tile of few rows takes side by side, so that enough chains are in flight.
constexpr int PanelsOfTile(int num_rows) {
  if (LOCKSTEP_ISA_LEVEL < 2) return 1;
  return num_rows == 1 ? 4 : num_rows <= 6 ? 2 : 1;
}

// How far ahead a weight is prefetched. Measured: this saves a quarter to a half of the time of a
// tile of few rows with weights from memory.
constexpr int64_t kPrefetchBytes = 4096;

// The weights of a tile, from its first panel.
struct TileWeights {
  const BFloat16* data;
  int64_t panel_elements;

  LOCKSTEP_INLINE Bf16Pairs Load(int64_t i, int panel, int vector) const {
    const BFloat16* from =
        data + panel * panel_elements + i * kPanelOutputs + vector * (2 * kLanes);
    Prefetch(from, kPrefetchBytes);
    return LoadPairs(from);
  }
};

template <int kRows, int kPanels>
void ComputeTile(const GemmParams& params, int64_t row_begin, int64_t panel_begin) {
  const int64_t k = params.weights.k;
  const TileInput input = {.data = params.input + row_begin * params.input_stride,
                           .stride = params.input_stride};
  const TileWeights weights = {.data = params.weights.data + panel_begin * kPanelOutputs * k,
                               .panel_elements = kPanelOutputs * k};
  Accumulators<kRows, kPanels> accumulators;
  SetZero(accumulators);
#if defined(LOCKSTEP_PLANT_SPLIT_K)
  // The faults that tests must find: few rows split k in two, as a careless kernel for them would,
  // or few outputs do, as a library's plan for the narrow matrix of a tensor-parallel rank might.
#if defined(LOCKSTEP_PLANT_IN_FEW_OUTPUTS)
  const bool splits = params.weights.n < 64;
#else
  const bool splits = params.num_rows <= 4;
#endif
  const int64_t split = splits ? k / 4 * 2 : k;
  Accumulate(input, weights, 0, split, accumulators);
  if (split < k) {
    Accumulators<kRows, kPanels> second;
    SetZero(second);
    Accumulate(input, weights, split, k, second);
    for (int row = 0; row < kRows; ++row) {
      for (int panel = 0; panel < kPanels; ++panel) {
        for (int vector = 0; vector < kVectorsPerPanel; ++vector) {
          F32x16& sum = accumulators.sum[row][panel][vector];
          sum = Add(sum, second.sum[row][panel][vector]);
        }
      }
    }
  }
#else
  Accumulate(input, weights, 0, k, accumulators);
#endif
  StoreTile(params, row_begin, panel_begin, accumulators);
}

template <int kRows>
void ComputeRows(const GemmParams& params, int64_t row_begin, int64_t panel_begin,
                 int64_t panel_end) {
  constexpr int kPanels = PanelsOfTile(kRows);
  int64_t panel = panel_begin;
  for (; panel + kPanels <= panel_end; panel += kPanels) {
    ComputeTile<kRows, kPanels>(params, row_begin, panel);
  }
  for (; panel < panel_end; ++panel) ComputeTile<kRows, 1>(params, row_begin, panel);
}

}  // namespace

void ComputeGemmBlock(const GemmParams& params, const GemmBlock& block) {
  const int64_t num_rows = block.row_end - block.row_begin;
  const int64_t num_tiles = (num_rows + kMaxTileRows - 1) / kMaxTileRows;
  // With several tiles of rows, all of them take a panel while it is in the cache.
  const int64_t panel_step = num_tiles == 1 ? block.panel_end - block.panel_begin : 1;
  for (int64_t panel = block.panel_begin; panel < block.panel_end; panel += panel_step) {
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      // Tiles of nearly equal height: 13 rows run as 6 + 7, not as 12 + 1.
      const int64_t row_begin = block.row_begin + num_rows * tile / num_tiles;
      const int64_t row_end = block.row_begin + num_rows * (tile + 1) / num_tiles;
      WithTileRows<kMaxTileRows>(static_cast<int>(row_end - row_begin), [&](auto rows) {
        ComputeRows<decltype(rows)::kCount>(params, row_begin, panel, panel + panel_step);
      });
    }
  }
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
