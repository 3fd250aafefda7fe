#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/core/ptx/mbarrier.cuh"
#include "kernels/core/ptx/tensor_copy.cuh"
#include "kernels/core/ring_slot.cuh"
#include "kernels/formats/strips/strip_task.h"
#include "kernels/formats/strips/strip_tiling.h"

namespace lockstep::kernels {

// The way of a thread block through its tiles and their stages.
struct StripWalk {
  int tile = 0;
  int first_block = 0;  // of the stage, in k
  RingSlot slot;
};

// The ring of stages in shared memory through which packed strips and input rows pass. A stage has
// [bands of the tile][kStageBlocks][kBandStrips][kBlockBytes] and [blocks of 64 columns][input
// rows][128 bytes], the latter with the copy engine's swizzle. kHolds: the input has one row, which
// lies behind the weights of all stages as ptx::FewRowsDescriptor reads it. kGated: the bands of
// gate rows are followed by those of their up rows.
template <int kBlockBytes, int kStageBlocks, bool kGated, bool kHolds>
class StripRing {
 public:
  static constexpr int kInputBlocks = kStripBlockColumns / 64;  // in a block of weights
  static constexpr int kInputRowBytes = 128;
  static constexpr uint32_t kBandBlockBytes = kBandStrips * kBlockBytes;
  static constexpr uint32_t kBandBytes = kStageBlocks * kBandBlockBytes;  // of a stage
  static constexpr int kBandsOfOne = kGated ? 2 : 1;  // that a band of the output needs

  __device__ StripRing(const StripTask& task, uint32_t shared_address)
      : task_(task),
        begin_((shared_address + 1023) & ~1023u),
        stage_bytes_(task.tile_bands * kBandsOfOne * kBandBytes),
        input_block_bytes_(task.fetched_rows * kInputRowBytes),
        stage_input_bytes_(kHolds ? 0 : kStageBlocks * kInputBlocks * input_block_bytes_) {
    input_ = begin_ + ((task.num_stages * stage_bytes_ + 1023) & ~1023u);
    const uint32_t held_bytes = kHolds ? task.num_blocks * kStripBlockColumns * 2 : 0;
    full_ = input_ + held_bytes + task.num_stages * stage_input_bytes_;
    empty_ = full_ + 8 * task.num_stages;
    held_ = empty_ + 8 * task.num_stages;
    const int block = static_cast<int>(blockIdx.x);
    const int grid = static_cast<int>(gridDim.x);
    // Neighbouring tiles of one row of tiles: memory serves those faster. Else blocks take tiles in
    // turn, so that tiles with the same weights run at the same time.
    const bool passes_once = task.num_row_tiles == 1;
    first_tile_ = passes_once ? block * task.num_tiles / grid : block;
    end_tile_ = passes_once ? (block + 1) * task.num_tiles / grid : task.num_tiles;
    tile_step_ = passes_once ? 1 : grid;
  }

  // Tiles with the same weights follow each other.
  __device__ int FirstTile() const { return first_tile_; }
  __device__ int NextTile(int tile) const { return tile + tile_step_; }
  __device__ bool IsTile(int tile) const { return tile < end_tile_; }
  __device__ int FirstBand(int tile) const { return tile / task_.num_row_tiles * task_.tile_bands; }
  __device__ int RowTile(int tile) const { return tile % task_.num_row_tiles; }
  __device__ int NumBands(int first_band) const {
    return min(task_.tile_bands, task_.num_bands - first_band);
  }

  __device__ StripWalk Begin() const { return {.tile = FirstTile()}; }
  __device__ bool IsDone(const StripWalk& walk) const { return !IsTile(walk.tile); }
  __device__ void Advance(StripWalk& walk) const {
    walk.first_block += kStageBlocks;
    if (walk.first_block >= task_.num_blocks) {
      walk.first_block = 0;
      walk.tile = NextTile(walk.tile);
    }
    Advance(walk.slot);
  }
  __device__ void Advance(RingSlot& slot) const { slot.Advance(task_.num_stages); }

  // The lanes of one warp, before all others use the ring.
  __device__ void Initialize(int lane, int num_consumer_warps) const {
    for (int i = lane; i < task_.num_stages; i += 32) {
      ptx::InitBarrier(full_ + 8 * i, 1);
      ptx::InitBarrier(empty_ + 8 * i, num_consumer_warps);
    }
    if (kHolds && lane == 0) ptx::InitBarrier(held_, 1);
    for (int i = lane; i < kStripZeros; i += 32) ptx::StoreShared32(Zeros() + 4 * i, 0);
    ptx::FenceBarrierInit();
  }

