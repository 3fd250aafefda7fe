#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/core/ptx/mbarrier.cuh"
#include "kernels/core/ptx/tensor_copy.cuh"
#include "kernels/gemm/tile/gemm_task.h"
#include "kernels/gemm/tile/gemm_tiling.h"

namespace lockstep::kernels {

// A place in the sequence of slabs (columns of k that fill one stage), tile after tile, that the
// producer and the consumers of a block go through alike.
struct SlabWalk {
  int tile;
  int first_row;     // of the tile, in the input
  int first_column;  // of the tile, in the output
  int slab;
  int stage;
  uint32_t phase;
};

// The ring of stages in shared memory through which a block's tiles pass: of each slab the input
// and the weights, as [blocks][rows][64 columns] with the copy engine's swizzle. A stage is full
// when both have arrived, and empty when all consumer warps have released it.
template <GemmUnit kUnit, int kWeightRows, int kInputRows, bool kGated>
class GemmRing {
 public:
  static constexpr int kSlabBlocks = GemmSlabBlocks(kUnit, kWeightRows, kInputRows);
  static constexpr int kBlockSteps = kBlockColumns / 16;
  static constexpr int kSlabSteps = kSlabBlocks * kBlockSteps;
  static constexpr int kTileColumns = kGated ? kWeightRows / 2 : kWeightRows;
  static constexpr uint32_t kWeightBlockBytes = kWeightRows * kBlockRowBytes;

  __device__ GemmRing(const GemmTask& task, uint32_t shared_address)
      : task_(task),
        num_slabs_((task.num_blocks + kSlabBlocks - 1) / kSlabBlocks),
        input_block_bytes_(task.fetched_rows * kBlockRowBytes),
        input_((shared_address + 1023) & ~1023u),
        weights_(input_ + task.num_stages * kSlabBlocks * input_block_bytes_),
        full_(weights_ + task.num_stages * kSlabBlocks * kWeightBlockBytes),
        empty_(full_ + 8 * task.num_stages) {}

  __device__ int num_slabs() const { return num_slabs_; }
  __device__ uint32_t input_block_bytes() const { return input_block_bytes_; }
  __device__ uint32_t Input(const SlabWalk& walk) const {
    return input_ + walk.stage * kSlabBlocks * input_block_bytes_;
  }
  __device__ uint32_t Weights(const SlabWalk& walk) const {
    return weights_ + walk.stage * kSlabBlocks * kWeightBlockBytes;
  }
  __device__ SlabWalk Begin() const {
    SlabWalk walk = {};
    EnterTile(walk, static_cast<int>(blockIdx.x));
    return walk;
  }
  __device__ bool IsDone(const SlabWalk& walk) const { return walk.tile >= task_.num_tiles; }
  __device__ void Advance(SlabWalk& walk) const {
    if (++walk.slab == num_slabs_) {
      walk.slab = 0;
      EnterTile(walk, walk.tile + static_cast<int>(gridDim.x));
    }
    if (++walk.stage == task_.num_stages) {
      walk.stage = 0;
      walk.phase ^= 1;
    }
  }

  // One thread, before all others use the ring.
  __device__ void Initialize(int num_consumer_warps) const {
    for (int i = 0; i < task_.num_stages; ++i) {
      ptx::InitBarrier(full_ + 8 * i, 1);
      ptx::InitBarrier(empty_ + 8 * i, num_consumer_warps);
    }
    ptx::FenceBarrierInit();
  }

  // One thread opens the stage's phase, and requests the weights; then the input.
  __device__ void LoadWeights(const CUtensorMap* map, const SlabWalk& walk) const {
    const uint32_t full = full_ + 8 * walk.stage;
    const ptx::CachePolicy policy =
        task_.weights_pass_once ? ptx::CachePolicy::kEvictFirst : ptx::CachePolicy::kEvictNormal;
    ptx::ArriveExpectBytes(full, kSlabBlocks * (kWeightBlockBytes + input_block_bytes_));
    const int row = walk.first_column;
    if (task_.copies_slabs) {
      const int first_block = walk.slab * kSlabBlocks;
      if constexpr (kGated) {
        ptx::CopyTensorBox(Weights(walk), map, 0, row, 0, first_block, full, policy);
      } else {
        ptx::CopyTensorBox(Weights(walk), map, 0, row, first_block, full, policy);
      }
      return;
    }
#pragma unroll
    for (int block = 0; block < kSlabBlocks; ++block) {
      const uint32_t to = Weights(walk) + block * kWeightBlockBytes;
      const int column = (walk.slab * kSlabBlocks + block) * kBlockColumns;
      ptx::CopyTensorBox(to, map, column, row, full, policy);
      if constexpr (kGated) {
        ptx::CopyTensorBox(to + kWeightBlockBytes / 2, map, column, task_.n + row, full, policy);
      }
    }
  }
  __device__ void LoadInput(const CUtensorMap* map, const SlabWalk& walk) const {
    const uint32_t full = full_ + 8 * walk.stage;
    if (task_.copies_slabs) {
      ptx::CopyTensorBox(Input(walk), map, 0, walk.first_row, walk.slab * kSlabBlocks, full,
                         ptx::CachePolicy::kEvictLast);
      return;
    }
#pragma unroll
    for (int block = 0; block < kSlabBlocks; ++block) {
      const int column = (walk.slab * kSlabBlocks + block) * kBlockColumns;
      ptx::CopyTensorBox(Input(walk) + block * input_block_bytes_, map, column, walk.first_row,
                         full, ptx::CachePolicy::kEvictLast);
    }
  }
  __device__ void WaitUntilEmpty(const SlabWalk& walk) const {
    ptx::WaitBarrier(empty_ + 8 * walk.stage, walk.phase ^ 1);
  }

  __device__ void WaitUntilFull(const SlabWalk& walk) const {
    ptx::WaitBarrier(full_ + 8 * walk.stage, walk.phase);
  }
  // By each consumer warp, when it no longer reads the stage.
  __device__ void Release(int stage) const {
    if (threadIdx.x % 32 == 0) ptx::Arrive(empty_ + 8 * stage);
  }

 private:
  __device__ void EnterTile(SlabWalk& walk, int tile) const {
    walk.tile = tile;
    const int group_tiles = task_.group_row_tiles * task_.num_column_tiles;
    const int first_row_tile = tile / group_tiles * task_.group_row_tiles;
    const int in_group = tile % group_tiles;
    const int row_tiles = min(task_.group_row_tiles, task_.num_row_tiles - first_row_tile);
    if (row_tiles <= 0) return;  // beyond the last tile
    walk.first_row = (first_row_tile + in_group % row_tiles) * task_.tile_rows;
    walk.first_column = in_group / row_tiles * kTileColumns;
  }

  const GemmTask& task_;
  int num_slabs_;
  uint32_t input_block_bytes_;
  uint32_t input_;
  uint32_t weights_;
  uint32_t full_;
  uint32_t empty_;
};

}  // namespace lockstep::kernels
