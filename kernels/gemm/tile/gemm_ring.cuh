#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/core/ptx/mbarrier.cuh"
#include "kernels/core/ptx/tensor_copy.cuh"
#include "kernels/core/ring_slot.cuh"
#include "kernels/gemm/tile/gemm_task.h"
#include "kernels/gemm/tile/gemm_tiling.h"

namespace lockstep::kernels {

// Where a tile lies: its first row of the input, its first column of the output.
struct TileOrigin {
  int first_row;
  int first_column;
};

// The producer's way: slabs (columns of k that fill one stage), tile after tile. The consumers go
// the same way with a loop over tiles around one over slabs. So the compiler knows that all lanes
// agree on the stage, and keeps matrix descriptors in registers that a warp shares. Otherwise it
// moves them there before every instruction.
struct SlabWalk {
  int tile = 0;
  TileOrigin origin = {};
  int slab = 0;
  RingSlot slot;
};

// The ring of stages in shared memory through which a block's tiles pass: of each slab the input
// and the weights, as [blocks][rows][64 columns] with the copy engine's swizzle. The M side of
// the instructions comes first. They always read 64 of its rows, and behind its last block they
// read the other side. A stage is full when both have arrived, and empty when all consumer warps
// have released it.
//
// kHolds: the input has one row. All of it lies behind the stages, as ptx::FewRowsDescriptor reads
// it, and a stage has weights alone.
//
// gemm_ring_loads.cuh has the members that are only declared here.
template <GemmUnit kUnit, int kWeightRows, int kInputRows, bool kGated, bool kHolds = false>
class GemmRing {
 public:
  static constexpr bool kHoldsInput = kHolds;
  static constexpr int kSlabBlocks = GemmSlabBlocks(kUnit, kWeightRows, kInputRows);
  static constexpr int kBlockSteps = kBlockColumns / 16;
  static constexpr int kSlabSteps = kSlabBlocks * kBlockSteps;
  static constexpr int kTileColumns = kGated ? kWeightRows / 2 : kWeightRows;
  static constexpr uint32_t kWeightBlockBytes = kWeightRows * kBlockRowBytes;
  static constexpr bool kSwapped = kUnit == GemmUnit::kSwapped;
  // kInterleavedRows of the gate are followed by those of up. Otherwise all gate rows come first.
  static constexpr bool kInterleaved = kGated && kSwapped;

  __device__ GemmRing(const GemmTask& task, uint32_t shared_address)
      : task_(task),
        num_slabs_((task.num_blocks + kSlabBlocks - 1) / kSlabBlocks),
        input_block_bytes_((kHolds ? 1 : task.fetched_rows) * kBlockRowBytes) {
    const uint32_t begin = (shared_address + 1023) & ~1023u;
    const uint32_t num_blocks = task.num_stages * kSlabBlocks;
    const uint32_t input_bytes = (kHolds ? task.num_blocks : num_blocks) * input_block_bytes_;
    const uint32_t weight_bytes = num_blocks * kWeightBlockBytes;
    input_ = begin + (kSwapped ? weight_bytes : 0);
    weights_ = begin + (kSwapped ? 0 : input_bytes);
    full_ = begin + input_bytes + weight_bytes;
    empty_ = full_ + 8 * task.num_stages;
    held_ = empty_ + 8 * task.num_stages;
    const int block = static_cast<int>(blockIdx.x);
    const int num_blocks_of_grid = static_cast<int>(gridDim.x);
    first_tile_ = block;
    end_tile_ = task.num_tiles;
    tile_step_ = num_blocks_of_grid;
    if (task.weights_pass_once) {
      first_tile_ = block * task.num_tiles / num_blocks_of_grid;
      end_tile_ = (block + 1) * task.num_tiles / num_blocks_of_grid;
      tile_step_ = 1;
    }
  }