  // One thread opens the stage's phase and requests the weights; then the input.
  __device__ void LoadWeights(const StripWalk& walk) const {
    const uint32_t full = full_ + 8 * walk.slot.stage;
    const int first_band = FirstBand(walk.tile);
    const int num_bands = NumBands(first_band);
    ptx::ArriveExpectBytes(full, num_bands * kBandsOfOne * kBandBytes + stage_input_bytes_);
    const ptx::CachePolicy policy =
        task_.num_row_tiles == 1 ? ptx::CachePolicy::kEvictFirst : ptx::CachePolicy::kEvictNormal;
    const int64_t band_stride = int64_t{task_.num_blocks} * kBandBlockBytes;
    const uint8_t* from =
        task_.strips + first_band * band_stride + int64_t{walk.first_block} * kBandBlockBytes;
    uint32_t to = begin_ + walk.slot.stage * stage_bytes_;
    for (int i = 0; i < num_bands; ++i) {
      ptx::CopyBulk(to, from, kBandBytes, full, policy);
      if constexpr (kGated) {
        ptx::CopyBulk(to + task_.tile_bands * kBandBytes, from + task_.num_bands * band_stride,
                      kBandBytes, full, policy);
      }
      from += band_stride;
      to += kBandBytes;
    }
  }
  __device__ void LoadInput(const CUtensorMap* map, int input_rows, const StripWalk& walk) const {
    const uint32_t full = full_ + 8 * walk.slot.stage;
    const int row = RowTile(walk.tile) * input_rows;
#pragma unroll
    for (int i = 0; i < kStageBlocks * kInputBlocks; ++i) {
      ptx::CopyTensorBox(Input(walk.slot.stage) + i * input_block_bytes_, map,
                         walk.first_block * kStripBlockColumns + i * 64, row, full,
                         ptx::CachePolicy::kEvictLast);
    }
  }
  __device__ void LoadHeldInput() const {
    const uint32_t num_bytes = task_.num_blocks * kStripBlockColumns * 2;
    ptx::ArriveExpectBytes(held_, num_bytes);
    ptx::CopyBulk(input_, task_.held_input, num_bytes, held_, ptx::CachePolicy::kEvictLast);
  }
  __device__ void WaitForHeldInput() const { ptx::WaitBarrier(held_, 0); }

  // The first block that a stage has of a strip of the tile; the next is kBandBlockBytes further
  // on, that of the next strip of a band kBlockBytes. Gated, the up rows are UpBytes() further on.
  __device__ uint32_t Weights(int stage, int strip) const {
    return begin_ + stage * stage_bytes_ + strip / kBandStrips * kBandBytes +
           strip % kBandStrips * kBlockBytes;
  }
  __device__ uint32_t UpBytes() const { return task_.tile_bands * kBandBytes; }
  // A stage has blocks of 64 columns one behind the other.
  __device__ uint32_t Input(int stage) const { return input_ + stage * stage_input_bytes_; }
  __device__ uint32_t input_block_bytes() const { return input_block_bytes_; }
  __device__ uint32_t HeldInput() const { return input_; }
  // kStripZeros words of shared memory that are zero.
  __device__ uint32_t Zeros() const { return held_ + 8; }

  __device__ void WaitUntilEmpty(const RingSlot& slot) const {
    ptx::WaitBarrier(empty_ + 8 * slot.stage, slot.phase ^ 1);
  }
  __device__ void WaitUntilFull(const RingSlot& slot) const {
    ptx::WaitBarrier(full_ + 8 * slot.stage, slot.phase);
  }
  // By each consumer warp, when it no longer reads the stage.
  __device__ void Release(int stage) const {
    ptx::ArriveIf(empty_ + 8 * stage, threadIdx.x % 32 == 0);
  }

 private:
  const StripTask& task_;
  uint32_t begin_;
  uint32_t stage_bytes_;
  uint32_t input_block_bytes_;
  uint32_t stage_input_bytes_;
  uint32_t input_;
  uint32_t full_;
  uint32_t empty_;
  uint32_t held_;
  int first_tile_;
  int end_tile_;
  int tile_step_;
};

}  // namespace lockstep::kernels
