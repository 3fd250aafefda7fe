#include "kernels/formats/fp8_activations/fp8_tiling.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/core/divide_up.h"
#include "kernels/formats/fp8_activations/quantize_activations.h"

namespace lockstep::kernels {
namespace {

constexpr int kMostStages = 12;
constexpr int kGroupRows = 64;
constexpr int64_t kFp8BarrierBytes = 8;
constexpr int64_t kRingAlignment = 1024;  // of the ring

constexpr int kInputRowsOfFew[] = {8, 16, 32, 64, 128};

int64_t Fp8StageBytes(const Fp8Problem& problem, const Fp8Tiling& tiling) {
  if (tiling.unit == Fp8Unit::kFewRows) {
    return Fp8SlabBlocks(tiling.input_rows) * kFp8BlockColumns *
               (tiling.weight_rows + Fp8FetchedRows(problem, tiling)) +
           2 * kFp8BarrierBytes;
  }
  return kFp8BlockColumns * (tiling.input_rows + tiling.weight_rows) +
         tiling.input_rows * static_cast<int64_t>(sizeof(float)) + 2 * kFp8BarrierBytes;
}

// Beside the stages: what the kernels lay out (fp8_few_rows.cuh, fp8_many_rows.cuh). Few rows: all
// scales of the input, and what the instructions read behind the last weights, rows and scales.
int64_t Fp8FixedBytes(const Fp8Problem& problem, const Fp8Tiling& tiling) {
  if (tiling.unit == Fp8Unit::kManyRows) {
    constexpr int64_t kWarpgroups = 2;
    return kRingAlignment + kWarpgroups * kFp8TileColumns * static_cast<int64_t>(sizeof(float));
  }
  const int64_t scales = NumFp8Blocks(problem.k) * ActivationScaleStride(problem.num_rows);
  const int64_t behind = DivideUp(tiling.weight_rows, kGroupRows) * kGroupRows -
                         tiling.weight_rows + tiling.input_rows;
  return kRingAlignment + (scales + tiling.input_rows) * static_cast<int64_t>(sizeof(float)) +
         behind * kFp8BlockColumns + kFp8BarrierBytes;
}

// 64 weight rows fill an instruction, and were the fastest with every number of rows and shape that
// was timed. Fewer only where most multiprocessors would have no tile.
Fp8Tiling ChooseFewRows(const Fp8Problem& problem, int num_multiprocessors) {
  constexpr int kLeastWeightRows = 16;
  constexpr int64_t kIdleShare = 3;  // a third of the multiprocessors must have a tile
  Fp8Tiling tiling = {.weight_rows = kGroupRows};
  while (tiling.weight_rows > kLeastWeightRows &&
         DivideUp(problem.n, tiling.weight_rows) * kIdleShare < num_multiprocessors) {
    tiling.weight_rows /= 2;
  }
  for (const int input_rows : kInputRowsOfFew) {
    tiling.input_rows = input_rows;
    if (input_rows >= problem.num_rows) break;
  }
  tiling.num_stages = Fp8Stages(problem, tiling, kMaxFp8SharedBytes);
  return tiling;
}

// From here on the kernel for many rows is faster, if each multiprocessor has a tile of its own.
constexpr int64_t kManyInputRows = 65;

Fp8Tiling ManyRows(const Fp8Problem& problem, int input_rows, int cluster_blocks) {
  Fp8Tiling tiling = {.unit = Fp8Unit::kManyRows,
                      .input_rows = input_rows,
                      .weight_rows = kFp8TileColumns,
                      .cluster_blocks = cluster_blocks};
  tiling.num_stages = Fp8Stages(problem, tiling, kMaxFp8SharedBytes);
  return tiling;
}

}  // namespace

int Fp8FetchedRows(const Fp8Problem& problem, const Fp8Tiling& tiling) {
  constexpr int64_t kGranule = 8;
  return static_cast<int>(
      std::min<int64_t>(tiling.input_rows, DivideUp(problem.num_rows, kGranule) * kGranule));
}

int64_t Fp8SharedBytes(const Fp8Problem& problem, const Fp8Tiling& tiling) {
  return Fp8FixedBytes(problem, tiling) + tiling.num_stages * Fp8StageBytes(problem, tiling);
}

int Fp8Stages(const Fp8Problem& problem, const Fp8Tiling& tiling, int64_t shared_bytes) {
  const int64_t left = shared_bytes - Fp8FixedBytes(problem, tiling);
  if (left < 0) return 0;
  return static_cast<int>(std::min<int64_t>(kMostStages, left / Fp8StageBytes(problem, tiling)));
}

Fp8Tiling ChooseFp8Tiling(const Fp8Problem& problem, int num_multiprocessors) {
  const int64_t columns = DivideUp(problem.n, kFp8TileColumns);
  const bool is_wide = problem.num_rows >= kManyInputRows && columns >= num_multiprocessors;
  if (problem.num_rows <= kMaxFp8FewRows && !is_wide) {
    const Fp8Tiling tiling = ChooseFewRows(problem, num_multiprocessors);
    if (tiling.num_stages >= 2) return tiling;
  }
  // A tile of 256 rows takes a little less than two of 128.
  constexpr double kLargeTile = 1.8;
  const int64_t small =
      DivideUp(DivideUp(problem.num_rows, 128) * columns, int64_t{num_multiprocessors});
  const int64_t large = DivideUp(DivideUp(problem.num_rows, 256) * DivideUp(columns, 2),
                                 int64_t{std::max(1, num_multiprocessors / 2)});
  if (num_multiprocessors >= 2 &&
      kLargeTile * static_cast<double>(large) <= static_cast<double>(small)) {
    return ManyRows(problem, 256, 2);
  }
  return ManyRows(problem, 128, 1);
}

std::string DescribeFp8Tiling(const Fp8Tiling& tiling) {
  if (tiling.unit == Fp8Unit::kFewRows) {
    return fmt::format("few {}w x {} s{}", tiling.weight_rows, tiling.input_rows,
                       tiling.num_stages);
  }
  return fmt::format("many {} x {} s{} c{}", tiling.input_rows, tiling.weight_rows,
                     tiling.num_stages, tiling.cluster_blocks);
}

}  // namespace lockstep::kernels
