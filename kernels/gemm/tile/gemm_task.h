#pragma once

#include <cstdint>

#include "kernels/core/bfloat16.h"
#include "kernels/gemm/tile/gemm_tiling.h"

namespace lockstep::kernels {

// What happens to a product once it is rounded, before it is rounded again.
enum class GemmEpilogue { kPlain, kSwiGlu, kGeluTanh, kGeluErf };

// The arguments of our kernel, without the tensor maps of its input and its weights.
struct GemmTask {
  const float* bias;      // [n], or null
  BFloat16* output;       // [num_rows, n], or null
  float* output_f32;      // [num_rows, n], or null
  int64_t output_stride;  // elements
  int num_rows;           // of the input
  int n;                  // of the output: gated, half of the weight rows
  int num_blocks;         // of 64 columns, in k
  int tile_rows;          // input rows of a tile
  int fetched_rows;       // that are fetched
  int num_row_tiles;
  int num_column_tiles;
  // Tiles go down a group of row tiles before they go on to the next columns: the input of a group
  // stays in the second-level cache, and the weights pass once for each group.
  int group_row_tiles;
  int num_tiles;
  // There is one row of tiles, so each weight is read once. A block then takes neighbouring tiles,
  // because memory serves those faster. Otherwise blocks take tiles in turn, so that tiles with the
  // same weights run at the same time.
  bool weights_pass_once;
  // A copy brings a slab instead of a block. Then the tensor maps have blocks as a dimension, and k
  // must be a multiple of a block's columns.
  bool copies_slabs;
  int num_stages;
  bool paired_stores;          // two neighbours may be stored at once
  bool wide_stores;            // eight neighbours in bf16 may be stored at once
  const BFloat16* held_input;  // the only row, of kernels that hold the input
};

// A kernel that takes (CUtensorMap input, CUtensorMap weights, GemmTask) by value; null when the
// tiling is not compiled.
struct GemmKernelEntry {
  const void* function = nullptr;
  int num_threads = 0;
};
GemmKernelEntry FindGemmKernel(const GemmTiling& tiling, GemmEpilogue epilogue);

// The plain kernel that all others are compared with, on a grid of ceil(num_rows / 16) x ceil(n /
// 8) warps; it takes this by value.
struct ReferenceGemmTask {
  const BFloat16* input;
  int64_t input_stride;
  const BFloat16* weights;  // [n, k]
  int64_t n;
  int64_t k;
  const float* bias;
  BFloat16* output;
  float* output_f32;
  int64_t output_stride;
  int64_t num_rows;
};
const void* FindReferenceGemmKernel();

// Fills one of the two with seeded random values.
struct FillTask {
  BFloat16* values;
  float* values_f32;
  int64_t count;
  uint64_t seed;
};
const void* FindFillKernel();

struct BitComparison {
  const void* expected;
  const void* actual;
  int64_t num_elements;
  int64_t element_bytes;  // 2 or 4
};
// Takes (BitComparison, unsigned long long*).
const void* FindCompareKernel();

}  // namespace lockstep::kernels
