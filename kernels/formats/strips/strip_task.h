#pragma once

#include <cstdint>

#include "kernels/core/bfloat16.h"
#include "kernels/formats/strips/strip_matrix.h"
#include "kernels/gemm/tile/gemm_task.h"

namespace lockstep::kernels {

// The arguments of a kernel of packed weights, without the tensor map of its input.
struct StripTask {
  GemmTask output;        // n, bias, outputs and num_rows; nothing else of it is set
  const uint8_t* strips;  // of the whole matrix
  const uint8_t* rows;    // what lies behind its blocks
  int num_bands;          // of the matrix; gated, of gate rows
  int tile_bands;         // the same of a tile; the last tile may have fewer
  int num_blocks;         // of 128 columns, in k
  int num_stages;
  int fetched_rows;  // input rows of a tile that are fetched
  int num_row_tiles;
  int num_tiles;
  const BFloat16* held_input;  // the only row, of kernels that hold the input
  uint32_t magic;  // kBF16Magic. The compiler keeps it in a register, as it does not know its value
};

// Two bf16 of 128. Small integers in their lowest bits add to that.
inline constexpr uint32_t kBF16Magic = 0x43004300;

// Takes this by value, with kExpandWarps warps in a block of the grid, and a warp for each block of
// 128 columns of a strip.
inline constexpr int kExpandWarps = 8;
struct ExpandTask {
  const uint8_t* strips;
  const uint8_t* rows;  // what lies behind all blocks
  BFloat16* output;     // [n, k]
  int64_t n;
  int64_t k;
  int64_t num_strip_blocks;
  int64_t num_blocks;  // of a strip
};

}  // namespace lockstep::kernels
