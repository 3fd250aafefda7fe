#pragma once

#include <cstdint>

#include "kernels/core/simd.h"
#include "kernels/gemm/packed_matrix.h"

// Tiles of a product, for the files that are compiled once per instruction set. A tile keeps one
// accumulator per output element in registers over all of k. Its shape is chosen for speed only:
// every shape walks the same chain per element.
namespace lockstep::kernels::LOCKSTEP_ISA {

inline constexpr int kVectorsPerPanel = kPanelOutputs / kLanes;

// Rows of the largest tile: as many accumulators as the registers hold.
#if LOCKSTEP_ISA_LEVEL == 2
inline constexpr int kMaxTileRows = 12;
#elif LOCKSTEP_ISA_LEVEL == 1
inline constexpr int kMaxTileRows = 3;
#else
inline constexpr int kMaxTileRows = 2;
#endif

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

struct TileInput {
  const BFloat16* data;  // the tile's first row
  int64_t stride;
};

// Adds the products of k in [k_begin, k_end), ascending. `weights.Load(i, panel, vector)` gives the
// pairs of k = i for 16 outputs of one of the tile's panels.
template <int kRows, int kPanels, typename Weights>
LOCKSTEP_INLINE void Accumulate(const TileInput& input, const Weights& weights, int64_t k_begin,
                                int64_t k_end, Accumulators<kRows, kPanels>& accumulators) {
  Accumulators<kRows, kPanels> local = accumulators;
  for (int64_t i = k_begin; i < k_end; i += 2) {
    Bf16Pairs w[kPanels][kVectorsPerPanel];
    for (int panel = 0; panel < kPanels; ++panel) {
      for (int vector = 0; vector < kVectorsPerPanel; ++vector) {
        w[panel][vector] = weights.Load(i, panel, vector);
      }
    }
    for (int row = 0; row < kRows; ++row) {
      const Bf16Pairs a = BroadcastPair(input.data + row * input.stride + i);
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
// `Params`: GemmParams, or others with the same bias and outputs.
template <typename Params>
LOCKSTEP_INLINE void StoreOutputs(const Params& params, int64_t row, int64_t first_output,
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

// Stores what a tile of rows from `row_begin` and panels from `panel_begin` has summed up.
template <int kRows, int kPanels, typename Params>
LOCKSTEP_INLINE void StoreTile(const Params& params, int64_t row_begin, int64_t panel_begin,
                               const Accumulators<kRows, kPanels>& accumulators) {
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
struct TileRows {
  static constexpr int kCount = kRows;
};

// Calls body(TileRows<num_rows>) for 1 <= num_rows <= kMaxRows.
template <int kMaxRows, typename Body>
LOCKSTEP_INLINE void WithTileRows(int num_rows, const Body& body) {
  if (num_rows == kMaxRows) {
    body(TileRows<kMaxRows>());
  } else if constexpr (kMaxRows > 1) {
    WithTileRows<kMaxRows - 1>(num_rows, body);
  }
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
