#pragma once

#include <cstdint>

#include "kernels/core/ptx/warpgroup_mma.cuh"
#include "kernels/gemm/gemm_ring.cuh"
#include "kernels/gemm/gemm_store.cuh"

namespace lockstep::kernels {

// The consumers of many input rows: warpgroups, each with 64 of them and all weight rows, which the
// matrix units read from the ring themselves.
template <int kWeightRows, int kInputRows, bool kGated>
class GemmWarpgroupUnit {
 public:
  using Ring = GemmRing<GemmUnit::kWarpgroup, kWeightRows, kGated>;
  static constexpr int kWarps = kInputRows / 16;

  __device__ GemmWarpgroupUnit(const GemmTask& task, const Ring& ring, int warp)
      : task_(task), ring_(ring), warp_(warp) {}

  __device__ void Consume() const {
    float sums[kPieces][kPieceRows / 2];
    SlabWalk walk;
    while (!ring_.IsDone(walk)) {
      const int tile = walk.tile;
      int previous_stage = 0;
      for (int slab = 0; slab < ring_.num_slabs(); ++slab) {
        ring_.WaitUntilFull(walk);
        Multiply(walk, sums);
        // The slab before this one is done.
        ptx::WarpgroupWait<1>();
        if (slab > 0) ring_.Release(previous_stage);
        previous_stage = walk.stage;
        ring_.Advance(walk);
      }
      ptx::WarpgroupWait<0>();
      ring_.Release(previous_stage);
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) ptx::HoldAccumulator(sums[piece]);
      Store(tile, sums);
    }
  }

 private:
  // The widest instruction here has 128 columns.
  static constexpr int kPieces = kWeightRows > 128 ? 2 : 1;
  static constexpr int kPieceRows = kWeightRows / kPieces;
  using Sums = float[kPieces][kPieceRows / 2];

  // Straight code between fence and commit: the compiler then keeps the instructions asynchronous.
  __device__ void Multiply(const SlabWalk& walk, Sums& sums) const {
    constexpr uint32_t kPieceStep = kPieceRows * kBlockRowBytes >> 4;
    const uint64_t input =
        ptx::MatrixDescriptor(ring_.Input(walk) + warp_ / 4 * 64 * kBlockRowBytes);
    const uint64_t weights = ptx::MatrixDescriptor(ring_.Weights(walk));
    const uint32_t input_block_step = ring_.input_block_bytes() >> 4;
    ptx::WarpgroupFence();
#pragma unroll
    for (int step = 0; step < Ring::kSlabSteps; ++step) {
      const int block = step / Ring::kBlockSteps;
      const uint64_t in_block = step % Ring::kBlockSteps * ptx::kDescriptorStepK16;
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        ptx::WarpgroupMma<kPieceRows>(
            sums[piece], input + block * input_block_step + in_block,
            weights + block * (Ring::kWeightBlockBytes >> 4) + in_block + piece * kPieceStep,
            step > 0 || walk.slab > 0);
      }
    }
    ptx::WarpgroupCommit();
  }

  __device__ void Store(int tile, const Sums& sums) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int first_row = ring_.FirstRow(tile) + warp_ * 16 + lane / 4;
    const int first_column = ring_.FirstColumn(tile) + lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if constexpr (kGated) {
        constexpr int kCount = kWeightRows / 16;
        StoreGated(task_, first_row + 8 * half, first_column, Share<kCount>(sums, half, 0),
                   Share<kCount>(sums, half, kCount));
      } else {
        StorePlain(task_, first_row + 8 * half, first_column,
                   Share<kWeightRows / 8>(sums, half, 0));
      }
    }
  }
  // Sums of one of the two rows: of tiles of 8 weight rows, from `first` on.
  template <int kCount>
  __device__ static GemmRowShare<kCount, 8> Share(const Sums& sums, int half, int first) {
    constexpr int kPieceSums = kPieceRows / 2;
    GemmRowShare<kCount, 8> share;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int at = 4 * (first + i) + 2 * half;
      share.values[i][0] = sums[at / kPieceSums][at % kPieceSums];
      share.values[i][1] = sums[at / kPieceSums][at % kPieceSums + 1];
    }
    return share;
  }

  const GemmTask& task_;
  const Ring& ring_;
  int warp_;
};

}  // namespace lockstep::kernels
