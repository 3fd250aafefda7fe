#pragma once

#include "kernels/formats/strips/kernels/strip_gemm.cuh"

namespace lockstep::kernels {

// Narrow tiles have few rows of the input, and no SwiGLU.
template <typename Codec, int kStageBlocks, int kInputRows, bool kHolds>
const void* StripKernelOf(int strips, bool gated) {
  if (gated) {
    if (strips != 2) return nullptr;
    return reinterpret_cast<const void*>(
        StripGemmKernel<Codec, 2, kStageBlocks, kInputRows, GemmEpilogue::kSwiGlu, kHolds>);
  }
  if (strips != 1) {
    if (strips != 2) return nullptr;
    return reinterpret_cast<const void*>(
        StripGemmKernel<Codec, 2, kStageBlocks, kInputRows, GemmEpilogue::kPlain, kHolds>);
  }
  if constexpr (kInputRows <= kMaxNarrowInputRows) {
    return reinterpret_cast<const void*>(
        StripGemmKernel<Codec, 1, kStageBlocks, kInputRows, GemmEpilogue::kPlain, kHolds>);
  }
  return nullptr;
}

template <typename Codec, int kInputRows, bool kHolds = false>
const void* StripKernelOfRows(int strips, int stage_blocks, bool gated) {
  constexpr int kLong = LongStageBlocks(kInputRows);
  if (stage_blocks == kLong) return StripKernelOf<Codec, kLong, kInputRows, kHolds>(strips, gated);
  if constexpr (!kHolds && kLong != 1) {
    if (stage_blocks == 1) return StripKernelOf<Codec, 1, kInputRows, false>(strips, gated);
  }
  return nullptr;
}

// Every kernel of a codec. With short stages the input is never held.
template <typename Codec>
const void* FindStripKernelOf(int strips, int stage_blocks, int input_rows, bool holds_input,
                              bool gated) {
  switch (input_rows) {
    case 8:
      return holds_input ? StripKernelOfRows<Codec, 8, true>(strips, stage_blocks, gated)
                         : StripKernelOfRows<Codec, 8>(strips, stage_blocks, gated);
    case 16:
      return StripKernelOfRows<Codec, 16>(strips, stage_blocks, gated);
    case 32:
      return StripKernelOfRows<Codec, 32>(strips, stage_blocks, gated);
    case 64:
      return StripKernelOfRows<Codec, 64>(strips, stage_blocks, gated);
    default:
      return nullptr;
  }
}

// A warp converts a block of a strip. Its lanes have two columns each, here and there. They pass
// them through shared memory, so that the block goes to the bf16 matrix in whole rows.
template <typename Codec>
__global__ void __launch_bounds__(kExpandWarps * 32) ExpandStripsKernel(ExpandTask task) {
  constexpr int kRowWords = kStripBlockColumns / 2;
  constexpr int kPadding = 4;  // against bank conflicts
  __shared__ alignas(16) uint32_t blocks[kExpandWarps][kStripRows][kRowWords + kPadding];
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t at = int64_t{blockIdx.x} * kExpandWarps + warp;
  if (at >= task.num_strip_blocks) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const typename Codec::Raw raw =
      Codec::Load(GlobalBytes{task.strips + at * Codec::kBlockBytes}, lane);
  // [bands][blocks of a strip][kBandStrips]
  const int64_t strip = at / kBandStrips / task.num_blocks * kBandStrips + at % kBandStrips;
  const StripRowTable table = {.data = task.rows,
                               .num_rows = task.num_strip_blocks / task.num_blocks * kStripRows};
  const auto row_of_lane = Codec::Row::Load(table, strip * kStripRows + lane / 4);
  StripPairs pairs[2];
  Codec::template Convert<0>(raw, row_of_lane, kBF16Magic, pairs[0]);
  Codec::template Convert<1>(raw, row_of_lane, kBF16Magic, pairs[1]);
  uint32_t(&block)[kStripRows][kRowWords + kPadding] = blocks[warp];
#pragma unroll
  for (int i = 0; i < 4 * kHalfSteps; ++i) {
    block[lane / 4][4 * i + lane % 4] = pairs[i / 2 / kHalfSteps][i / 2 % kHalfSteps][i % 2];
  }
  __syncwarp();
  const int64_t first_column = at / kBandStrips % task.num_blocks * kStripBlockColumns;
  // 16 lanes write a row, 8 columns each. k is a multiple of 8: all of them exist or none.
  const int64_t column = first_column + lane % 16 * 8;
#pragma unroll
  for (int first = 0; first < kStripRows; first += 2) {
    const int row_of_strip = first + lane / 16;
    const int64_t row = strip * kStripRows + row_of_strip;
    if (row < task.n && column < task.k) {
      *reinterpret_cast<uint4*>(task.output + row * task.k + column) =
          *reinterpret_cast<const uint4*>(&block[row_of_strip][lane % 16 * 4]);
    }
  }
}

}  // namespace lockstep::kernels