  __device__ int num_slabs() const { return num_slabs_; }
  __device__ uint32_t input_block_bytes() const { return input_block_bytes_; }
  __device__ uint32_t Input(int stage) const {
    return input_ + stage * kSlabBlocks * input_block_bytes_;
  }
  __device__ uint32_t HeldInput(int slab) const {
    return input_ + slab * kSlabBlocks * kBlockRowBytes;
  }
  __device__ uint32_t Weights(int stage) const {
    return weights_ + stage * kSlabBlocks * kWeightBlockBytes;
  }
  __device__ void Advance(RingSlot& slot) const { slot.Advance(task_.num_stages); }

  // A block's tiles.
  __device__ int FirstTile() const { return first_tile_; }
  __device__ int NextTile(int tile) const { return tile + tile_step_; }
  __device__ bool IsTile(int tile) const { return tile < end_tile_; }
  __device__ TileOrigin Origin(int tile) const {
    const int group_tiles = task_.group_row_tiles * task_.num_column_tiles;
    const int first_row_tile = tile / group_tiles * task_.group_row_tiles;
    const int in_group = tile % group_tiles;
    const int row_tiles = min(task_.group_row_tiles, task_.num_row_tiles - first_row_tile);
    return {.first_row = (first_row_tile + in_group % row_tiles) * task_.tile_rows,
            .first_column = in_group / row_tiles * kTileColumns};
  }

  __device__ SlabWalk Begin() const {
    SlabWalk walk;
    EnterTile(walk, FirstTile());
    return walk;
  }
  __device__ bool IsDone(const SlabWalk& walk) const { return !IsTile(walk.tile); }
  __device__ void Advance(SlabWalk& walk) const {
    if (++walk.slab == num_slabs_) {
      walk.slab = 0;
      EnterTile(walk, NextTile(walk.tile));
    }
    Advance(walk.slot);
  }

  // One thread, before all others use the ring.
  __device__ void Initialize(int num_consumer_warps) const {
    for (int i = 0; i < task_.num_stages; ++i) {
      ptx::InitBarrier(full_ + 8 * i, 1);
      ptx::InitBarrier(empty_ + 8 * i, num_consumer_warps);
    }
    if constexpr (kHolds) ptx::InitBarrier(held_, 1);
    ptx::FenceBarrierInit();
  }

  // One thread.
  __device__ void LoadHeldInput() const;
  __device__ void WaitForHeldInput() const { ptx::WaitBarrier(held_, 0); }

  // One thread opens the stage's phase, and requests the weights; then the input.
  __device__ void LoadWeights(const CUtensorMap* map, const SlabWalk& walk) const;
  __device__ void LoadInput(const CUtensorMap* map, const SlabWalk& walk) const;
  __device__ void WaitUntilEmpty(const RingSlot& slot) const {
    ptx::WaitBarrier(empty_ + 8 * slot.stage, slot.phase ^ 1);
  }

  __device__ void WaitUntilFull(const RingSlot& slot) const {
    ptx::WaitBarrier(full_ + 8 * slot.stage, slot.phase);
  }
  __device__ bool IsFull(const RingSlot& slot) const {
    return ptx::TestBarrier(full_ + 8 * slot.stage, slot.phase);
  }
  // By each consumer warp, when it no longer reads the stage.
  __device__ void Release(int stage) const {
    ptx::ArriveIf(empty_ + 8 * stage, threadIdx.x % 32 == 0);
  }

 private:
  __device__ void EnterTile(SlabWalk& walk, int tile) const {
    walk.tile = tile;
    if (IsTile(tile)) walk.origin = Origin(tile);
  }

  const GemmTask& task_;
  int num_slabs_;
  uint32_t input_block_bytes_;
  uint32_t input_;
  uint32_t weights_;
  uint32_t full_;
  uint32_t empty_;
  uint32_t held_;
  int first_tile_;
  int end_tile_;
  int tile_step_;
};

}  // namespace lockstep::kernels
