#include "kernels/gemm/tile/gemm_tiling.h"

#include <algorithm>
#include <limits>
#include <span>

#include "kernels/core/bfloat16.h"
#include "kernels/core/divide_up.h"
#include "kernels/gemm/tile/gemm_row_ranges.h"

namespace lockstep::kernels {
namespace {

constexpr int kRowGranule = 8;
constexpr int kMaxStages = 32;
constexpr int64_t kAlignmentBytes = 1024;
// Two neighbours, one with a short k and one with a long k, fit on one multiprocessor; so does the
// latter beside a block of decode attention.
constexpr int64_t kSmallRingBytes = 104 * 1024;
constexpr int64_t kSmallRingBytesOfLongK = 120 * 1024;
constexpr int64_t kLargeRingBytes = 208 * 1024;
constexpr int64_t kHeldRingBytesOfShortTiles = 168 * 1024;
// Weights under way that keep the memory busy.
constexpr int64_t kWeightBytesInFlight = 60 * 1024;
constexpr int64_t kShortTileBytes = 256 * 1024;
constexpr int64_t kLongK = 2048;
// A single row of up to so many columns is held. Up to 11,776 columns that takes less room than its
// share of any ring, and for narrow tiles at any length up to here.
constexpr int64_t kMaxHeldColumns = 16 * 1024;

// The tile heights that gemm_kernels.cu compiles.
struct Heights {
  GemmUnit unit;
  int input_rows;
  std::span<const int> plain;
  std::span<const int> gated;
};
constexpr int kSwappedHeights[] = {16, 32, 48, 64};
constexpr int kHeights64[] = {16, 24, 32, 48, 64, 96, 128, 192};
constexpr int kGatedHeights64[] = {32, 48, 64, 96, 128, 192};
constexpr int kHeights128[] = {16, 32, 48, 64, 96, 128, 160, 192, 224, 256};
constexpr int kGatedHeights128[] = {32, 48, 64, 96, 128, 160, 192, 224, 256};
constexpr int kHeights192[] = {64, 96, 128, 160, 192};
constexpr int kHeights256[] = {64, 96, 128};
constexpr Heights kHeights[] = {
    {GemmUnit::kSwapped, 8, kSwappedHeights, kSwappedHeights},
    {GemmUnit::kSwapped, 16, kSwappedHeights, kSwappedHeights},
    {GemmUnit::kSwapped, 32, {}, kSwappedHeights},
    {GemmUnit::kWarpgroup, 64, kHeights64, kGatedHeights64},
    {GemmUnit::kWarpgroup, 128, kHeights128, kGatedHeights128},
    {GemmUnit::kWarpgroup, 192, kHeights192, kHeights192},
    {GemmUnit::kWarpgroup, 256, kHeights256, kHeights256},
};

int64_t BlockBytes(int64_t num_rows) { return num_rows * kBlockRowBytes; }

int64_t NumTiles(const GemmTiling& tiling, const GemmProblem& problem) {
  return DivideUp(problem.n, tiling.weight_rows) * DivideUp(problem.num_rows, tiling.input_rows);
}

// Input rows in a stage of the ring.
int InputRows(const GemmTiling& tiling, int64_t num_rows) {
  return tiling.held_input_blocks > 0 ? 0 : GemmFetchedRows(tiling, num_rows);
}

int64_t StageBytes(const GemmTiling& tiling, int64_t num_rows) {
  return GemmSlabBlocks(tiling.unit, tiling.weight_rows, tiling.input_rows) *
         BlockBytes(tiling.weight_rows + InputRows(tiling, num_rows));
}

// A small ring leaves room for a block of the next product, and the next product's weights can
// arrive while this product ends. For short tiles that is worth more than a long ring. With one or
// two rows it is not: attention leaves most multiprocessors free then, and a long ring takes in
// more weights before the input is there. But attention waits behind all weights that its output's
// product requests. The tiles of that product are short, and 160 KB of their weights beside a held
// row were best.
int ChooseStages(const GemmTiling& tiling, const GemmProblem& problem) {
  const int stages = GemmStages(tiling, problem.num_rows,
                                problem.k < kLongK ? kSmallRingBytes : kSmallRingBytesOfLongK);
  const int64_t ring_weight_bytes =
      stages * GemmSlabBlocks(tiling.unit, tiling.weight_rows, tiling.input_rows) *
      BlockBytes(tiling.weight_rows);
  const int64_t tile_weight_bytes =
      tiling.weight_rows * problem.k * static_cast<int64_t>(sizeof(BFloat16));
  const bool is_short = tile_weight_bytes <= kShortTileBytes;
  if (problem.num_rows > 2 && is_short &&
      ring_weight_bytes >= std::min(kWeightBytesInFlight, tile_weight_bytes)) {
    return stages;
  }
  return GemmStages(
      tiling, problem.num_rows,
      tiling.held_input_blocks > 0 && is_short ? kHeldRingBytesOfShortTiles : kLargeRingBytes);
}

// Whether a product of at most kMaxUnplannedRows rows may use tiles of these heights.
bool Suits(const GemmProblem& problem, const Heights& heights) {
  if (problem.num_rows > (problem.gated ? kMaxSwappedGatedRows : kMaxSwappedRows)) {
    return heights.unit == GemmUnit::kWarpgroup && heights.input_rows == kWarpgroupRows;
  }
  const int input_rows = problem.num_rows <= 8 ? 8 : problem.num_rows <= 16 ? 16 : 32;
  return heights.unit == GemmUnit::kSwapped && heights.input_rows == input_rows;
}

// Clocks that the busiest multiprocessor spends on a product of many rows.
int64_t EstimateClocks(const GemmProblem& problem, const GemmTiling& tiling,
                       int num_multiprocessors) {
  // Of a block of 64 columns of k: the matrix units multiply 32 pairs of rows a clock, and so many
  // bytes arrive from the second-level cache.
  constexpr int64_t kRowPairsPerClock = 32;
  constexpr int64_t kBytesPerClock = 48;
  const int64_t multiply = int64_t{tiling.weight_rows} * tiling.input_rows / kRowPairsPerClock;
  const int64_t arrive =
      BlockBytes(tiling.weight_rows + GemmFetchedRows(tiling, problem.num_rows)) / kBytesPerClock;
  // Until the first columns are there, and for writing the outputs.
  constexpr int64_t kStartClocks = 1500;
  const int64_t end_clocks = int64_t{8} * tiling.weight_rows * (problem.gated ? 3 : 1);
  const int64_t tile_clocks =
      DivideUp(problem.k, kBlockColumns) * std::max(multiply, arrive) + kStartClocks + end_clocks;
  return DivideUp(NumTiles(tiling, problem), num_multiprocessors) * tile_clocks;
}

}  // namespace

int GemmHeldInputBlocks(const GemmTiling& tiling, const GemmProblem& problem) {
  const int64_t slab_columns =
      kBlockColumns * GemmSlabBlocks(tiling.unit, tiling.weight_rows, tiling.input_rows);
  const bool holds = tiling.unit == GemmUnit::kSwapped && tiling.input_rows == kRowGranule &&
                     problem.num_rows == 1 && problem.k % slab_columns == 0 &&
                     problem.k <= kMaxHeldColumns;
  return holds ? static_cast<int>(problem.k / kBlockColumns) : 0;
}

int GemmFetchedRows(const GemmTiling& tiling, int64_t num_rows) {
  return static_cast<int>(
      std::min<int64_t>(tiling.input_rows, DivideUp(num_rows, kRowGranule) * kRowGranule));
}

int64_t GemmSharedBytes(const GemmTiling& tiling, int64_t num_rows) {
  const int64_t blocks = tiling.num_stages * int64_t{GemmSlabBlocks(tiling.unit, tiling.weight_rows,
                                                                    tiling.input_rows)};
  const int64_t input_bytes =
      BlockBytes(tiling.held_input_blocks) + blocks * BlockBytes(InputRows(tiling, num_rows));
  const int64_t weight_bytes = blocks * BlockBytes(tiling.weight_rows);
  const int64_t barrier_bytes = int64_t{2 * 8} * tiling.num_stages + 8;
  // An instruction reads all of its rows, so it also reads memory behind the last block. This
  // memory must be allocated. Its content does not matter. Swapped, the weights lie first, else the
  // input.
  const int64_t input_overrun = BlockBytes(
      tiling.held_input_blocks > 0 ? 1 : tiling.input_rows - GemmFetchedRows(tiling, num_rows));
  const int64_t end_of_reads =
      tiling.unit == GemmUnit::kSwapped
          ? weight_bytes + std::max(BlockBytes(kWarpgroupRows - tiling.weight_rows),
                                    input_bytes + input_overrun)
          : input_bytes + input_overrun;
  return kAlignmentBytes + std::max(input_bytes + weight_bytes + barrier_bytes, end_of_reads);
}

int GemmStages(const GemmTiling& tiling, int64_t num_rows, int64_t ring_bytes) {
  const int64_t bytes = ring_bytes - BlockBytes(tiling.held_input_blocks);
  return static_cast<int>(std::clamp<int64_t>(bytes / StageBytes(tiling, num_rows), 2, kMaxStages));
}

std::vector<GemmTiling> CandidateGemmTilings(const GemmProblem& problem, int num_multiprocessors,
                                             int max_tilings) {
  struct Candidate {
    int64_t clocks;
    GemmTiling tiling;
  };
  std::vector<Candidate> candidates;
  for (const Heights& heights : kHeights) {
    if (heights.unit != GemmUnit::kWarpgroup) continue;
    for (const int height : problem.gated ? heights.gated : heights.plain) {
      GemmTiling tiling = {
          .unit = heights.unit, .weight_rows = height, .input_rows = heights.input_rows};
      tiling.num_stages = ChooseStages(tiling, problem);
      candidates.push_back({EstimateClocks(problem, tiling, num_multiprocessors), tiling});
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.clocks < b.clocks; });
  std::vector<GemmTiling> tilings;
  for (const Candidate& candidate : candidates) {
    if (static_cast<int>(tilings.size()) < max_tilings) tilings.push_back(candidate.tiling);
  }
  return tilings;
}

GemmTiling ChooseGemmTiling(const GemmProblem& problem, int num_multiprocessors) {
  if (problem.num_rows > kMaxUnplannedRows) {
    return CandidateGemmTilings(problem, num_multiprocessors, 1).front();
  }
  GemmTiling best;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Heights& heights : kHeights) {
    if (!Suits(problem, heights)) continue;
    for (const int height : problem.gated ? heights.gated : heights.plain) {
      GemmTiling tiling = {
          .unit = heights.unit, .weight_rows = height, .input_rows = heights.input_rows};
      tiling.held_input_blocks = GemmHeldInputBlocks(tiling, problem);
      // What the busiest multiprocessor reads, in rows of k. Input rows come from the second-level
      // cache, and a tile costs a little besides.
      const int64_t per_tile = height + GemmFetchedRows(tiling, problem.num_rows) / 8 + 4;
      const int64_t cost = DivideUp(NumTiles(tiling, problem), num_multiprocessors) * per_tile;
      if (cost < least) {
        least = cost;
        best = tiling;
      }
    }
  }
  best.num_stages = ChooseStages(best, problem);
  return best;
}

}  // namespace lockstep::kernels
