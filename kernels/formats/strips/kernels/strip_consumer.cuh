#pragma once

#include <cstdint>

#include "kernels/core/ptx/memory.cuh"
#include "kernels/core/ptx/warpgroup_mma_registers.cuh"
#include "kernels/formats/strips/strip_codecs.cuh"
#include "kernels/formats/strips/strip_ring.cuh"
#include "kernels/formats/strips/strip_tiling.h"
#include "kernels/gemm/tile/gemm_swapped_store.cuh"

namespace lockstep::kernels {

// How the warps of a warpgroup multiply: each has one or two strips of 8 weight rows, makes bf16 of
// their codes in registers, and gives them to the matrix units as the left operand; the right
// operand is the input, in shared memory. Half a block is converted while the half before it is
// multiplied, and codes are loaded a block ahead. A warp with one strip leaves half of the
// instruction's rows zero: where rows are few, more warps convert at the same time.
template <typename Codec, int kStrips, int kStageBlocks, int kInputRows, GemmEpilogue kEpilogue,
          bool kHolds>
class StripConsumer {
 public:
  using Ring =
      StripRing<Codec::kBlockBytes, kStageBlocks, kEpilogue == GemmEpilogue::kSwiGlu, kHolds>;

  __device__ StripConsumer(const StripTask& task, const Ring& ring, int warp)
      : task_(task),
        ring_(ring),
        warp_(warp),
        lane_(static_cast<int>(threadIdx.x) % 32),
        magic_(task.magic) {
    // What one strip leaves zero stays in its registers, since the compiler does not know that all
    // of it is equal. Otherwise it would copy a zero before every multiplication.
#pragma unroll
    for (int i = 0; i < kStripZeros; ++i) {
      operands_[i / 16][i % 16 / 4][i % 4] = ptx::LoadShared32(ring.Zeros() + 4 * i);
    }
  }

  __device__ void Run() {
    RingSlot slot;
    for (int tile = ring_.FirstTile(); ring_.IsTile(tile); tile = ring_.NextTile(tile)) {
      const int first_band = ring_.FirstBand(tile);
      const int first_strip = warp_ * kStripStep;  // of the warp, in the tile
      const bool has_strip = first_strip < ring_.NumBands(first_band) * kBandStrips;
      // A warp without a strip works on those of the first warp, and drops the sums.
      const int strip = has_strip ? first_strip : 0;
      LoadRows(first_band * kBandStrips + strip);
      RunTile(strip, slot);
      if (has_strip) {
        StoreSwapped<kInputRows, kEpilogue, kStrips>(
            task_.output, ring_.RowTile(tile) * kInputRows,
            (first_band * kBandStrips + first_strip) * kStripRows, &sums_[0][0]);
      }
    }
  }

 private:
  struct Raw {
    typename Codec::Raw of_strip[kStrips];
  };
  using Operand = uint32_t[kHalfSteps][4];
  static constexpr bool kGated = kEpilogue == GemmEpilogue::kSwiGlu;
  static constexpr int kStripStep = kGated ? 1 : kStrips;  // from warp to warp
  static_assert(!kGated || kStrips == 2);

  // Before the wait for the first codes, which takes as long.
  __device__ __forceinline__ void LoadRows(int strip) {
    const int up_strips = task_.num_bands * kBandStrips;  // gated: from gate rows to up rows
    const StripRowTable table = {.data = task_.rows,
                                 .num_rows = int64_t{up_strips} * (kGated ? 2 : 1) * kStripRows};
#pragma unroll
    for (int i = 0; i < kStrips; ++i) {
      const int own = strip + i * (kGated ? up_strips : 1);
      rows_[i] = Codec::Row::Load(table, int64_t{own} * kStripRows + lane_ / 4);
    }
  }

