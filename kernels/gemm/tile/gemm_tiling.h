#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gemm/gemm.h"

namespace lockstep::kernels {

// What multiplies: warpgroups, with input rows on the M side of the matrix instruction and weight
// rows on its N side. kSwapped: one warpgroup with the two swapped, for few input rows. Both give
// the same bits.
enum class GemmUnit { kWarpgroup, kSwapped };

// How our CUDA GEMM cuts a product into tiles. It decides speed alone: every tiling gives the same
// bits.
struct GemmTiling {
  GemmUnit unit = GemmUnit::kWarpgroup;
  int weight_rows = 0;  // of one tile; gated: half of them gate rows, half up rows
  int input_rows = 0;   // of one tile: 64 to 256, swapped 8 to 32
  int num_stages = 0;   // of the ring between the copy engine and the matrix units
  // k in blocks of 64 columns, if each thread block holds the whole input, which then has one row.
  // 0: the input passes through the ring beside the weights, 8 rows or more of it.
  int held_input_blocks = 0;
};

struct GemmProblem {
  int64_t n = 0;  // weight rows
  int64_t k = 0;
  int64_t num_rows = 0;  // of the input
  bool gated = false;
};

// Rows that a warpgroup multiplies at once: of the input, or swapped of the weights.
inline constexpr int kWarpgroupRows = 64;
// Products of up to so many input rows swap their operands.
inline constexpr int kMaxSwappedRows = 16;
inline constexpr int kMaxSwappedGatedRows = 32;
static_assert(kGemmGeluMaxRows <= kMaxSwappedRows, "no other tiles have GELU");

// Interleaved gate and up rows alternate in groups of this many.
inline constexpr int kInterleavedRows = 8;

// Columns of k in one block (128 bytes of a row), and blocks in one stage of the ring. What lies
// behind the end of k is zero, which changes no sum.
inline constexpr int kBlockColumns = 64;
inline constexpr int kBlockRowBytes = 128;
// A stage costs producer and consumers the same time for any number of bytes. So a stage has more
// blocks if the tile is narrow and has few input rows.
constexpr int GemmSlabBlocks(GemmUnit unit, int weight_rows, int input_rows) {
  const int narrow = unit == GemmUnit::kSwapped && input_rows <= 16 ? kWarpgroupRows : 24;
  if (input_rows <= 64 && weight_rows <= narrow) return 4;
  return weight_rows <= 64 ? 2 : 1;
}

// Input rows that are fetched for a tile: a multiple of 8.
int GemmFetchedRows(const GemmTiling& tiling, int64_t num_rows);
// GemmTiling::held_input_blocks, where the input can be held: if it has one row, and k consists of
// whole stages.
int GemmHeldInputBlocks(const GemmTiling& tiling, const GemmProblem& problem);
// Shared memory that the tiling takes.
int64_t GemmSharedBytes(const GemmTiling& tiling, int64_t num_rows);
// As many stages as `ring_bytes` hold beside an input that is held, at least 2.
int GemmStages(const GemmTiling& tiling, int64_t num_rows, int64_t ring_bytes);

// The tiling that keeps the multiprocessors evenly busy; beyond 64 rows the first candidate. The
// rules are fitted to sweeps on an H200 (lockstep-gemm-cuda-benchmark --tilings).
GemmTiling ChooseGemmTiling(const GemmProblem& problem, int num_multiprocessors);

// Tilings that may be the fastest for more than 64 rows, the most promising first, at most
// `max_tilings`: by an estimate that only a measurement can decide between.
std::vector<GemmTiling> CandidateGemmTilings(const GemmProblem& problem, int num_multiprocessors,
                                             int max_tilings);

}  // namespace lockstep::kernels
