#include "kernels/formats/strips/strip_tiling.h"

#include <algorithm>
#include <limits>

#include "common/check.h"
#include "kernels/core/divide_up.h"

namespace lockstep::kernels {
namespace {

constexpr int kInputRowChoices[] = {8, 16, 32, 64};
constexpr int kRowGranule = 8;
constexpr int64_t kBlockInputBytes = kStripBlockColumns * 2;  // of one row
constexpr int64_t kAlignmentBytes = 1024;
constexpr int kMaxStages = 32;
constexpr int64_t kMaxHeldColumns = 16 * 1024;
constexpr int64_t kRingBytes = 200 * 1024;

int64_t RoundUp(int64_t value, int64_t to) { return DivideUp(value, to) * to; }

int64_t NumBands(const StripProblem& problem) { return DivideUp(problem.n, kBandRows); }
int64_t NumBlocks(const StripProblem& problem) { return NumStripBlocks(problem.k); }

int64_t StageWeightBytes(const StripProblem& problem, const StripTiling& tiling) {
  return tiling.bands * kBandStrips * StripStageBlocks(problem.k, tiling.input_rows) *
         StripBlockBytes(problem.codec);
}
int64_t StageInputBytes(const StripProblem& problem, const StripTiling& tiling) {
  if (tiling.holds_input) return 0;
  return StripStageBlocks(problem.k, tiling.input_rows) * kBlockInputBytes *
         StripFetchedRows(problem, tiling);
}
int64_t HeldBytes(const StripProblem& problem, const StripTiling& tiling) {
  return tiling.holds_input ? NumBlocks(problem) * kBlockInputBytes : 0;
}

// A step of 16 columns that a warp converts: one strip, or two.
struct ConversionClocks {
  double narrow;
  double wide;
};
ConversionClocks ClocksOf(StripCodec codec) {
  switch (codec) {
    case StripCodec::kInt4Group128:
    case StripCodec::kInt4Group128Zeros:
    case StripCodec::kInt4Group32:
    case StripCodec::kInt4Group32Zeros:
      return {28.5, 32.0};  // in pairs, and so with few instructions
    case StripCodec::kInt8Group128:
    case StripCodec::kInt8Group32:
    case StripCodec::kInt8Group128Zeros:
    case StripCodec::kInt8Group32Zeros:
    case StripCodec::kFp8Group128:
      return {35.0, 48.0};
    case StripCodec::kQ4_0:
    case StripCodec::kQ4_1:
      return {35.0, 47.0};
    case StripCodec::kQ4_K:
      return {37.0, 51.0};
    case StripCodec::kQ5_0:
    case StripCodec::kQ5_1:
    case StripCodec::kQ5_K:
      return {43.0, 63.0};
    case StripCodec::kQ6_K:
      return {46.0, 72.0};
    case StripCodec::kMxfp4:
      return {28.5, 32.0};  // in pairs. These two are estimates from the number of instructions
    case StripCodec::kNvfp4:
      return {31.5, 39.0};
  }
  LOCKSTEP_CHECK(false, "no such codec");
  return {};
}

// Clocks of the busiest multiprocessor.
double EstimateClocks(const StripProblem& problem, const StripTiling& tiling,
                      int num_multiprocessors) {
  // What a multiprocessor takes in, in a clock, where many read the same input.
  constexpr double kBytesPerClock = 28;
  // The start and the end of a block, and what each further block of the grid adds to that.
  constexpr double kStartClocks = 5000;
  constexpr double kBlockClocks = 36;
  // A step of 16 columns. A warp alone converts its strips and then multiplies. Warps that share a
  // scheduler do both at the same time, and the conversions, as the matrix instructions, in turn:
  // one waits a little less than its own time for another's.
  const ConversionClocks clocks = ClocksOf(problem.codec);
  const double convert = tiling.strips == 1 ? clocks.narrow : clocks.wide;
  const double alone = convert + std::max(0, tiling.input_rows / 2 - 8);
  const double together = std::max(0.9 * convert, 26.0 + tiling.input_rows / 2.0) *
                          static_cast<double>(DivideUp(tiling.warps(), 4));
  const double steps = static_cast<double>(NumBlocks(problem)) * kStripBlockColumns / 16;
  const double arrive =
      static_cast<double>(NumBlocks(problem) *
                          (tiling.bands * kBandStrips * StripBlockBytes(problem.codec) +
                           kBlockInputBytes * StripFetchedRows(problem, tiling))) /
      kBytesPerClock;
  const int64_t num_tiles =
      DivideUp(NumBands(problem), tiling.bands) * DivideUp(problem.num_rows, tiling.input_rows);
  const double tile =
      std::max(steps * (tiling.warps() <= 4 ? alone : std::max(alone, together)), arrive);
  return static_cast<double>(DivideUp(num_tiles, num_multiprocessors)) * tile + kStartClocks +
         kBlockClocks * static_cast<double>(std::min<int64_t>(num_tiles, num_multiprocessors));
}

}  // namespace

int StripFetchedRows(const StripProblem& problem, const StripTiling& tiling) {
  return static_cast<int>(
      std::min<int64_t>(tiling.input_rows, RoundUp(problem.num_rows, kRowGranule)));
}

bool CanHoldInput(const StripProblem& problem) {
  return problem.num_rows == 1 && problem.k == NumBlocks(problem) * kStripBlockColumns &&
         StripStageBlocks(problem.k, kRowGranule) == kLongStageBlocks &&
         problem.k <= kMaxHeldColumns;
}

int64_t StripSharedBytes(const StripProblem& problem, const StripTiling& tiling) {
  const int64_t weights =
      RoundUp(tiling.num_stages * StageWeightBytes(problem, tiling), kAlignmentBytes);
  const int64_t input = tiling.num_stages * StageInputBytes(problem, tiling);
  // An instruction reads all of its input rows, so it reads memory behind the last row that was
  // fetched. This memory must exist.
  const int64_t overrun =
      tiling.holds_input
          ? kBlockInputBytes
          : (tiling.input_rows - StripFetchedRows(problem, tiling)) * (kBlockInputBytes / 2);
  const int64_t barriers = 16 * tiling.num_stages + 8 + 4 * kStripZeros;
  return kAlignmentBytes + weights + HeldBytes(problem, tiling) + input +
         std::max(overrun, barriers);
}

int StripStages(const StripProblem& problem, const StripTiling& tiling, int64_t ring_bytes) {
  const int64_t stage = StageWeightBytes(problem, tiling) + StageInputBytes(problem, tiling);
  return static_cast<int>(
      std::clamp<int64_t>((ring_bytes - HeldBytes(problem, tiling)) / stage, 2, kMaxStages));
}

StripTiling ChooseStripTiling(const StripProblem& problem, int num_multiprocessors) {
  StripTiling best;
  double least = std::numeric_limits<double>::max();
  for (const int strips : {1, 2}) {
    if (problem.gated && strips == 1) continue;
    for (const int input_rows : kInputRowChoices) {
      if (input_rows > kRowGranule && input_rows / 2 >= problem.num_rows) continue;
      if (strips == 1 && input_rows > kMaxNarrowInputRows) continue;
      for (int bands = problem.gated ? 2 : 1; bands * kBandStrips / strips <= kMaxTileWarps;
           bands += problem.gated ? 2 : 1) {
        StripTiling tiling = {.bands = bands, .strips = strips, .input_rows = input_rows};
        tiling.holds_input = input_rows == kRowGranule && CanHoldInput(problem);
        tiling.num_stages = StripStages(problem, tiling, kRingBytes);
        if (StripSharedBytes(problem, tiling) > kMaxStripSharedBytes) continue;
        const double clocks = EstimateClocks(problem, tiling, num_multiprocessors);
        if (clocks < least) {
          least = clocks;
          best = tiling;
        }
      }
    }
  }
  return best;
}

}  // namespace lockstep::kernels
