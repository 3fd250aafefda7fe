#pragma once

#include <cstdint>

#include "kernels/formats/fp8_activations/fp8_gemm.h"
#include "kernels/formats/fp8_activations/fp8_tiling.h"
#include "kernels/gemm/tile/gemm_task.h"

namespace lockstep::kernels {

// Bytes of a row in a block of 128 columns.
inline constexpr int kFp8RowBytes = 128;
inline constexpr int kFp8GroupRows = 64;  // of a warpgroup's instruction

// The arguments of both kernels, without the tensor maps of the input's and the weights' codes.
struct Fp8Task {
  GemmTask output;            // what becomes of the sums; nothing else of it
  const float* input_scales;  // [num_blocks, input_scale_stride]
  int input_scale_stride;
  // The scale of a weight row and a block of columns: weight_scales[(row >> weight_scale_shift) *
  // weight_scale_row_stride + block * weight_scale_block_stride].
  const float* weight_scales;
  int weight_scale_shift;
  int weight_scale_row_stride;
  int weight_scale_block_stride;
  int num_blocks;  // of 128 columns, in k
  int num_stages;
  int num_tiles;  // many rows: times cluster_blocks

  // Few rows.
  int tile_weight_rows;
  int fetched_rows;
  // A copy brings a stage instead of a block. Then the tensor maps have blocks as a dimension, and
  // k must be a multiple of a block's columns.
  bool copies_slabs;

  // Many rows. Tiles go down a group of row tiles before they go on to the next columns, as those
  // of GemmTask.
  int num_row_tiles;
  int num_column_tiles;  // divided by cluster_blocks
  int group_row_tiles;
};

// Kernels that take (CUtensorMap input, CUtensorMap weights, Fp8Task) by value; null when the sizes
// are not compiled.
const void* FindFp8FewRowsKernel(int input_rows);
const void* FindFp8ManyRowsKernel(int input_rows, Fp8ScaleLayout layout, int cluster_blocks);

// Threads that copy, in the kernel for few rows. With many sums they are a whole warpgroup, because
// only a warpgroup can give its registers to others.
constexpr int Fp8ProducerThreads(int input_rows) { return input_rows >= 64 ? 128 : 32; }
// The kernel for many rows has two warpgroups that multiply, and one that copies.
inline constexpr int kFp8ManyRowsThreads = 3 * 128;

}  // namespace lockstep::kernels
