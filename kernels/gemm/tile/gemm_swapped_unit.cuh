#pragma once

#include <cstdint>

#include "kernels/core/ptx/warpgroup_mma.cuh"
#include "kernels/core/ptx/warpgroup_mma_wide.cuh"
#include "kernels/gemm/tile/gemm_ring.cuh"
#include "kernels/gemm/tile/gemm_swapped_store.cuh"

namespace lockstep::kernels {

// Consumers that are one warpgroup with the operands swapped, for few input rows. The input rows
// are on the N side of the instructions, and the weight rows, at most 64, are on the M side. An
// instruction takes 16 clocks to read 64 rows of the M side from shared memory, and a quarter of a
// clock for each row of the N side: 18 clocks with 8 input rows, 24 with 32. GemmWarpgroupUnit
// spends the 16 clocks on input rows that mostly do not exist.
//
// kHolds: there is one input row, and a block holds all of it.
template <int kWeightRows, int kInputRows, GemmEpilogue kEpilogue, bool kHolds = false>
class GemmSwappedUnit {
  static constexpr bool kGated = kEpilogue == GemmEpilogue::kSwiGlu;

 public:
  using Ring = GemmRing<GemmUnit::kSwapped, kWeightRows, kInputRows, kGated, kHolds>;
  using Sums = float[kInputRows / 2];
  static constexpr int kWarps = 4;
  static constexpr bool kTestsAhead = true;
  static_assert(kWeightRows <= kWarpgroupRows);

  __device__ GemmSwappedUnit(const GemmTask& task, const Ring& ring, int warp)
      : task_(task), ring_(ring), warp_(warp) {}

  // Straight code between fence and commit: the compiler then keeps the instructions asynchronous.
  // Below 64 weight rows the instruction also reads what lies behind them. Those sums are dropped.
  __device__ void Multiply(int stage, int slab, bool accumulate, Sums& sums) const {
    // A held row: its next 8 columns are 16 bytes further on.
    const uint64_t weights = ptx::MatrixDescriptor(ring_.Weights(stage));
    const uint64_t input = kHolds ? ptx::FewRowsDescriptor(ring_.HeldInput(slab), 16)
                                  : ptx::MatrixDescriptor(ring_.Input(stage));
    const uint32_t input_block_step = ring_.input_block_bytes() >> 4;
    ptx::WarpgroupFence();
#pragma unroll
    for (int step = 0; step < Ring::kSlabSteps; ++step) {
      const int block = step / Ring::kBlockSteps;
      const uint64_t in_block = step % Ring::kBlockSteps * ptx::kDescriptorStepK16;
      ptx::WarpgroupMma<kInputRows>(
          sums, weights + block * (Ring::kWeightBlockBytes >> 4) + in_block,
          input + block * input_block_step + in_block, step > 0 || accumulate);
    }
    ptx::WarpgroupCommit();
  }

  __device__ void Store(const TileOrigin& tile, const Sums& sums) const {
    const int first_weight_row = 16 * warp_;
    if (first_weight_row >= kWeightRows) return;
    const int column = tile.first_column + first_weight_row / (kGated ? 2 : 1);
    StoreSwapped<kInputRows, kEpilogue>(task_, tile.first_row, column, sums);
  }

 private:
  const GemmTask& task_;
  const Ring& ring_;
  int warp_;
};

}  // namespace lockstep::kernels
