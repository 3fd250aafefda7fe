#pragma once

#include <cstdint>

#include "kernels/formats/strips/strip_matrix.h"

namespace lockstep::kernels {

// How a product of packed weights is cut into tiles. It decides speed alone.
struct StripTiling {
  int bands = 0;             // of a tile; gated, half of them gate rows, so an even number
  int strips = 0;            // of each warp: 1, or 2, gated always 2
  int input_rows = 0;        // of a tile: 8, 16, 32 or 64; with 1 strip at most kMaxNarrowInputRows
  int num_stages = 0;        // of the ring, with StripStageBlocks each
  bool holds_input = false;  // the input is one row, and a thread block holds all of it

  int warps() const { return bands * kBandStrips / strips; }
};
inline constexpr int kMaxTileWarps = 12;
inline constexpr int kMaxStripInputRows = 64;

// Blocks of a stage of the ring, for tiles of so many input rows: several, where the input leaves
// room for them and strips consist of whole stages.
constexpr int LongStageBlocks(int input_rows) {
  return input_rows <= 16 ? kLongStageBlocks : input_rows <= 32 ? 2 : 1;
}
constexpr int StripStageBlocks(int64_t k, int input_rows) {
  const int long_stage = LongStageBlocks(input_rows);
  return NumStripBlocks(k) % long_stage == 0 ? long_stage : 1;
}
inline constexpr int kMaxNarrowInputRows = 32;
// Words of shared memory that a kernel sets to zero, behind the barriers of its ring.
inline constexpr int kStripZeros = 32;

struct StripProblem {
  StripCodec codec = StripCodec::kInt4Group128;
  int64_t n = 0;
  int64_t k = 0;
  int64_t num_rows = 0;
  bool gated = false;
};

// Shared memory that the tiling takes, and how much a block may have.
inline constexpr int64_t kMaxStripSharedBytes = 227 * 1024;
int64_t StripSharedBytes(const StripProblem& problem, const StripTiling& tiling);
// Whether the single row of the problem can be held.
bool CanHoldInput(const StripProblem& problem);
// Input rows of a tile that are fetched: a multiple of 8.
int StripFetchedRows(const StripProblem& problem, const StripTiling& tiling);
// As many stages as `ring_bytes` hold, at least 2.
int StripStages(const StripProblem& problem, const StripTiling& tiling, int64_t ring_bytes);

// The tiling with the least time by an estimate of what the busiest multiprocessor reads and
// converts. The constants are fitted to sweeps on an H200 (lockstep-strips-cuda-benchmark
// --tilings).
StripTiling ChooseStripTiling(const StripProblem& problem, int num_multiprocessors);

}  // namespace lockstep::kernels
