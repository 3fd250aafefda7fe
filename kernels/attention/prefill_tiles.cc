#include "kernels/attention/prefill_tiles.h"

#include <algorithm>
#include <functional>

#include "common/check.h"
#include "kernels/attention/paged_attention.h"

namespace lockstep::kernels {
namespace {

int64_t NumTiles(int64_t tile_rows, int64_t group, const AttentionChunk& chunk) {
  return (int64_t{chunk.num_tokens} * group + tile_rows - 1) / tile_rows;
}

// Keys of the tile's last row.
int64_t NumKeys(int64_t tile_rows, int64_t group, const AttentionChunk& chunk, int64_t tile) {
  const int64_t end_row = std::min(int64_t{chunk.num_tokens} * group, (tile + 1) * tile_rows);
  return chunk.first_position + (end_row + group - 1) / group;
}

}  // namespace

PrefillPlanner::PrefillPlanner(int64_t num_heads, int64_t num_kv_heads, int64_t head_dim,
                               int64_t num_multiprocessors)
    : group_(num_heads / num_kv_heads),
      num_kv_heads_(num_kv_heads),
      num_multiprocessors_(num_multiprocessors),
      has_large_tiles_(HasLargePrefillTiles(head_dim)),
      scratch_elements_(num_multiprocessors * kSmallPrefillTileRows *
                        PrefillScratchDims(head_dim)) {}

PrefillPlan PrefillPlanner::Plan(std::span<const AttentionChunk> chunks,
                                 std::span<PrefillTile> tiles) const {
  PrefillPlan plan = {.num_tiles = WriteTiles(kSmallPrefillTileRows, chunks, tiles)};
  if (!has_large_tiles_) return plan;
  const auto first = [&](int64_t count) { return tiles.first(static_cast<size_t>(count)); };
  const double small_time = EstimateTime(kSmallPrefillTileRows, chunks, first(plan.num_tiles));
  plan = {.num_tiles = WriteTiles(kLargePrefillTileRows, chunks, tiles),
          .tile_rows = kLargePrefillTileRows};
  if (EstimateTime(kLargePrefillTileRows, chunks, first(plan.num_tiles)) <= small_time) return plan;
  return {.num_tiles = WriteTiles(kSmallPrefillTileRows, chunks, tiles)};
}

int64_t PrefillPlanner::WriteTiles(int64_t tile_rows, std::span<const AttentionChunk> chunks,
                                   std::span<PrefillTile> tiles) const {
  size_t count = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    for (int64_t tile = NumTiles(tile_rows, group_, chunks[i]) - 1; tile >= 0; --tile) {
      LOCKSTEP_CHECK(count < tiles.size(), "more than {} tiles", tiles.size());
      tiles[count++] = {.chunk = static_cast<uint32_t>(i), .index = static_cast<uint32_t>(tile)};
    }
  }
  // The tiles of a single chunk are in order already.
  if (chunks.size() > 1) {
    const auto num_keys = [&](const PrefillTile& tile) {
      return NumKeys(tile_rows, group_, chunks[tile.chunk], tile.index);
    };
    std::ranges::stable_sort(tiles.first(count), std::greater<>(), num_keys);
  }
  return static_cast<int64_t>(count);
}

double PrefillPlanner::EstimateTime(int64_t tile_rows, std::span<const AttentionChunk> chunks,
                                    std::span<const PrefillTile> tiles) const {
  // Cycles on an H200, head_dim 128, fitted to an earlier kernel (bench/results/diary.md).
  const bool is_large = tile_rows == kLargePrefillTileRows;
  const double tile_time = is_large ? 10000 : 5000;
  const double key_tile_time = is_large ? 2450 : 1850;
  const auto num_items = static_cast<int64_t>(tiles.size()) * num_kv_heads_;
  const int64_t num_blocks = std::min(num_items, num_multiprocessors_);
  double slowest = 0.0;
  for (int64_t block = 0; block < num_blocks; ++block) {
    double time = 0.0;
    for (int64_t round = 0;; ++round) {
      const int64_t item = PrefillItem(round, block, num_blocks);
      if (item >= num_items) break;
      const PrefillTile& tile = tiles[static_cast<size_t>(item / num_kv_heads_)];
      const int64_t num_keys = NumKeys(tile_rows, group_, chunks[tile.chunk], tile.index);
      const int64_t key_tiles = (num_keys + kKeyTile - 1) / kKeyTile;
      time += tile_time + static_cast<double>(key_tiles) * key_tile_time;
    }
    slowest = std::max(slowest, time);
  }
  return slowest;
}

}  // namespace lockstep::kernels
