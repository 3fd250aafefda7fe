#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/core/ptx/cluster.cuh"
#include "kernels/core/ptx/mbarrier.cuh"
#include "kernels/core/ptx/tensor_copy.cuh"
#include "kernels/core/ring_slot.cuh"
#include "kernels/formats/fp8_activations/fp8_task.h"

namespace lockstep::kernels {

struct Fp8TileOrigin {
  int first_row;
  int first_column;
};

// Shared memory of a block of the kernel for many rows: stages of input rows, [rows][128 columns]
// with the copy engine's swizzle; stages of weight rows, likewise; stages of the input's scales;
// for each warpgroup that multiplies, the scales of a tile's channels; barriers. A stage has one
// block of columns.
//
// kCluster = 2: two blocks, side by side, have the same input rows. Each fetches half of them for
// both. So a stage is empty only when the warps of both blocks have released it.
template <int kTileRows, int kCluster>
class Fp8ManyRowsRing {
 public:
  static constexpr uint32_t kInputBytes = kTileRows * kFp8RowBytes;
  static constexpr uint32_t kWeightBytes = kFp8TileColumns * kFp8RowBytes;
  static constexpr uint32_t kScaleBytes = kTileRows * sizeof(float);
  static constexpr uint32_t kChannelBytes = kFp8TileColumns * sizeof(float);
  static constexpr int kConsumerWarps = 8;

  __device__ Fp8ManyRowsRing(const Fp8Task& task, uint32_t shared_address)
      : task_(task), rank_(kCluster == 1 ? 0 : static_cast<int>(ptx::BlockRankInCluster())) {
    input_ = (shared_address + 1023) & ~1023u;
    weights_ = input_ + task.num_stages * kInputBytes;
    scales_ = weights_ + task.num_stages * kWeightBytes;
    channels_ = scales_ + task.num_stages * kScaleBytes;
    full_ = channels_ + 2 * kChannelBytes;
    empty_ = full_ + 8 * task.num_stages;
  }

  __device__ uint32_t Input(int stage) const { return input_ + stage * kInputBytes; }
  __device__ uint32_t Weights(int stage) const { return weights_ + stage * kWeightBytes; }
  __device__ uint32_t Scales(int stage) const { return scales_ + stage * kScaleBytes; }
  __device__ uint32_t Channels(int group) const { return channels_ + group * kChannelBytes; }
  __device__ void Advance(RingSlot& slot) const { slot.Advance(task_.num_stages); }

  // A cluster's tiles.
  __device__ int FirstTile() const { return static_cast<int>(blockIdx.x) / kCluster; }
  __device__ int NextTile(int tile) const { return tile + static_cast<int>(gridDim.x) / kCluster; }
  __device__ bool IsTile(int tile) const { return tile < task_.num_tiles; }
  // With an odd number of columns of tiles, the last tile of a second block lies behind the output.
  __device__ Fp8TileOrigin Origin(int tile) const {
    const int group_tiles = task_.group_row_tiles * task_.num_column_tiles;
    const int first_row_tile = tile / group_tiles * task_.group_row_tiles;
    const int in_group = tile % group_tiles;
    const int row_tiles = min(task_.group_row_tiles, task_.num_row_tiles - first_row_tile);
    return {.first_row = (first_row_tile + in_group % row_tiles) * kTileRows,
            .first_column = (in_group / row_tiles * kCluster + rank_) * kFp8TileColumns};
  }

  // One thread, before all others of the cluster use the ring.
  __device__ void Initialize() const {
    for (int i = 0; i < task_.num_stages; ++i) {
      ptx::InitBarrier(full_ + 8 * i, 1);
      ptx::InitBarrier(empty_ + 8 * i, kConsumerWarps * kCluster);
    }
    ptx::FenceBarrierInit();
  }

  // One thread.
  __device__ void Load(const CUtensorMap* input_map, const CUtensorMap* weight_map,
                       const Fp8TileOrigin& origin, int block, int stage) const {
    const uint32_t full = full_ + 8 * stage;
    // The matrix of scales ends with its last rows.
    const uint32_t scale_bytes =
        min(kTileRows, task_.input_scale_stride - origin.first_row) * sizeof(float);
    ptx::ArriveExpectBytes(full, kInputBytes + kWeightBytes + scale_bytes);
    const int column = block * kFp8RowBytes;
    if constexpr (kCluster == 1) {
      ptx::CopyTensorBox(Input(stage), input_map, column, origin.first_row, full,
                         ptx::CachePolicy::kEvictLast);
    } else {
      constexpr uint16_t kBothBlocks = 3;
      constexpr int kOwnRows = kTileRows / kCluster;
      const ptx::TensorBox box = {
          .map = input_map, .column = column, .row = origin.first_row + rank_ * kOwnRows};
      ptx::CopyTensorBoxToBlocks(Input(stage) + rank_ * kOwnRows * kFp8RowBytes, box, full,
                                 kBothBlocks, ptx::CachePolicy::kEvictLast);
    }
    ptx::CopyTensorBox(Weights(stage), weight_map, column, origin.first_column, full,
                       ptx::CachePolicy::kEvictNormal);
    ptx::CopyBulk(Scales(stage),
                  task_.input_scales + int64_t{block} * task_.input_scale_stride + origin.first_row,
                  scale_bytes, full, ptx::CachePolicy::kEvictLast);
  }
  __device__ void WaitUntilEmpty(const RingSlot& slot) const {
    ptx::WaitBarrier(empty_ + 8 * slot.stage, slot.phase ^ 1);
  }

  __device__ void WaitUntilFull(const RingSlot& slot) const {
    ptx::WaitBarrier(full_ + 8 * slot.stage, slot.phase);
  }
  // By each consumer warp, when it no longer reads the stage.
  __device__ void Release(int stage) const {
    const uint32_t empty = empty_ + 8 * stage;
    if constexpr (kCluster == 1) {
      ptx::ArriveIf(empty, threadIdx.x % 32 == 0);
    } else {
      const uint32_t lane = threadIdx.x % 32;
      ptx::ArriveAtBlockIf(empty, lane % kCluster, lane < kCluster);
    }
  }

 private:
  const Fp8Task& task_;
  int rank_;
  uint32_t input_;
  uint32_t weights_;
  uint32_t scales_;
  uint32_t channels_;
  uint32_t full_;
  uint32_t empty_;
};

}  // namespace lockstep::kernels
