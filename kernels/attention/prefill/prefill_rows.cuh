#pragma once

#include <cstdint>

#include "kernels/attention/kv_tile.cuh"
#include "kernels/attention/paged_attention.h"
#include "kernels/attention/prefill_tiles.h"
#include "kernels/attention/softmax.cuh"
#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/core/ptx/mbarrier.cuh"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/core/ring_slot.cuh"
#include "kernels/device/launch.cuh"

// What the prefill kernels share: which rows a block takes, and what happens to them apart from the
// matrix products. A block takes 128 query rows (large tiles: 192) of one chunk and KV head: all
// heads of the group, for consecutive tokens. Each of its computing warps has 16 of these rows.
// Accumulators are [n][4], as m16n8k16 leaves them for columns 8n ...
namespace lockstep::kernels {

inline constexpr int kPrefillWarpRows = 16;

struct PrefillArguments {
  PagedPrefillAttentionParams params;
  float exponent_scale;
  int group;
  int num_items;  // an item is a tile of the list and a KV head
};

// The rows that a block takes at a time.
struct RowTile {
  AttentionChunk chunk;
  int kv_head;
  int first_row;  // rows of a chunk are numbered token by token, then by head of the group
  int num_rows;
  int num_keys;  // of the last row

  __device__ __forceinline__ int Position(int row, int group) const {
    return static_cast<int>(chunk.first_position) + (first_row + row) / group;
  }
};

// The rows of an item. Items are numbered tile by tile, and within a tile by KV head.
template <int kTileRows>
__device__ __forceinline__ RowTile FindRows(const PrefillArguments& arguments, int item) {
  const int num_kv_heads = static_cast<int>(arguments.params.kv.num_kv_heads);
  const PrefillTile tile = arguments.params.tiles[item / num_kv_heads];
  RowTile rows;
  rows.kv_head = item % num_kv_heads;
  rows.chunk = arguments.params.chunks[tile.chunk];
  rows.first_row = static_cast<int>(tile.index) * kTileRows;
  rows.num_rows =
      min(static_cast<int>(rows.chunk.num_tokens) * arguments.group - rows.first_row, kTileRows);
  rows.num_keys = rows.Position(rows.num_rows - 1, arguments.group) + 1;
  return rows;
}

// Element `head_dim 0` of a row of `query` or `output`.
__device__ __forceinline__ int64_t RowOffset(const PrefillArguments& arguments, const RowTile& tile,
                                             int row, int64_t token_stride) {
  const int chunk_row = tile.first_row + row;
  const int64_t token = tile.chunk.first_token + chunk_row / arguments.group;
  const int head = tile.kv_head * arguments.group + chunk_row % arguments.group;
  return token * token_stride + head * arguments.params.kv.head_dim;
}

// Keys beyond a row's own position get no score. `key` is the tile's first; `positions` are those
// of rows g and g + 8.
__device__ __forceinline__ void MaskScores(int key, const int (&positions)[2], int lane,
                                           float (&scores)[8][4]) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (key + 8 * n + lane % 4 * 2 + j % 2 > positions[j / 2]) scores[n][j] = kNoScore;
    }
  }
}

// Multiplies what was accumulated by `rescale`, unless that changes nothing for any row of the
// warp.
template <int kTiles>
__device__ __forceinline__ void Rescale(const float (&rescale)[2], float (&open)[kTiles][4]) {
  if (!__any_sync(0xFFFFFFFFu, rescale[0] != 1.0f || rescale[1] != 1.0f)) return;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int j = 0; j < 4; ++j) open[n][j] = __fmul_rn(open[n][j], rescale[j / 2]);
  }
}

inline PrefillArguments MakePrefillArguments(const PagedPrefillAttentionParams& params) {
  return {.params = params,
          .exponent_scale = ExponentScale(params.scale),
          .group = static_cast<int>(params.num_heads / params.kv.num_kv_heads),
          .num_items = static_cast<int>(params.num_tiles * params.kv.num_kv_heads)};
}

struct PrefillGrid {
  int num_threads;  // of a block
  int num_blocks;
  int shared_bytes;
};

inline absl::Status LaunchPrefillKernel(const CudaStream& stream, void (*kernel)(PrefillArguments),
                                        const PrefillArguments& arguments,
                                        const PrefillGrid& grid) {
  LOCKSTEP_RETURN_IF_CUDA_ERROR(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, grid.shared_bytes));
  return Launch(stream, "paged prefill attention",
                {.grid = dim3(static_cast<unsigned>(grid.num_blocks)),
                 .block = dim3(static_cast<unsigned>(grid.num_threads)),
                 .shared_bytes = static_cast<size_t>(grid.shared_bytes)},
                kernel, arguments);
}

}  // namespace lockstep::kernels
