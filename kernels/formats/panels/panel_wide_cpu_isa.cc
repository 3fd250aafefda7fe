#include "kernels/formats/panels/panel_wide.h"
#include "kernels/formats/panels/with_code_kind.h"
#if LOCKSTEP_ISA_LEVEL > 0
#include "kernels/formats/panels/panel_decode.h"
#endif

namespace lockstep::kernels::LOCKSTEP_ISA {
#if LOCKSTEP_ISA_LEVEL > 0
namespace {

// Rows that take the weights from the registers.
constexpr int kMaxDirectRows = 2;
// Vectors of outputs that are decoded side by side: as many as there are registers for.
constexpr int kDirectVectors = LOCKSTEP_ISA_LEVEL == 2 ? 2 : 1;
// Columns of the input that are widened at a time.
constexpr int64_t kDirectColumns = 512;
// Columns that are decoded at a time for many rows. They stay in the first cache.
constexpr int64_t kDecodedColumns = 128;

void Widen(const BFloat16* from, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(LoadBf16(from + i), to + i);
  for (; i < count; ++i) to[i] = ToFloat(from[i]);
}

// Columns of some rows in fp32.
template <int kRows, int64_t kColumns>
struct WideInput {
  alignas(64) float values[kRows][kColumns];

  void Read(const PanelRows& rows, int64_t first_row, int64_t num_rows, int64_t column,
            int64_t num_columns) {
    for (int64_t row = 0; row < num_rows; ++row) {
      Widen(rows.input + (first_row + row) * rows.stride + column, num_columns, values[row]);
    }
  }
};

using DirectInput = WideInput<kMaxDirectRows, kDirectColumns>;
using TileOfInput = WideInput<kMaxTileRows, kDecodedColumns>;

// `kVectors` times 16 outputs from `output` on.
template <typename Decoder, int kRows, int kVectors>
[[gnu::noinline]] void AddDirectly(const PanelColumns& columns, int output,
                                   const DirectInput& input, RowSums* sums) {
  const int first_vector = output / kLanes;
  F32x16 local[kRows][kVectors];
  for (int row = 0; row < kRows; ++row) {
    for (int vector = 0; vector < kVectors; ++vector) {
      local[row][vector] = sums[row].sum[first_vector + vector];
    }
  }
  DecodeColumns<Decoder, kVectors>(columns, output,
                                   [&](int64_t pair, const WidePairs(&weights)[kVectors]) {
                                     for (int row = 0; row < kRows; ++row) {
                                       const float* const values = input.values[row] + 2 * pair;
                                       DotWide(weights, values[0], values[1], local[row]);
                                     }
                                   });
  for (int row = 0; row < kRows; ++row) {
    for (int vector = 0; vector < kVectors; ++vector) {
      sums[row].sum[first_vector + vector] = local[row][vector];
    }
  }
}

struct DecodedColumns {
  WidePairs pairs[kDecodedColumns / 2][kVectorsPerPanel];
};

template <int kRows>
[[gnu::noinline]] void AddDecodedTile(const TileOfInput& input, const DecodedColumns& weights,
                                      int64_t num_pairs, RowSums* sums) {
  F32x16 local[kRows][kVectorsPerPanel];
  for (int row = 0; row < kRows; ++row) {
    for (int vector = 0; vector < kVectorsPerPanel; ++vector) {
      local[row][vector] = sums[row].sum[vector];
    }
  }
  for (int64_t pair = 0; pair < num_pairs; ++pair) {
    WidePairs w[kVectorsPerPanel];
    for (int i = 0; i < kVectorsPerPanel; ++i) w[i] = weights.pairs[pair][i];
    for (int row = 0; row < kRows; ++row) {
      const float* const values = input.values[row] + 2 * pair;
      DotWide(w, values[0], values[1], local[row]);
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int vector = 0; vector < kVectorsPerPanel; ++vector) {
      sums[row].sum[vector] = local[row][vector];
    }
  }
}

template <typename Decoder>
void AddFewRows(const PanelRows& rows, PanelColumns columns, int64_t k, RowSums* sums) {
  DirectInput input;
  for (columns.begin = 0; columns.begin < k; columns.begin = columns.end) {
    columns.end = columns.begin + kDirectColumns < k ? columns.begin + kDirectColumns : k;
    input.Read(rows, 0, rows.count, columns.begin, columns.end - columns.begin);
    WithTileRows<kMaxDirectRows>(static_cast<int>(rows.count), [&](auto tile_rows) {
      for (int output = 0; output < kPanelOutputs; output += kDirectVectors * kLanes) {
        AddDirectly<Decoder, decltype(tile_rows)::kCount, kDirectVectors>(columns, output, input,
                                                                          sums);
      }
    });
  }
}

template <typename Decoder>
void AddManyRows(const PanelRows& rows, PanelColumns columns, int64_t k, RowSums* sums) {
  const int64_t num_tiles = (rows.count + kMaxTileRows - 1) / kMaxTileRows;
  DecodedColumns decoded;
  TileOfInput input;
  for (columns.begin = 0; columns.begin < k; columns.begin = columns.end) {
    columns.end = columns.begin + kDecodedColumns < k ? columns.begin + kDecodedColumns : k;
    const int64_t num_columns = columns.end - columns.begin;
    DecodeColumns<Decoder, kVectorsPerPanel>(
        columns, 0, [&](int64_t pair, const WidePairs(&weights)[kVectorsPerPanel]) {
          for (int i = 0; i < kVectorsPerPanel; ++i) decoded.pairs[pair][i] = weights[i];
        });
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      // Tiles of nearly equal height, as those of Gemm.
      const int64_t begin = rows.count * tile / num_tiles;
      const int64_t num_rows = rows.count * (tile + 1) / num_tiles - begin;
      input.Read(rows, begin, num_rows, columns.begin, num_columns);
      WithTileRows<kMaxTileRows>(static_cast<int>(num_rows), [&](auto tile_rows) {
        AddDecodedTile<decltype(tile_rows)::kCount>(input, decoded, num_columns / 2, sums + begin);
      });
    }
  }
}

// Not inlined, so that no arithmetic leaves the scope of the caller's FlushSubnormals.
template <typename Decoder>
[[gnu::noinline]] void AddRows(const PanelRows& rows, const PanelMatrix& weights, int64_t panel,
                               RowSums* sums) {
  const PanelColumns columns = {.layout = weights.layout,
                                .panel = weights.data + panel * weights.layout.panel_bytes,
                                .begin = 0,
                                .end = 0};
  if (rows.count <= kMaxDirectRows) {
    AddFewRows<Decoder>(rows, columns, weights.k, sums);
  } else {
    AddManyRows<Decoder>(rows, columns, weights.k, sums);
  }
}

}  // namespace

void AddWide(const PanelRows& rows, const PanelMatrix& weights, int64_t panel, RowSums* sums) {
#if LOCKSTEP_ISA_LEVEL == 2
  if (ShortInt4Decoder::Takes(weights.layout)) {
    return AddRows<ShortInt4Decoder>(rows, weights, panel, sums);
  }
#endif
  if (weights.layout.is_exact) return AddRows<ExactFp4Decoder>(rows, weights, panel, sums);
  WithCodeKind(weights.layout.kind, [&](auto kind) {
    AddRows<DecoderOf<decltype(kind)::kKind>>(rows, weights, panel, sums);
  });
}

#else

// WideIsExact says no.
void AddWide(const PanelRows&, const PanelMatrix&, int64_t, RowSums*) {}

#endif
}  // namespace lockstep::kernels::LOCKSTEP_ISA
