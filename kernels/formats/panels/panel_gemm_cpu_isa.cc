#include "kernels/formats/panels/expand_panel.h"
#include "kernels/formats/panels/panel_gemm_isa.h"
#include "kernels/gemm/gemm_tile.h"
#if LOCKSTEP_ISA_LEVEL > 0
#include "kernels/formats/panels/panel_decode.h"
#endif

namespace lockstep::kernels::LOCKSTEP_ISA {
namespace {

// Columns that are expanded at a time: they stay in the first cache while all rows use them.
constexpr int64_t kChunkColumns = 256;

// Expanded columns of a panel.
struct PanelChunk {
  alignas(64) BFloat16 pairs[kChunkColumns * kPanelOutputs];

  LOCKSTEP_INLINE Bf16Pairs Load(int64_t i, int, int vector) const {
    return LoadPairs(pairs + i * kPanelOutputs + vector * 2 * kLanes);
  }
};

// Adds the products of a chunk to the sums of some rows. `input`: the first row, from the chunk's
// first column on.
template <int kRows>
void AddChunk(const TileInput& input, const PanelChunk& chunk, int64_t num_columns,
              F32x16 (*sums)[kVectorsPerPanel]) {
  Accumulators<kRows, 1> accumulators;
  for (int row = 0; row < kRows; ++row) {
    for (int vector = 0; vector < kVectorsPerPanel; ++vector) {
      accumulators.sum[row][0][vector] = sums[row][vector];
    }
  }
  Accumulate(input, chunk, 0, num_columns, accumulators);
  for (int row = 0; row < kRows; ++row) {
    for (int vector = 0; vector < kVectorsPerPanel; ++vector) {
      sums[row][vector] = accumulators.sum[row][0][vector];
    }
  }
}

#if LOCKSTEP_ISA_LEVEL > 0

// Rows that take the weights from registers.
constexpr int kMaxDirectRows = LOCKSTEP_ISA_LEVEL == 2 ? 6 : 2;

template <CodeKind kKind, int kRows>
void ComputeDirectly(const PanelGemmParams& params, int64_t row_begin, int64_t panel) {
  const PanelLayout& layout = params.weights.layout;
  const BFloat16* const input = params.input + row_begin * params.input_stride;
  const int64_t stride = params.input_stride;
  Accumulators<kRows, 1> accumulators;
  SetZero(accumulators);
  DecodeSteps<kKind>(layout, params.weights.data + panel * layout.panel_bytes, params.weights.k / 2,
                     0, layout.num_steps, [&](int64_t pair, int vector, const Bf16Pairs& pairs) {
                       for (int row = 0; row < kRows; ++row) {
                         F32x16& sum = accumulators.sum[row][0][vector];
                         sum = DotPairs(pairs, BroadcastPair(input + row * stride + 2 * pair), sum);
                       }
                     });
  StoreTile(params, row_begin, panel, accumulators);
}

template <CodeKind kKind>
void ExpandFused(const PanelMatrix& matrix, int64_t panel, int64_t step_begin, int64_t step_end,
                 BFloat16* pairs) {
  const int64_t first_pair = step_begin * StepColumns(kKind) / 2;
  DecodeSteps<kKind>(
      matrix.layout, matrix.data + panel * matrix.layout.panel_bytes, matrix.k / 2, step_begin,
      step_end, [&](int64_t pair, int vector, const Bf16Pairs& w) {
        StorePairs(w, pairs + (pair - first_pair) * 2 * kPanelOutputs + vector * 2 * kLanes);
      });
}

struct FusedFunctions {
  void (*compute)(const PanelGemmParams& params, int num_rows, int64_t row_begin, int64_t panel);
  decltype(&ExpandFused<CodeKind::kInt4>) expand;
};

template <CodeKind kKind>
FusedFunctions FunctionsOf() {
  return {[](const PanelGemmParams& params, int num_rows, int64_t row_begin, int64_t panel) {
            WithTileRows<kMaxDirectRows>(num_rows, [&](auto rows) {
              ComputeDirectly<kKind, decltype(rows)::kCount>(params, row_begin, panel);
            });
          },
          ExpandFused<kKind>};
}

FusedFunctions FunctionsOf(CodeKind kind) {
  switch (kind) {
    case CodeKind::kInt4:
      return FunctionsOf<CodeKind::kInt4>();
    case CodeKind::kInt8:
      return FunctionsOf<CodeKind::kInt8>();
    case CodeKind::kFp8E4M3:
      return FunctionsOf<CodeKind::kFp8E4M3>();
    case CodeKind::kFp4E2M1:
      return FunctionsOf<CodeKind::kFp4E2M1>();
    case CodeKind::kInt4Min:
      return FunctionsOf<CodeKind::kInt4Min>();
    case CodeKind::kInt5:
      return FunctionsOf<CodeKind::kInt5>();
    case CodeKind::kInt5Min:
      return FunctionsOf<CodeKind::kInt5Min>();
    case CodeKind::kInt6:
      return FunctionsOf<CodeKind::kInt6>();
  }
  return {};
}

#endif

void Expand(const PanelMatrix& matrix, int64_t panel, int64_t step_begin, int64_t step_end,
            BFloat16* pairs) {
#if LOCKSTEP_ISA_LEVEL > 0
  if (matrix.layout.is_fused) {
    FunctionsOf(matrix.layout.kind).expand(matrix, panel, step_begin, step_end, pairs);
    return;
  }
#endif
  ExpandPanel(matrix, panel, step_begin, step_end, pairs);
}

void ComputeExpanded(const PanelGemmParams& params, int64_t row_begin, int64_t row_end,
                     int64_t panel) {
  const PanelMatrix& weights = params.weights;
  const int64_t step_columns = StepColumns(weights.layout.kind);
  const int64_t num_rows = row_end - row_begin;
  const int64_t num_tiles = (num_rows + kMaxTileRows - 1) / kMaxTileRows;
  PanelChunk chunk;
  F32x16 sums[kPanelBlockRows][kVectorsPerPanel];
  for (int64_t row = 0; row < num_rows; ++row) {
    for (F32x16& sum : sums[row]) sum = Zero();
  }
  for (int64_t column = 0; column < weights.k; column += kChunkColumns) {
    int64_t num_columns = weights.k - column;
    if (num_columns > kChunkColumns) num_columns = kChunkColumns;
    Expand(weights, panel, column / step_columns,
           (column + num_columns + step_columns - 1) / step_columns, chunk.pairs);
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      // Tiles of nearly equal height, as those of Gemm.
      const int64_t begin = num_rows * tile / num_tiles;
      const int64_t end = num_rows * (tile + 1) / num_tiles;
      const TileInput input = {
          .data = params.input + (row_begin + begin) * params.input_stride + column,
          .stride = params.input_stride};
      WithTileRows<kMaxTileRows>(static_cast<int>(end - begin), [&](auto rows) {
        AddChunk<decltype(rows)::kCount>(input, chunk, num_columns, sums + begin);
      });
    }
  }
  for (int64_t row = 0; row < num_rows; ++row) {
    Accumulators<1, 1> accumulators;
    for (int vector = 0; vector < kVectorsPerPanel; ++vector) {
      accumulators.sum[0][0][vector] = sums[row][vector];
    }
    StoreTile(params, row_begin + row, panel, accumulators);
  }
}

}  // namespace

void ComputePanelBlock(const PanelGemmParams& params, const PanelGemmBlock& block) {
  for (int64_t panel = block.panel_begin; panel < block.panel_end; ++panel) {
#if LOCKSTEP_ISA_LEVEL > 0
    const int64_t num_rows = block.row_end - block.row_begin;
    if (params.weights.layout.is_fused && num_rows <= kMaxDirectRows) {
      FunctionsOf(params.weights.layout.kind)
          .compute(params, static_cast<int>(num_rows), block.row_begin, panel);
      continue;
    }
#endif
    ComputeExpanded(params, block.row_begin, block.row_end, panel);
  }
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
