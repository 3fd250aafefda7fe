#pragma once

#include <cstdint>
#include <span>

// Assigns query rows to the blocks of the CUDA prefill kernels, and orders them. Changes no bit.
namespace lockstep::kernels {

struct AttentionChunk;  // kernels/attention/paged_attention.h

// Query rows of a tile: all heads of a KV head's group, for consecutive tokens. Large tiles keep
// the tensor cores busier. Small tiles spread little work more evenly.
inline constexpr int64_t kSmallPrefillTileRows = 128;
inline constexpr int64_t kLargePrefillTileRows = 192;
constexpr bool HasLargePrefillTiles(int64_t head_dim) { return head_dim == 64 || head_dim == 128; }

// Dims of a closed partial result that a block keeps in scratch, because shared memory is full.
constexpr int PrefillScratchDims(int64_t head_dim) { return head_dim == 256 ? 192 : 0; }

// Rows tile_rows * index .. of a chunk, for each of its KV heads.
struct PrefillTile {
  uint32_t chunk = 0;
  uint32_t index = 0;

  bool operator==(const PrefillTile&) const = default;
};

struct PrefillPlan {
  int64_t num_tiles = 0;
  int64_t tile_rows = kSmallPrefillTileRows;
};

// Plans the prefill attention of steps.
class PrefillPlanner {
 public:
  PrefillPlanner() = default;
  PrefillPlanner(int64_t num_heads, int64_t num_kv_heads, int64_t head_dim,
                 int64_t num_multiprocessors);

  // The most tiles that `num_chunks` chunks with `num_tokens` tokens together can have.
  int64_t MaxTiles(int64_t num_tokens, int64_t num_chunks) const {
    return num_tokens * group_ / kSmallPrefillTileRows + num_chunks;
  }

  // Floats of scratch for PagedPrefillAttention on a stream with these multiprocessors.
  int64_t ScratchElements() const { return scratch_elements_; }

  // Chooses the tiles by the time that the slowest multiprocessor is estimated to take. Writes them
  // to the front of `tiles`, those with most keys first. `tiles` has room for MaxTiles.
  PrefillPlan Plan(std::span<const AttentionChunk> chunks, std::span<PrefillTile> tiles) const;

 private:
  int64_t WriteTiles(int64_t tile_rows, std::span<const AttentionChunk> chunks,
                     std::span<PrefillTile> tiles) const;
  double EstimateTime(int64_t tile_rows, std::span<const AttentionChunk> chunks,
                      std::span<const PrefillTile> tiles) const;

  int64_t group_ = 1;  // query heads of a KV head
  int64_t num_kv_heads_ = 1;
  int64_t num_multiprocessors_ = 1;
  bool has_large_tiles_ = false;
  int64_t scratch_elements_ = 0;
};

// The item that a block takes in a round. Every other round runs backwards, because the list of
// items begins with the longest.
constexpr int64_t PrefillItem(int64_t round, int64_t block, int64_t num_blocks) {
  return round * num_blocks + (round % 2 == 0 ? block : num_blocks - 1 - block);
}

}  // namespace lockstep::kernels
