#include <limits>

#include "kernels/attention/paged_attention_isa.h"
#include "kernels/attention/paged_kv_isa.h"
#include "kernels/core/simd.h"
#include "kernels/core/vector_math.h"

// A tile is up to kMaxTileRows query rows of one sequence that share a KV head: the heads of the
// group, of one or more tokens. Rows share loads of K and V and nothing else: each runs the same
// chain of operations as it would alone, in tiles of 64 keys from position 0 up to its own
// position. With a window a row begins at the tile that holds the first key of its window. `Kv` is
// how elements are read (paged_kv_isa.h).
namespace lockstep::kernels::LOCKSTEP_ISA {
namespace {

// The rows of a tile, the key blocks that QK takes side by side, and the vectors of columns that PV
// takes side by side. Their accumulators fill the registers.
#if LOCKSTEP_ISA_LEVEL == 2
constexpr int kMaxTileRows = 6;
constexpr int kKeyBlocksAtOnce = 4;
constexpr int kColumnVectors = 4;
#elif LOCKSTEP_ISA_LEVEL == 1
constexpr int kMaxTileRows = 3;
constexpr int kKeyBlocksAtOnce = 1;
constexpr int kColumnVectors = 2;
#else
constexpr int kMaxTileRows = 2;
constexpr int kKeyBlocksAtOnce = 1;
constexpr int kColumnVectors = 1;
#endif
constexpr int64_t kBlocksPerTile = kKeyTile / kKvBlockTokens;
static_assert(kKvBlockTokens == kLanes);

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

LOCKSTEP_INLINE float Max(float a, float b) { return a > b ? a : b; }
LOCKSTEP_INLINE int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
LOCKSTEP_INLINE int64_t Larger(int64_t a, int64_t b) { return a > b ? a : b; }

struct QueryTile {
  const BFloat16* query[kMaxTileRows];  // [head_dim]
  BFloat16* output[kMaxTileRows];       // [head_dim]
  int64_t num_keys[kMaxTileRows];       // ascending
  int64_t first_key[kMaxTileRows];      // of the row's window; ascending
  const BlockId* block_table;
  int64_t kv_head;
};

// Softmax over some keys, not yet divided by its sum (arXiv 2112.05682).
struct Partial {
  float max;
  float sum[kLanes];  // key i adds to lane i mod 16
  alignas(64) float output[kMaxAttentionHeadDim];
};

struct RowState {
  Partial open;    // keys since the last border
  Partial closed;  // keys before it
  bool has_open;
  bool has_closed;
};

LOCKSTEP_INLINE void Clear(int64_t columns, Partial& partial) {
  partial.max = kMinusInfinity;
  for (float& lane : partial.sum) lane = 0.0f;
  for (int64_t i = 0; i < columns; ++i) partial.output[i] = 0.0f;
}

// Folds the open partial into the closed one and starts a new one.
void CloseSplit(int64_t columns, RowState& row) {
  if (!row.has_open) return;
  if (!row.has_closed) {
    row.closed = row.open;
  } else {
    const float max = Max(row.closed.max, row.open.max);
    const float closed_scale = Exp(row.closed.max - max);
    const float open_scale = Exp(row.open.max - max);
    row.closed.max = max;
    const F32x16 a = Broadcast(closed_scale);
    const F32x16 b = Broadcast(open_scale);
    Store(MultiplyAdd(Load(row.open.sum), b, Multiply(Load(row.closed.sum), a)), row.closed.sum);
    for (int64_t i = 0; i < columns; i += kLanes) {
      float* to = row.closed.output + i;
      Store(MultiplyAdd(Load(row.open.output + i), b, Multiply(Load(to), a)), to);
    }
  }
  row.has_closed = true;
  row.has_open = false;
  Clear(columns, row.open);
}

// Keys [begin, end) of a tile.
struct KeyRange {
  int64_t begin;
  int64_t end;
};

// One step of the online softmax: turns the scores of some keys (at least one) into weights
// relative to the new maximum, zero for all other keys, and rescales what was accumulated. Without
// a window the keys begin at 0.
template <bool kWindow>
LOCKSTEP_INLINE void SoftmaxStep(KeyRange keys, float scale, int64_t columns, float* scores,
                                 Partial& partial) {
  const int32_t first = static_cast<int32_t>(keys.begin);
  const int32_t count = static_cast<int32_t>(keys.end);
  const auto is_seen = [&](int32_t key) { return (!kWindow || key >= first) && key < count; };
  float lane_max[kLanes];
  for (float& lane : lane_max) lane = kMinusInfinity;
  for (int32_t i = 0; i < kKeyTile; i += kLanes) {
    for (int32_t j = 0; j < kLanes; ++j) {
      const float score = is_seen(i + j) ? scores[i + j] * scale : kMinusInfinity;
      scores[i + j] = score;
      lane_max[j] = Max(lane_max[j], score);
    }
  }
  for (int stride = kLanes / 2; stride > 0; stride /= 2) {
    for (int j = 0; j < stride; ++j) lane_max[j] = Max(lane_max[j], lane_max[j + stride]);
  }
  const float max = Max(partial.max, lane_max[0]);
  const float rescale = Exp(partial.max - max);
  partial.max = max;
  for (float& lane : partial.sum) lane *= rescale;
  for (int32_t i = 0; i < kKeyTile; i += kLanes) {
    for (int32_t j = 0; j < kLanes; ++j) {
      const float weight = is_seen(i + j) ? Exp(scores[i + j] - max) : 0.0f;
      scores[i + j] = weight;
      partial.sum[j] += weight;
    }
  }
  for (int64_t i = 0; i < columns; ++i) partial.output[i] *= rescale;
}

// A query tile against up to 64 keys: scores first, weights after the softmax step.
struct KeyTile {
  const QueryTile& queries;
  const PagedKv& kv;
  int64_t first_block;         // in the block table
  float (*weights)[kKeyTile];  // [rows of the query tile]
  RowState* rows;
};

// Scores of kBlocks blocks of keys: one accumulator per row and key, dims ascending.
template <typename Kv, int kRows, int kBlocks>
LOCKSTEP_INLINE void ScoreBlocks(const KeyTile& tile, int64_t block_in_tile) {
  const QueryTile& queries = tile.queries;
  typename Kv::Keys keys[kBlocks];
  for (int block = 0; block < kBlocks; ++block) {
    const BlockId id = queries.block_table[tile.first_block + block_in_tile + block];
    keys[block].Open(tile.kv, id, queries.kv_head);
  }
  F32x16 sums[kRows][kBlocks];
  for (auto& row : sums) {
    for (F32x16& sum : row) sum = Zero();
  }
  const int64_t head_dim = tile.kv.head_dim;
  for (int64_t dim = 0; dim < head_dim; dim += 2) {
    decltype(keys[0].Pairs(dim)) k[kBlocks];
    for (int block = 0; block < kBlocks; ++block) k[block] = keys[block].Pairs(dim);
    for (int row = 0; row < kRows; ++row) {
      const Bf16Pairs q = BroadcastPair(queries.query[row] + dim);
      for (int block = 0; block < kBlocks; ++block) {
        sums[row][block] = DotPairs(k[block], q, sums[row][block]);
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int block = 0; block < kBlocks; ++block) {
      Store(keys[block].Scores(sums[row][block]),
            tile.weights[row] + (block_in_tile + block) * kLanes);
    }
  }
}

// output[row] += weight[key] * V[key] for keys of the tile, ascending, on kVectors vectors of
// columns.
template <typename Kv, int kRows, int kVectors>
LOCKSTEP_INLINE void WeighColumns(const KeyTile& tile, KeyRange keys, int first_row,
                                  int64_t column) {
  RowState* rows = tile.rows + first_row;
  const float(*weights)[kKeyTile] = tile.weights + first_row;
  F32x16 sums[kRows][kVectors];
  for (int row = 0; row < kRows; ++row) {
    for (int vector = 0; vector < kVectors; ++vector) {
      sums[row][vector] = Load(rows[row].open.output + column + vector * kLanes);
    }
  }
  int64_t key = keys.begin;
  while (key < keys.end) {
    const BlockId block = tile.queries.block_table[tile.first_block + key / kKvBlockTokens];
    const typename Kv::Values values(tile.kv, block, tile.queries.kv_head);
    const int64_t block_end = Min((key / kKvBlockTokens + 1) * kKvBlockTokens, keys.end);
    for (; key < block_end; ++key) {
      const auto value = values.Token(key % kKvBlockTokens);
      F32x16 v[kVectors];
      for (int vector = 0; vector < kVectors; ++vector) {
        v[vector] = value.Columns(column + vector * kLanes);
      }
      for (int row = 0; row < kRows; ++row) {
        const F32x16 weight = Broadcast(weights[row][key]);
        for (int vector = 0; vector < kVectors; ++vector) {
          sums[row][vector] = MultiplyAdd(weight, v[vector], sums[row][vector]);
        }
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int vector = 0; vector < kVectors; ++vector) {
      Store(sums[row][vector], rows[row].open.output + column + vector * kLanes);
    }
  }
}

template <typename Kv, int kRows>
LOCKSTEP_INLINE void WeighValuesInPlace(const KeyTile& tile, KeyRange keys, int first_row) {
  const int64_t columns = ValueStride(tile.kv.head_dim);
  int64_t column = 0;
  for (; column + kColumnVectors * kLanes <= columns; column += kColumnVectors * kLanes) {
    WeighColumns<Kv, kRows, kColumnVectors>(tile, keys, first_row, column);
  }
  for (; column < columns; column += kLanes) {
    WeighColumns<Kv, kRows, 1>(tile, keys, first_row, column);
  }
}

// The same as a call, for keys that are few or seldom.
template <typename Kv, int kRows>
void WeighValues(const KeyTile& tile, KeyRange keys, int first_row) {
  WeighValuesInPlace<Kv, kRows>(tile, keys, first_row);
}

// First the keys that all rows see, then the further keys of each row. A row never touches a value
// beyond its own position, not even with a weight of zero. All rows begin at key 0.
template <typename Kv, int kRows>
LOCKSTEP_INLINE void WeighWithoutWindow(const KeyTile& tile, const KeyRange* seen) {
  const int64_t common_keys = seen[0].end;
  if (common_keys > 0) WeighValuesInPlace<Kv, kRows>(tile, {0, common_keys}, 0);
  for (int row = 1; row < kRows; ++row) {
    if (seen[row].end > common_keys) WeighValues<Kv, 1>(tile, {common_keys, seen[row].end}, row);
  }
}

template <typename Kv>
LOCKSTEP_INLINE void WeighAlone(const KeyTile& tile, KeyRange keys, int row) {
  if (keys.begin < keys.end) WeighValues<Kv, 1>(tile, keys, row);
}

// The same for windows. Each row takes its keys in ascending order, and touches no value before its
// window either. Each end of the ranges is ascending, apart from those of rows that see no key.
template <typename Kv, int kRows>
void WeighWindows(const KeyTile& tile, const KeyRange* seen) {
  KeyRange common = seen[0];
  for (int row = 1; row < kRows; ++row) {
    common = {Larger(common.begin, seen[row].begin), Min(common.end, seen[row].end)};
  }
  if (common.begin >= common.end) {
    for (int row = 0; row < kRows; ++row) WeighAlone<Kv>(tile, seen[row], row);
    return;
  }
  for (int row = 0; row < kRows; ++row) WeighAlone<Kv>(tile, {seen[row].begin, common.begin}, row);
  WeighValues<Kv, kRows>(tile, common, 0);
  for (int row = 0; row < kRows; ++row) WeighAlone<Kv>(tile, {common.end, seen[row].end}, row);
}

// Folds the keys of the tile that begins at position `tile_begin` into all rows. Reads no block
// that lies before the window of the first row.
template <typename Kv, int kRows, bool kWindow>
void AttendKeyTile(const PagedAttentionParams& params, const QueryTile& queries, int64_t tile_begin,
                   RowState* rows) {
  alignas(64) float weights[kRows][kKeyTile];
  const KeyTile tile = {queries, params.kv, tile_begin / kKvBlockTokens, weights, rows};
  const int64_t last_keys = Min(queries.num_keys[kRows - 1] - tile_begin, kKeyTile);
  const int64_t num_blocks = (last_keys + kKvBlockTokens - 1) / kKvBlockTokens;
  int64_t block = 0;
  if constexpr (kWindow) {
    block = Larger(queries.first_key[0] - tile_begin, 0) / kKvBlockTokens;
  }
  for (; block + kKeyBlocksAtOnce <= num_blocks; block += kKeyBlocksAtOnce) {
    ScoreBlocks<Kv, kRows, kKeyBlocksAtOnce>(tile, block);
  }
  for (; block < num_blocks; ++block) ScoreBlocks<Kv, kRows, 1>(tile, block);

  KeyRange seen[kRows];
  for (int row = 0; row < kRows; ++row) {
    seen[row] = {0, Min(queries.num_keys[row] - tile_begin, kKeyTile)};
    if constexpr (kWindow) seen[row].begin = Larger(queries.first_key[row] - tile_begin, 0);
    if (seen[row].end <= seen[row].begin) {
      seen[row] = {0, 0};
      continue;
    }
    rows[row].has_open = true;
    SoftmaxStep<kWindow>(seen[row], params.scale, ValueStride(params.kv.head_dim), weights[row],
                         rows[row].open);
  }
  if constexpr (kWindow) {
    WeighWindows<Kv, kRows>(tile, seen);
  } else {
    WeighWithoutWindow<Kv, kRows>(tile, seen);
  }
}

template <typename Kv, int kRows, bool kWindow>
void AttendQueryTile(const PagedAttentionParams& params, const QueryTile& tile) {
  const int64_t head_dim = params.kv.head_dim;
  const int64_t columns = ValueStride(head_dim);
  RowState rows[kRows];
  for (RowState& row : rows) {
    row.has_open = false;
    row.has_closed = false;
    Clear(columns, row.open);
  }
  int64_t tile_begin = 0;
  if constexpr (kWindow) tile_begin = tile.first_key[0] / kKeyTile * kKeyTile;
  for (; tile_begin < tile.num_keys[kRows - 1]; tile_begin += kKeyTile) {
    if (tile_begin > 0 && tile_begin % params.split_keys == 0) {
      for (RowState& row : rows) CloseSplit(columns, row);
    }
    AttendKeyTile<Kv, kRows, kWindow>(params, tile, tile_begin, rows);
  }
  for (int i = 0; i < kRows; ++i) {
    CloseSplit(columns, rows[i]);
    Partial& result = rows[i].closed;
    for (int stride = kLanes / 2; stride > 0; stride /= 2) {
      for (int j = 0; j < stride; ++j) result.sum[j] += result.sum[j + stride];
    }
    const float reciprocal = 1.0f / result.sum[0];
    for (int64_t dim = 0; dim < head_dim; ++dim) {
      tile.output[i][dim] = ToBFloat16(result.output[dim] * reciprocal);
    }
  }
}

template <typename Kv, int kRows, bool kWindow>
void AttendQueryTileOf(int num_rows, const PagedAttentionParams& params, const QueryTile& tile) {
  if (num_rows == kRows) {
    AttendQueryTile<Kv, kRows, kWindow>(params, tile);
  } else if constexpr (kRows > 1) {
    AttendQueryTileOf<Kv, kRows - 1, kWindow>(num_rows, params, tile);
  }
}

// Query rows of one sequence and KV head are numbered token by token, and within a token by the
// head of the group.
template <typename Kv>
void AttendRows(const PagedAttentionParams& params, const AttentionSequence& sequence,
                int64_t kv_head, int64_t first_row, int num_rows) {
  const int64_t group = params.num_heads / params.kv.num_kv_heads;
  QueryTile tile;
  tile.block_table = sequence.block_table;
  tile.kv_head = kv_head;
  for (int i = 0; i < num_rows; ++i) {
    const int64_t token = (first_row + i) / group;
    const int64_t head = kv_head * group + (first_row + i) % group;
    const int64_t batch_token = sequence.first_token + token;
    tile.query[i] = params.query + batch_token * params.query_stride + head * params.kv.head_dim;
    tile.output[i] = params.output + batch_token * params.output_stride + head * params.kv.head_dim;
    tile.num_keys[i] = sequence.first_position + token + 1;
  }
  if (params.window_tokens == 0) {
    AttendQueryTileOf<Kv, kMaxTileRows, false>(num_rows, params, tile);
    return;
  }
  for (int i = 0; i < num_rows; ++i) {
    tile.first_key[i] = Larger(tile.num_keys[i] - params.window_tokens, 0);
  }
  AttendQueryTileOf<Kv, kMaxTileRows, true>(num_rows, params, tile);
}

template <typename Kv>
void AttendShareOf(const PagedAttentionParams& params, int index, int num_tasks) {
  const int64_t group = params.num_heads / params.kv.num_kv_heads;
  int64_t next = index;  // counted from the first tile of the current sequence
  for (const AttentionSequence& sequence : params.sequences) {
    const int64_t num_rows = sequence.num_tokens * group;
    const int64_t tiles_per_head = (num_rows + kMaxTileRows - 1) / kMaxTileRows;
    const int64_t num_tiles = tiles_per_head * params.kv.num_kv_heads;
    for (; next < num_tiles; next += num_tasks) {
      const int64_t first_row = next % tiles_per_head * kMaxTileRows;
      AttendRows<Kv>(params, sequence, next / tiles_per_head, first_row,
                     static_cast<int>(Min(num_rows - first_row, kMaxTileRows)));
    }
    next -= num_tiles;
  }
}

}  // namespace

void AttendShare(const PagedAttentionParams& params, int index, int num_tasks) {
  if (params.kv.type == KvType::kFp8) {
    AttendShareOf<Fp8Kv>(params, index, num_tasks);
  } else {
    AttendShareOf<BFloat16Kv>(params, index, num_tasks);
  }
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
