#include "kernels/formats/panels/expand_panel.h"
#include "kernels/formats/panels/panel_gemm_isa.h"
#include "kernels/formats/panels/panel_wide.h"
#include "kernels/gemm/gemm_tile.h"

namespace lockstep::kernels::LOCKSTEP_ISA {
namespace {

// Columns that are expanded at a time: they stay in the first cache while all rows use them.
constexpr int64_t kExpandedColumns = 256;

// Expanded columns of a panel.
struct ExpandedColumns {
  alignas(64) BFloat16 pairs[kExpandedColumns * kPanelOutputs];

  LOCKSTEP_INLINE Bf16Pairs Load(int64_t i, int, int vector) const {
    return LoadPairs(pairs + i * kPanelOutputs + vector * 2 * kLanes);
  }
};

// Adds the products of some columns to the sums of a tile of rows.
template <int kRows>
void AddExpandedTile(const TileInput& input, const ExpandedColumns& weights, int64_t num_columns,
                     RowSums* sums) {
  Accumulators<kRows, 1> accumulators;
  for (int row = 0; row < kRows; ++row) {
    for (int vector = 0; vector < kVectorsPerPanel; ++vector) {
      accumulators.sum[row][0][vector] = sums[row].sum[vector];
    }
  }
  Accumulate(input, weights, 0, num_columns, accumulators);
  for (int row = 0; row < kRows; ++row) {
    for (int vector = 0; vector < kVectorsPerPanel; ++vector) {
      sums[row].sum[vector] = accumulators.sum[row][0][vector];
    }
  }
}

// The products of a panel on every processor and for all scales.
void AddExpanded(const PanelRows& rows, const PanelMatrix& weights, int64_t panel, RowSums* sums) {
  const int64_t step_columns = StepColumns(weights.layout.kind);
  const int64_t num_tiles = (rows.count + kMaxTileRows - 1) / kMaxTileRows;
  ExpandedColumns expanded;
  for (int64_t column = 0; column < weights.k; column += kExpandedColumns) {
    int64_t num_columns = weights.k - column;
    if (num_columns > kExpandedColumns) num_columns = kExpandedColumns;
    ExpandPanel(weights, panel, column / step_columns,
                (column + num_columns + step_columns - 1) / step_columns, expanded.pairs);
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      // Tiles of nearly equal height, as those of Gemm.
      const int64_t begin = rows.count * tile / num_tiles;
      const int64_t end = rows.count * (tile + 1) / num_tiles;
      const TileInput input = {.data = rows.input + begin * rows.stride + column,
                               .stride = rows.stride};
      WithTileRows<kMaxTileRows>(static_cast<int>(end - begin), [&](auto tile_rows) {
        AddExpandedTile<decltype(tile_rows)::kCount>(input, expanded, num_columns, sums + begin);
      });
    }
  }
}

}  // namespace

void ComputePanelBlock(const PanelGemmParams& params, const PanelGemmBlock& block) {
  const PanelRows rows = {.input = params.input + block.row_begin * params.input_stride,
                          .stride = params.input_stride,
                          .count = block.row_end - block.row_begin};
  const bool is_wide = params.weights.layout.is_fused && WideIsExact();
  RowSums sums[kPanelBlockRows];
  for (int64_t panel = block.panel_begin; panel < block.panel_end; ++panel) {
    for (int64_t row = 0; row < rows.count; ++row) {
      for (F32x16& sum : sums[row].sum) sum = Zero();
    }
    if (is_wide) {
      const FlushSubnormals flush;
      AddWide(rows, params.weights, panel, sums);
    } else {
      AddExpanded(rows, params.weights, panel, sums);
    }
    for (int64_t row = 0; row < rows.count; ++row) {
      Accumulators<1, 1> accumulators;
      for (int vector = 0; vector < kVectorsPerPanel; ++vector) {
        accumulators.sum[0][0][vector] = sums[row].sum[vector];
      }
      StoreTile(params, block.row_begin + row, panel, accumulators);
    }
  }
}

void TellDecodesInRegisters(bool* answer) { *answer = WideIsExact(); }

}  // namespace lockstep::kernels::LOCKSTEP_ISA
