#pragma once

#include "kernels/core/ptx/warpgroup_mma.cuh"
#include "kernels/gemm/tile/gemm_ring.cuh"

namespace lockstep::kernels {

#ifdef LOCKSTEP_PLANT_SPLIT_K
template <int kNumSums>
__device__ __forceinline__ void MoveSums(float (&to)[kNumSums], float (&sums)[kNumSums]) {
  ptx::WarpgroupWait<0>();
  ptx::HoldAccumulator(sums);
  for (int i = 0; i < kNumSums; ++i) to[i] = sums[i];
}
template <int kNumSums>
__device__ __forceinline__ void AddSums(float (&sums)[kNumSums], const float (&more)[kNumSums]) {
  for (int i = 0; i < kNumSums; ++i) sums[i] = __fadd_rn(sums[i], more[i]);
}
#endif

// How a warpgroup walks over the tiles of its block. unit.Multiply(stage, slab, accumulate, sums)
// issues the instructions of a slab and commits them; without `accumulate` it begins new sums.
// unit.Store(origin, sums) gets the sums of a tile. With Unit::kTestsAhead a warp asks early
// whether the next slab is there, so that it need not wait for the answer.
template <typename Unit>
__device__ __forceinline__ void ConsumeTiles(const GemmTask& task, const typename Unit::Ring& ring,
                                             const Unit& unit) {
  typename Unit::Sums sums;
  RingSlot slot;
  bool is_full = false;
  for (int tile = ring.FirstTile(); ring.IsTile(tile); tile = ring.NextTile(tile)) {
    // Origin divides. It does so while the first slab is on its way.
    const TileOrigin origin = ring.Origin(tile);
#ifdef LOCKSTEP_PLANT_SPLIT_K
    typename Unit::Sums first_half = {};
#endif
    int previous_stage = 0;
#pragma unroll 1
    for (int slab = 0; slab < ring.num_slabs(); ++slab) {
      if (!is_full) ring.WaitUntilFull(slot);
      const int stage = slot.stage;
      if constexpr (Unit::kTestsAhead) {
        ring.Advance(slot);
        is_full = ring.IsFull(slot);
      }
#ifdef LOCKSTEP_PLANT_SPLIT_K
      // The planted fault of docs/numerics.md: few rows sum the halves of k apart.
      const bool splits = slab > 0 && slab == ring.num_slabs() / 2 && task.num_rows <= 4;
      if (splits) MoveSums(first_half, sums);
      unit.Multiply(stage, slab, slab > 0 && !splits, sums);
#else
      unit.Multiply(stage, slab, slab > 0, sums);
#endif
      // The slab before this one is done.
      ptx::WarpgroupWait<1>();
      if (slab > 0) ring.Release(previous_stage);
      previous_stage = stage;
      if constexpr (!Unit::kTestsAhead) ring.Advance(slot);
    }
    ptx::WarpgroupWait<0>();
    ring.Release(previous_stage);
    ptx::HoldAccumulator(sums);
#ifdef LOCKSTEP_PLANT_SPLIT_K
    AddSums(sums, first_half);
#endif
    unit.Store(origin, sums);
  }
}

}  // namespace lockstep::kernels
