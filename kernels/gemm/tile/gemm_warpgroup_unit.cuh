#pragma once

#include <cstdint>

#include "kernels/core/ptx/warpgroup_mma.cuh"
#include "kernels/core/ptx/warpgroup_mma_wide.cuh"
#include "kernels/gemm/tile/gemm_ring.cuh"
#include "kernels/gemm/tile/gemm_store.cuh"

namespace lockstep::kernels {

// Consumers that are warpgroups, each with 64 input rows and all weight rows (gemm_tiling.cc says
// which products they take). The matrix units read both from the ring themselves.
template <int kWeightRows, int kInputRows, bool kGated>
class GemmWarpgroupUnit {
 public:
  using Ring = GemmRing<GemmUnit::kWarpgroup, kWeightRows, kInputRows, kGated>;
  using Sums = float[kWeightRows / 2];
  static constexpr int kWarps = kInputRows / 16;
  static constexpr bool kTestsAhead = false;
  static_assert(kInputRows % kWarpgroupRows == 0);

  __device__ GemmWarpgroupUnit(const GemmTask& task, const Ring& ring, int warp)
      : task_(task), ring_(ring), warp_(warp) {}

  // Straight code between fence and commit: the compiler then keeps the instructions asynchronous.
  __device__ void Multiply(int stage, int /*slab*/, bool accumulate, Sums& sums) const {
    const uint64_t input =
        ptx::MatrixDescriptor(ring_.Input(stage) + warp_ / 4 * kWarpgroupRows * kBlockRowBytes);
    const uint64_t weights = ptx::MatrixDescriptor(ring_.Weights(stage));
    const uint32_t input_block_step = ring_.input_block_bytes() >> 4;
    ptx::WarpgroupFence();
#pragma unroll
    for (int step = 0; step < Ring::kSlabSteps; ++step) {
      const int block = step / Ring::kBlockSteps;
      const uint64_t in_block = step % Ring::kBlockSteps * ptx::kDescriptorStepK16;
      ptx::WarpgroupMma<kWeightRows>(sums, input + block * input_block_step + in_block,
                                     weights + block * (Ring::kWeightBlockBytes >> 4) + in_block,
                                     step > 0 || accumulate);
    }
    ptx::WarpgroupCommit();
  }

  __device__ void Store(const TileOrigin& tile, const Sums& sums) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp_row = tile.first_row + warp_ * 16;
    const int first_row = warp_row + lane / 4;
    const int first_column = tile.first_column + lane % 4 * 2;
    // A few at a time: registers are full of sums.
    constexpr int kPairs = kWeightRows / (kGated ? 16 : 8);
    constexpr int kCount = kPairs % 4 == 0 ? 4 : kPairs % 2 == 0 ? 2 : kPairs;
#pragma unroll
    for (int at = 0; at < 2 * kPairs; at += kCount) {
      const int half = at / kPairs;
      if (warp_row + 8 * half >= task_.num_rows) continue;
      const int pair = at % kPairs;
      const int row = first_row + 8 * half;
      const int column = first_column + 8 * pair;
      if constexpr (kGated) {
        StoreGated(task_, row, column, Share<kCount>(sums, half, pair),
                   Share<kCount>(sums, half, kPairs + pair));
      } else {
        StoreActivated<GemmEpilogue::kPlain>(task_, row, column, Share<kCount>(sums, half, pair));
      }
    }
  }

 private:
  // Sums of one of the two rows: of tiles of 8 weight rows, from `first` on.
  template <int kCount>
  __device__ static GemmRowShare<kCount, 8> Share(const Sums& sums, int half, int first) {
    GemmRowShare<kCount, 8> share;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int at = 4 * (first + i) + 2 * half;
      share.values[i][0] = sums[at];
      share.values[i][1] = sums[at + 1];
    }
    return share;
  }

  const GemmTask& task_;
  const Ring& ring_;
  int warp_;
};

}  // namespace lockstep::kernels