  __device__ __forceinline__ Raw Load(uint32_t block) const {
    Raw raw;
#pragma unroll
    for (int i = 0; i < kStrips; ++i) {
      raw.of_strip[i] = Codec::Load(
          SharedBytes{block + i * (kGated ? ring_.UpBytes() : Codec::kBlockBytes)}, lane_);
    }
    return raw;
  }

  // Codes are loaded a block before they are multiplied.
  __device__ __forceinline__ void RunTile(int strip, RingSlot& slot) {
    ring_.WaitUntilFull(slot);
    Raw raw = Load(ring_.Weights(slot.stage, strip));
    const int num_stages = task_.num_blocks / kStageBlocks;
    uint32_t input = ring_.HeldInput();
    int previous_stage = 0;
#pragma unroll 1
    for (int i = 0; i < num_stages; ++i) {
      const int stage = slot.stage;
      const uint32_t weights = ring_.Weights(stage, strip);
      if constexpr (!kHolds) input = ring_.Input(stage);
      ring_.Advance(slot);
#pragma unroll
      for (int block = 0; block < kStageBlocks; ++block) {
        Raw next;  // of the last block nothing
        if (block + 1 < kStageBlocks) {
          next = Load(weights + (block + 1) * Ring::kBandBlockBytes);
        }
        MultiplyHalf<0>(raw, input + 2 * block * InputHalfBytes(), i > 0 || block > 0);
        // What was multiplied of the stage before is done. The next stage may need its place.
        if (block == 0 && i > 0) ring_.Release(previous_stage);
        if (block + 1 == kStageBlocks && i + 1 < num_stages) {
          ring_.WaitUntilFull(slot);
          next = Load(ring_.Weights(slot.stage, strip));
        }
        MultiplyHalf<1>(raw, input + (2 * block + 1) * InputHalfBytes(), true);
        raw = next;
      }
      if constexpr (kHolds) input += 2 * kStageBlocks * InputHalfBytes();
      previous_stage = stage;
    }
    ptx::WarpgroupWait<0>();
    ring_.Release(previous_stage);
    ptx::HoldOperand(operands_[1]);
    ptx::HoldTiles(sums_);
  }

  // From one block of 64 input columns to the next.
  __device__ __forceinline__ uint32_t InputHalfBytes() const {
    return kHolds ? 64 * sizeof(BFloat16) : ring_.input_block_bytes();
  }

  // Without `accumulate` new sums begin.
  template <int kHalf>
  __device__ __forceinline__ void MultiplyHalf(const Raw& raw, uint32_t input, bool accumulate) {
    // A warpgroup's instructions have read these registers: the half that is under way has others.
    Operand& operand = operands_[kHalf];
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
      StripPairs pairs;
      Codec::template Convert<kHalf>(raw.of_strip[strip], rows_[strip], magic_, pairs);
#pragma unroll
      for (int step = 0; step < kHalfSteps; ++step) {
        operand[step][strip] = pairs[step][0];
        operand[step][2 + strip] = pairs[step][1];
      }
    }
    // A held row: its next 8 columns are 16 bytes further on.
    const uint64_t descriptor =
        kHolds ? ptx::FewRowsDescriptor(input, 16) : ptx::MatrixDescriptor(input);
    // Straight code between fence and commit.
    ptx::WarpgroupFence();
#pragma unroll
    for (int step = 0; step < kHalfSteps; ++step) {
      ptx::WarpgroupMmaRegisters(sums_, operand[step], descriptor + step * ptx::kDescriptorStepK16,
                                 step > 0 || accumulate);
    }
    ptx::WarpgroupCommit();
    ptx::WarpgroupWait<1>();
    ptx::HoldOperand(operands_[1 - kHalf]);
  }

  const StripTask& task_;
  const Ring& ring_;
  int warp_;
  int lane_;
  uint32_t magic_;
  typename Codec::Row rows_[kStrips];
  float sums_[kInputRows / 8][4];
  Operand operands_[2];
};

}  // namespace lockstep::kernels
