#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/core/ptx/mbarrier.cuh"
#include "kernels/core/ptx/tensor_copy.cuh"
#include "kernels/core/ring_slot.cuh"
#include "kernels/formats/fp8_activations/fp8_task.h"

namespace lockstep::kernels {

// Where the producer is: stage after stage, tile after tile.
struct Fp8Walk {
  int tile = 0;
  int slab = 0;
  RingSlot slot;
};

// Shared memory of a block of the kernel for few rows. Stages of weights, each [blocks][rows][128
// columns] with the copy engine's swizzle; stages of the input, likewise; all scales of the input,
// as they lie in memory; barriers. The instructions always read 64 weight rows for a warpgroup and
// kN input rows. What they read behind the rows of a block becomes sums that are dropped.
template <int kN>
class Fp8FewRowsRing {
 public:
  static constexpr int kSlab = Fp8SlabBlocks(kN);

  __device__ Fp8FewRowsRing(const Fp8Task& task, uint32_t shared_address)
      : task_(task),
        num_slabs_((task.num_blocks + kSlab - 1) / kSlab),
        weight_block_bytes_(task.tile_weight_rows * kFp8RowBytes),
        input_block_bytes_(task.fetched_rows * kFp8RowBytes) {
    weights_ = (shared_address + 1023) & ~1023u;
    input_ = weights_ + task.num_stages * kSlab * weight_block_bytes_;
    scales_ = input_ + task.num_stages * kSlab * input_block_bytes_ +
              (kN - task.fetched_rows) * kFp8RowBytes;
    full_ = scales_ + (task.num_blocks * task.input_scale_stride + kN) * sizeof(float);
    empty_ = full_ + 8 * task.num_stages;
    scales_full_ = empty_ + 8 * task.num_stages;
    const int block = static_cast<int>(blockIdx.x);
    const int num_thread_blocks = static_cast<int>(gridDim.x);
    // Neighbouring tiles: memory serves those faster.
    first_tile_ = static_cast<int>(int64_t{block} * task.num_tiles / num_thread_blocks);
    end_tile_ = static_cast<int>(int64_t{block + 1} * task.num_tiles / num_thread_blocks);
  }

  __device__ int num_slabs() const { return num_slabs_; }
  __device__ int first_tile() const { return first_tile_; }
  __device__ int end_tile() const { return end_tile_; }
  __device__ uint32_t weight_block_bytes() const { return weight_block_bytes_; }
  __device__ uint32_t input_block_bytes() const { return input_block_bytes_; }
  __device__ uint32_t Weights(int stage) const {
    return weights_ + stage * kSlab * weight_block_bytes_;
  }
  __device__ uint32_t Input(int stage) const { return input_ + stage * kSlab * input_block_bytes_; }
  // Of input row 0 in a block of columns; those of the other rows follow.
  __device__ uint32_t Scales(int block) const {
    return scales_ + block * task_.input_scale_stride * sizeof(float);
  }
  __device__ void Advance(RingSlot& slot) const { slot.Advance(task_.num_stages); }

  __device__ Fp8Walk Begin() const { return {.tile = first_tile_, .slab = 0, .slot = {}}; }
  __device__ bool IsDone(const Fp8Walk& walk) const { return walk.tile >= end_tile_; }
  __device__ void Advance(Fp8Walk& walk) const {
    if (++walk.slab == num_slabs_) {
      walk.slab = 0;
      ++walk.tile;
    }
    Advance(walk.slot);
  }

  // One thread, before all others use the ring.
  __device__ void Initialize(int num_consumer_warps) const {
    for (int i = 0; i < task_.num_stages; ++i) {
      ptx::InitBarrier(full_ + 8 * i, 1);
      ptx::InitBarrier(empty_ + 8 * i, num_consumer_warps);
    }
    ptx::InitBarrier(scales_full_, 1);
    ptx::FenceBarrierInit();
  }

  // One thread.
  __device__ void LoadScales() const {
    const uint32_t num_bytes = task_.num_blocks * task_.input_scale_stride * sizeof(float);
    ptx::ArriveExpectBytes(scales_full_, num_bytes);
    ptx::CopyBulk(scales_, task_.input_scales, num_bytes, scales_full_,
                  ptx::CachePolicy::kEvictLast);
  }
  __device__ void WaitForScales() const { ptx::WaitBarrier(scales_full_, 0); }

  // One thread opens the stage's phase, and requests the weights; then the input.
  __device__ void LoadWeights(const CUtensorMap* map, const Fp8Walk& walk) const {
    const uint32_t full = full_ + 8 * walk.slot.stage;
    ptx::ArriveExpectBytes(full, kSlab * (weight_block_bytes_ + input_block_bytes_));
    Load(map, Weights(walk.slot.stage), weight_block_bytes_, walk.tile * task_.tile_weight_rows,
         walk.slab, full, ptx::CachePolicy::kEvictFirst);
  }
  __device__ void LoadInput(const CUtensorMap* map, const Fp8Walk& walk) const {
    Load(map, Input(walk.slot.stage), input_block_bytes_, 0, walk.slab, full_ + 8 * walk.slot.stage,
         ptx::CachePolicy::kEvictLast);
  }
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
  // Blocks behind the last one arrive as zeros.
  __device__ void Load(const CUtensorMap* map, uint32_t to, uint32_t block_bytes, int row, int slab,
                       uint32_t full, ptx::CachePolicy policy) const {
    if (task_.copies_slabs) {
      ptx::CopyTensorBox(to, map, 0, row, slab * kSlab, full, policy);
      return;
    }
#pragma unroll
    for (int block = 0; block < kSlab; ++block) {
      ptx::CopyTensorBox(to + block * block_bytes, map, (slab * kSlab + block) * kFp8RowBytes, row,
                         full, policy);
    }
  }

  const Fp8Task& task_;
  int num_slabs_;
  uint32_t weight_block_bytes_;
  uint32_t input_block_bytes_;
  uint32_t weights_;
  uint32_t input_;
  uint32_t scales_;
  uint32_t full_;
  uint32_t empty_;
  uint32_t scales_full_;
  int first_tile_;
  int end_tile_;
};

}  // namespace lockstep::kernels
