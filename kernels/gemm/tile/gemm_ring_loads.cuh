#pragma once

#include "kernels/gemm/tile/gemm_ring.cuh"

// What GemmRing asks the copy engine for.
namespace lockstep::kernels {

template <GemmUnit kUnit, int kWeightRows, int kInputRows, bool kGated, bool kHolds>
__device__ inline void GemmRing<kUnit, kWeightRows, kInputRows, kGated, kHolds>::LoadHeldInput()
    const {
  const uint32_t num_bytes = task_.num_blocks * kBlockRowBytes;
  ptx::ArriveExpectBytes(held_, num_bytes);
  ptx::CopyBulk(input_, task_.held_input, num_bytes, held_, ptx::CachePolicy::kEvictLast);
}

template <GemmUnit kUnit, int kWeightRows, int kInputRows, bool kGated, bool kHolds>
__device__ inline void GemmRing<kUnit, kWeightRows, kInputRows, kGated, kHolds>::LoadWeights(
    const CUtensorMap* map, const SlabWalk& walk) const {
  const uint32_t full = full_ + 8 * walk.slot.stage;
  const ptx::CachePolicy policy =
      task_.weights_pass_once ? ptx::CachePolicy::kEvictFirst : ptx::CachePolicy::kEvictNormal;
  ptx::ArriveExpectBytes(full,
                         kSlabBlocks * (kWeightBlockBytes + (kHolds ? 0 : input_block_bytes_)));
  const int row = walk.origin.first_column;
  if (task_.copies_slabs) {
    const int first_block = walk.slab * kSlabBlocks;
    if constexpr (kInterleaved) {
      ptx::CopyTensorBox(Weights(walk.slot.stage), map, 0, 0, 0, row / kInterleavedRows,
                         first_block, full, policy);
    } else if constexpr (kGated) {
      ptx::CopyTensorBox(Weights(walk.slot.stage), map, 0, row, 0, first_block, full, policy);
    } else {
      ptx::CopyTensorBox(Weights(walk.slot.stage), map, 0, row, first_block, full, policy);
    }
    return;
  }
#pragma unroll
  for (int block = 0; block < kSlabBlocks; ++block) {
    const uint32_t to = Weights(walk.slot.stage) + block * kWeightBlockBytes;
    const int column = (walk.slab * kSlabBlocks + block) * kBlockColumns;
    if constexpr (kInterleaved) {
      ptx::CopyTensorBox(to, map, column, 0, 0, row / kInterleavedRows, full, policy);
      continue;
    }
    ptx::CopyTensorBox(to, map, column, row, full, policy);
    if constexpr (kGated) {
      ptx::CopyTensorBox(to + kWeightBlockBytes / 2, map, column, task_.n + row, full, policy);
    }
  }
}

template <GemmUnit kUnit, int kWeightRows, int kInputRows, bool kGated, bool kHolds>
__device__ inline void GemmRing<kUnit, kWeightRows, kInputRows, kGated, kHolds>::LoadInput(
    const CUtensorMap* map, const SlabWalk& walk) const {
  const uint32_t full = full_ + 8 * walk.slot.stage;
  if (task_.copies_slabs) {
    ptx::CopyTensorBox(Input(walk.slot.stage), map, 0, walk.origin.first_row,
                       walk.slab * kSlabBlocks, full, ptx::CachePolicy::kEvictLast);
    return;
  }
#pragma unroll
  for (int block = 0; block < kSlabBlocks; ++block) {
    const int column = (walk.slab * kSlabBlocks + block) * kBlockColumns;
    ptx::CopyTensorBox(Input(walk.slot.stage) + block * input_block_bytes_, map, column,
                       walk.origin.first_row, full, ptx::CachePolicy::kEvictLast);
  }
}

}  // namespace lockstep::kernels
