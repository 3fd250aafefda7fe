#pragma once

#include <cstdint>
#include <utility>

#include "kernels/core/ptx/memory.cuh"
#include "kernels/core/ptx/warpgroup_mma_e4m3.cuh"
#include "kernels/formats/fp8_activations/fp8_few_rows_ring.cuh"
#include "kernels/gemm/tile/gemm_swapped_store.cuh"

namespace lockstep::kernels {

// The consumers: one or two warpgroups, each with 64 weight rows of a tile and all input rows.
template <int kN>
class Fp8FewRowsConsumer {
 public:
  using Ring = Fp8FewRowsRing<kN>;
  static constexpr int kSlab = Ring::kSlab;

  __device__ Fp8FewRowsConsumer(const Fp8Task& task, const Ring& ring, int warp)
      : task_(task), ring_(ring), warp_(warp), lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ void Run() {
    ring_.WaitForScales();
    RingSlot slot;
    for (int tile = ring_.first_tile(); tile < ring_.end_tile(); ++tile) {
      EnterTile(tile);
#pragma unroll 1
      for (int slab = 0; slab < ring_.num_slabs(); ++slab) {
        ring_.WaitUntilFull(slot);
        Multiply(slot.stage);
        float scales[2][kSlab];
#pragma unroll
        for (int i = 0; i < 2 * kSlab; ++i)
          scales[i / kSlab][i % kSlab] = next_[i / kSlab][i % kSlab];
        FetchWeightScales(slab + 1);
        AddBlocks(slot.stage, slab, scales, std::make_integer_sequence<int, kSlab>());
        ring_.Advance(slot);
      }
      Store(tile);
    }
  }

 private:
  __device__ void EnterTile(int tile) {
    const int row = tile * task_.tile_weight_rows + 16 * warp_ + lane_ / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int existing = min(row + 8 * half, task_.output.n - 1);
      weight_scales_[half] = task_.weight_scales + int64_t{existing >> task_.weight_scale_shift} *
                                                       task_.weight_scale_row_stride;
    }
#pragma unroll
    for (float& sum : sums_) sum = 0.0f;
    FetchWeightScales(0);
  }

  // Those of a slab, for the two weight rows of the thread.
  __device__ void FetchWeightScales(int slab) {
#pragma unroll
    for (int i = 0; i < kSlab; ++i) {
      const int block = min(slab * kSlab + i, task_.num_blocks - 1);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        next_[half][i] = __ldg(weight_scales_[half] + block * task_.weight_scale_block_stride);
      }
    }
  }

  // Straight code between the first fence and the last commit: the compiler then keeps the
  // instructions asynchronous.
  __device__ void Multiply(int stage) {
    const uint64_t weights =
        ptx::MatrixDescriptor(ring_.Weights(stage) + warp_ / 4 * kFp8GroupRows * kFp8RowBytes);
    const uint64_t input = ptx::MatrixDescriptor(ring_.Input(stage));
    const uint32_t weight_step = ring_.weight_block_bytes() >> 4;
    const uint32_t input_step = ring_.input_block_bytes() >> 4;
    ptx::WarpgroupFence();
#pragma unroll
    for (int block = 0; block < kSlab; ++block) {
#pragma unroll
      for (int step = 0; step < kFp8RowBytes / 32; ++step) {
        const uint64_t in_block = step * ptx::kDescriptorStepE4M3K32;
        ptx::WarpgroupMmaE4M3<kN>(partial_[block], weights + block * weight_step + in_block,
                                  input + block * input_step + in_block, step > 0);
      }
      ptx::WarpgroupCommit();
    }
  }

  template <int... kBlocks>
  __device__ void AddBlocks(int stage, int slab, const float (&scales)[2][kSlab],
                            std::integer_sequence<int, kBlocks...>) {
    (AddBlock<kBlocks>(stage, slab, scales), ...);
  }
  template <int kBlock>
  __device__ void AddBlock(int stage, int slab, const float (&scales)[2][kSlab]) {
    const int block = slab * kSlab + kBlock;
    const bool exists = block < task_.num_blocks;
    const uint32_t input_scales =
        ring_.Scales(exists ? block : 0) + lane_ % 4 * 2 * static_cast<uint32_t>(sizeof(float));
    // With few rows all scales are read while the instructions run.
    constexpr int kEarly = kN <= 32 ? kN / 8 : 1;
    uint2 early[kEarly];
#pragma unroll
    for (int eight = 0; eight < kEarly; ++eight) {
      early[eight] = ptx::LoadShared64(input_scales + eight * 32);
    }
    ptx::WarpgroupWait<kSlab - 1 - kBlock>();
    ptx::HoldAccumulator(partial_[kBlock]);
    if constexpr (kBlock == kSlab - 1) ring_.Release(stage);
#pragma unroll
    for (int eight = 0; eight < kN / 8; ++eight) {
      const uint2 words =
          eight < kEarly ? early[eight] : ptx::LoadShared64(input_scales + eight * 32);
      const float input[2] = {__uint_as_float(words.x), __uint_as_float(words.y)};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& sum = sums_[4 * eight + i];
        const float more = __fmaf_rn(partial_[kBlock][4 * eight + i],
                                     __fmul_rn(input[i % 2], scales[i / 2][kBlock]), sum);
        sum = exists ? more : sum;
      }
    }
  }

  __device__ void Store(int tile) const {
    const int first = 16 * warp_;
    if (first >= task_.tile_weight_rows) return;
    StoreSwapped<kN, GemmEpilogue::kPlain>(task_.output, 0, tile * task_.tile_weight_rows + first,
                                           sums_);
  }

  const Fp8Task& task_;
  const Ring& ring_;
  int warp_;
  int lane_;
  const float* weight_scales_[2];
  float next_[2][kSlab];
  float sums_[kN / 2];
  float partial_[kSlab][kN / 2];
};

}  // namespace lockstep::kernels
