#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/core/ptx/mbarrier.cuh"
#include "kernels/core/ptx/tensor_copy.cuh"
#include "kernels/gemm/gemm_task.h"
#include "kernels/gemm/gemm_tiling.h"

namespace lockstep::kernels {

// A place in the sequence of slabs (columns of k that fill one stage), tile after tile, that the
// producer and the consumers of a block go through alike.
struct SlabWalk {
  int tile = static_cast<int>(blockIdx.x);
  int slab = 0;
  int stage = 0;
  uint32_t phase = 0;
};

// The ring of stages in shared memory through which a block's tiles pass: of each slab the input
// and the weights, as [blocks][rows][64 columns] with the copy engine's swizzle. A stage is full
// when both have arrived, and empty when all consumer warps have released it.
template <GemmUnit kUnit, int kWeightRows, bool kGated>
class GemmRing {
 public:
  static constexpr int kSlabBlocks = GemmSlabBlocks(kUnit, kWeightRows);
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
  __device__ int FirstColumn(int tile) const {
    return tile % task_.num_column_tiles * kTileColumns;
  }
  __device__ int FirstRow(int tile) const {
    return tile / task_.num_column_tiles * task_.tile_rows;
  }

  __device__ bool IsDone(const SlabWalk& walk) const { return walk.tile >= task_.num_tiles; }
  __device__ void Advance(SlabWalk& walk) const {
    if (++walk.slab == num_slabs_) {
      walk.slab = 0;
      walk.tile += static_cast<int>(gridDim.x);
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
    ptx::ArriveExpectBytes(full, kSlabBlocks * (kWeightBlockBytes + input_block_bytes_));
    const int row = FirstColumn(walk.tile);
#pragma unroll
    for (int block = 0; block < kSlabBlocks; ++block) {
      const uint32_t to = Weights(walk) + block * kWeightBlockBytes;
      const int column = (walk.slab * kSlabBlocks + block) * kBlockColumns;
      ptx::CopyTensorBox(to, map, column, row, full, ptx::CachePolicy::kEvictFirst);
      if constexpr (kGated) {
        ptx::CopyTensorBox(to + kWeightBlockBytes / 2, map, column, task_.n + row, full,
                           ptx::CachePolicy::kEvictFirst);
      }
    }
  }
  // Weights that find no room in the ring yet: one thread has them come closer.
  __device__ void PrefetchWeights(const CUtensorMap* map, const SlabWalk& walk) const {
    const int row = FirstColumn(walk.tile);
#pragma unroll
    for (int block = 0; block < kSlabBlocks; ++block) {
      const int column = (walk.slab * kSlabBlocks + block) * kBlockColumns;
      ptx::PrefetchTensorBox(map, column, row);
      if constexpr (kGated) ptx::PrefetchTensorBox(map, column, task_.n + row);
    }
  }
  __device__ void LoadInput(const CUtensorMap* map, const SlabWalk& walk) const {
    const uint32_t full = full_ + 8 * walk.stage;
#pragma unroll
    for (int block = 0; block < kSlabBlocks; ++block) {
      const int column = (walk.slab * kSlabBlocks + block) * kBlockColumns;
      ptx::CopyTensorBox(Input(walk) + block * input_block_bytes_, map, column, FirstRow(walk.tile),
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
  const GemmTask& task_;
  int num_slabs_;
  uint32_t input_block_bytes_;
  uint32_t input_;
  uint32_t weights_;
  uint32_t full_;
  uint32_t empty_;
};

}  // namespace lockstep::kernels
