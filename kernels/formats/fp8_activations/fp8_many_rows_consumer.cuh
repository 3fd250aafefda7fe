#pragma once

#include <cstdint>

#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/core/ptx/warpgroup_mma_e4m3.cuh"
#include "kernels/formats/fp8_activations/fp8_many_rows_ring.cuh"
#include "kernels/gemm/tile/gemm_store.cuh"

namespace lockstep::kernels {

// A warpgroup that multiplies: kHalves times 64 input rows with the 128 weight rows of a tile. Two
// of them take turns with the matrix units: one multiplies while the other adds its partial sums.
template <int kHalves, bool kChannelScales, int kCluster>
class Fp8ManyRowsConsumer {
 public:
  using Ring = Fp8ManyRowsRing<2 * kHalves * kFp8GroupRows, kCluster>;
  static constexpr int kSums = kFp8TileColumns / 2;

  // `group`: 0 or 1.
  __device__ Fp8ManyRowsConsumer(const Fp8Task& task, const Ring& ring, int group)
      : task_(task),
        ring_(ring),
        group_(group),
        lane_(static_cast<int>(threadIdx.x) % 32),
        own_row_(static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane_ / 4) {}

  __device__ void Run() {
    RingSlot slot;
    for (int tile = ring_.FirstTile(); ring_.IsTile(tile); tile = ring_.NextTile(tile)) {
      const Fp8TileOrigin origin = ring_.Origin(tile);
      EnterTile(origin);
#pragma unroll 1
      for (int block = 0; block < task_.num_blocks; ++block) {
        ring_.WaitUntilFull(slot);
        const float of_block = block_scale_;
        FetchBlockScale(block + 1);
        AddBlock(slot.stage, of_block);
        ring_.Advance(slot);
      }
      Store(origin);
    }
  }

 private:
  __device__ void EnterTile(const Fp8TileOrigin& origin) {
#pragma unroll
    for (int i = 0; i < kHalves * kSums; ++i) sums_[i / kSums][i % kSums] = 0.0f;
    const int column = min(origin.first_column, task_.output.n - 1);
    // Threads of a row may have stored alone. From here on the compiler knows that the warp is
    // together, and computes descriptors once for all lanes. No thread of the warpgroup still reads
    // the scales of the tile before this one.
    ptx::SyncThreads(1 + group_, 128);
    if constexpr (kChannelScales) {
      const int own = static_cast<int>(threadIdx.x) % 128;
      const float scale = __ldg(task_.weight_scales + min(column + own, task_.output.n - 1));
      ptx::StoreShared32(ring_.Channels(group_) + own * sizeof(float), __float_as_uint(scale));
      ptx::SyncThreads(1 + group_, 128);
    } else {
      block_scales_ = task_.weight_scales +
                      int64_t{column >> task_.weight_scale_shift} * task_.weight_scale_row_stride;
      FetchBlockScale(0);
    }
  }
  __device__ void FetchBlockScale(int block) {
    if constexpr (!kChannelScales) {
      block_scale_ = __ldg(block_scales_ + min(block, task_.num_blocks - 1));
    }
  }

  __device__ void AddBlock(int stage, float of_block) {
    const uint64_t weights = ptx::MatrixDescriptor(ring_.Weights(stage));
    const uint64_t input =
        ptx::MatrixDescriptor(ring_.Input(stage) + group_ * kHalves * kFp8GroupRows * kFp8RowBytes);
    float input_scales[kHalves][2];
#pragma unroll
    for (int i = 0; i < 2 * kHalves; ++i) {
      const int row = (group_ * kHalves + i / 2) * kFp8GroupRows + own_row_ + i % 2 * 8;
      input_scales[i / 2][i % 2] =
          __uint_as_float(ptx::LoadShared32(ring_.Scales(stage) + row * sizeof(float)));
    }
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      constexpr uint32_t kHalfStep = kFp8GroupRows * kFp8RowBytes >> 4;
      ptx::WarpgroupFence();
#pragma unroll
      for (int step = 0; step < kFp8RowBytes / 32; ++step) {
        const uint64_t in_block = step * ptx::kDescriptorStepE4M3K32;
        ptx::WarpgroupMmaE4M3<kFp8TileColumns>(partial_, input + half * kHalfStep + in_block,
                                               weights + in_block, step > 0);
      }
      ptx::WarpgroupCommit();
      ptx::WarpgroupWait<0>();
      ptx::HoldAccumulator(partial_);
      if (half == kHalves - 1) ring_.Release(stage);
      AddPartial(sums_[half], input_scales[half], of_block);
    }
  }

  __device__ void AddPartial(float (&sums)[kSums], const float (&of_rows)[2],
                             float of_block) const {
    if constexpr (kChannelScales) {
      const uint32_t channels = ring_.Channels(group_) + lane_ % 4 * 2 * sizeof(float);
#pragma unroll
      for (int eight = 0; eight < kSums / 4; ++eight) {
        const uint2 words = ptx::LoadShared64(channels + eight * 32);
        const float of_columns[2] = {__uint_as_float(words.x), __uint_as_float(words.y)};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int at = 4 * eight + i;
          sums[at] =
              __fmaf_rn(partial_[at], __fmul_rn(of_rows[i / 2], of_columns[i % 2]), sums[at]);
        }
      }
    } else {
      const float scales[2] = {__fmul_rn(of_rows[0], of_block), __fmul_rn(of_rows[1], of_block)};
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        sums[i] = __fmaf_rn(partial_[i], scales[i / 2 % 2], sums[i]);
      }
    }
  }

  __device__ void Store(const Fp8TileOrigin& origin) const {
    constexpr int kPairs = 4;  // a few at a time: registers are full of sums
    const int warp_row = origin.first_row + group_ * kHalves * kFp8GroupRows + own_row_ - lane_ / 4;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
#pragma unroll
      for (int eight = 0; eight < 2; ++eight) {
        const int first_row = warp_row + half * kFp8GroupRows + 8 * eight;
        if (first_row >= task_.output.num_rows) continue;
#pragma unroll
        for (int first = 0; first < kSums / 4; first += kPairs) {
          GemmRowShare<kPairs, 8> share;
#pragma unroll
          for (int i = 0; i < 2 * kPairs; ++i) {
            share.values[i / 2][i % 2] = sums_[half][4 * (first + i / 2) + 2 * eight + i % 2];
          }
          StoreActivated<GemmEpilogue::kPlain>(task_.output, first_row + lane_ / 4,
                                               origin.first_column + 8 * first + lane_ % 4 * 2,
                                               share);
        }
      }
    }
  }

  const Fp8Task& task_;
  const Ring& ring_;
  int group_;
  int lane_;
  int own_row_;  // in 64 rows; the other is 8 below
  const float* block_scales_ = nullptr;
  float block_scale_ = 0.0f;
  float sums_[kHalves][kSums];
  float partial_[kSums];
};

}  // namespace lockstep::kernels
