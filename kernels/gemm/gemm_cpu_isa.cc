#include "kernels/core/simd.h"
#include "kernels/gemm/gemm_isa.h"
#include "kernels/gemm/packed_matrix.h"

// A tile keeps one accumulator per output element in registers over all of k. Its shape is chosen
// for speed only: every shape walks the same chain per element.
namespace lockstep::kernels::LOCKSTEP_ISA {
namespace {

constexpr int kVectorsPerPanel = kPanelOutputs / kLanes;

// Rows of the largest tile: as many accumulators as the registers hold.
#if LOCKSTEP_ISA_LEVEL == 2
constexpr int kMaxTileRows = 12;
#elif LOCKSTEP_ISA_LEVEL == 1
constexpr int kMaxTileRows = 3;
#else
constexpr int kMaxTileRows = 2;
#endif
// Panels that a tile of few rows takes side by side, so that enough chains are in flight.
constexpr int PanelsOfTile(int num_rows) {
  if (LOCKSTEP_ISA_LEVEL < 2) return 1;
  return num_rows == 1 ? 4 : num_rows <= 6 ? 2 : 1;
}

// How far ahead of its use a weight is asked for. Measured: a quarter to a half off the time of a
// tile of few rows, whose weights come from memory.
constexpr int64_t kPrefetchBytes = 4096;

template <int kRows, int kPanels>
struct Accumulators {
  F32x16 sum[kRows][kPanels][kVectorsPerPanel];
};

template <int kRows, int kPanels>
LOCKSTEP_INLINE void SetZero(Accumulators<kRows, kPanels>& accumulators) {
  for (auto& row : accumulators.sum) {
    for (auto& panel : row) {
      for (F32x16& sum : panel) sum = Zero();
    }
  }
}

struct TileOperands {
  const BFloat16* input;  // the tile's first row
  int64_t input_stride;
  const BFloat16* weights;  // its first panel
  int64_t panel_elements;
};

// Adds the products of k in [k_begin, k_end), ascending.
template <int kRows, int kPanels>
LOCKSTEP_INLINE void Accumulate(const TileOperands& operands, int64_t k_begin, int64_t k_end,
                                Accumulators<kRows, kPanels>& accumulators) {
  Accumulators<kRows, kPanels> local = accumulators;
  for (int64_t i = k_begin; i < k_end; i += 2) {
    Bf16Pairs w[kPanels][kVectorsPerPanel];
    for (int panel = 0; panel < kPanels; ++panel) {
      const BFloat16* from = operands.weights + panel * operands.panel_elements + i * kPanelOutputs;
      for (int vector = 0; vector < kVectorsPerPanel; ++vector, from += 2 * kLanes) {
        Prefetch(from, kPrefetchBytes);
        w[panel][vector] = LoadPairs(from);
      }
    }
    for (int row = 0; row < kRows; ++row) {
      const Bf16Pairs a = BroadcastPair(operands.input + row * operands.input_stride + i);
      for (int panel = 0; panel < kPanels; ++panel) {
        for (int vector = 0; vector < kVectorsPerPanel; ++vector) {
          F32x16& sum = local.sum[row][panel][vector];
          sum = DotPairs(w[panel][vector], a, sum);
        }
      }
    }
  }
  accumulators = local;
}

// Adds the bias, rounds and stores what one vector holds of a row: 16 outputs, or those up to n.
LOCKSTEP_INLINE void StoreOutputs(const GemmParams& params, int64_t row, int64_t first_output,
                                  F32x16 sum) {
  const int64_t num_left = params.weights.n - first_output;
  const int64_t offset = row * params.output_stride + first_output;
  if (num_left >= kLanes) {
    if (params.bias != nullptr) sum = Add(sum, Load(params.bias + first_output));
    if (params.output_f32 != nullptr) {
      Store(sum, params.output_f32 + offset);
    } else {
      StoreBf16(sum, params.output + offset);
    }
    return;
  }
  float values[kLanes];
  Store(sum, values);
  for (int64_t i = 0; i < num_left; ++i) {
    if (params.bias != nullptr) values[i] += params.bias[first_output + i];
    if (params.output_f32 != nullptr) {
      params.output_f32[offset + i] = values[i];
    } else {
      params.output[offset + i] = ToBFloat16(values[i]);
    }
  }
}

template <int kRows, int kPanels>
void ComputeTile(const GemmParams& params, int64_t row_begin, int64_t panel_begin) {
  const int64_t k = params.weights.k;
  const TileOperands operands = {.input = params.input + row_begin * params.input_stride,
                                 .input_stride = params.input_stride,
                                 .weights = params.weights.data + panel_begin * kPanelOutputs * k,
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
  Accumulate(operands, 0, split, accumulators);
  if (split < k) {
    Accumulators<kRows, kPanels> second;
    SetZero(second);
    Accumulate(operands, split, k, second);
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
  Accumulate(operands, 0, k, accumulators);
#endif
  for (int row = 0; row < kRows; ++row) {
    for (int panel = 0; panel < kPanels; ++panel) {
      for (int vector = 0; vector < kVectorsPerPanel; ++vector) {
        const int64_t first_output = (panel_begin + panel) * kPanelOutputs + vector * kLanes;
        if (first_output >= params.weights.n) break;
        StoreOutputs(params, row_begin + row, first_output, accumulators.sum[row][panel][vector]);
      }
    }
  }
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

template <int kRows>
void ComputeRowsOf(int num_rows, const GemmParams& params, int64_t row_begin, int64_t panel_begin,
                   int64_t panel_end) {
  if (num_rows == kRows) {
    ComputeRows<kRows>(params, row_begin, panel_begin, panel_end);
  } else if constexpr (kRows > 1) {
    ComputeRowsOf<kRows - 1>(num_rows, params, row_begin, panel_begin, panel_end);
  }
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
      ComputeRowsOf<kMaxTileRows>(static_cast<int>(row_end - row_begin), params, row_begin, panel,
                                  panel + panel_step);
    }
  }
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
