#pragma once

#include "kernels/formats/strips/strip_gemm.cuh"

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

// The lane's elements of a block go to their places in a bf16 matrix.
template <typename Codec>
__global__ void __launch_bounds__(256) ExpandStripsKernel(ExpandTask task) {
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
  const int64_t at = int64_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
  if (at >= task.num_strip_blocks) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // [bands][blocks of a strip][kBandStrips]
  const int64_t strip = at / kBandStrips / task.num_blocks * kBandStrips + at % kBandStrips;
  const int64_t block = at / kBandStrips % task.num_blocks;
  const int64_t row = strip * kStripRows + lane / 4;
  const int64_t first_column = block * kStripBlockColumns + lane % 4 * 2;
  const typename Codec::Raw raw =
      Codec::Load(GlobalBytes{task.strips + at * Codec::kBlockBytes}, lane);
  StripPairs pairs[2];
  Codec::template Convert<0>(raw, kBF16Magic, pairs[0]);
  Codec::template Convert<1>(raw, kBF16Magic, pairs[1]);
  if (row >= task.n) return;
#pragma unroll
  for (int i = 0; i < 4 * kHalfSteps; ++i) {
    const int64_t column = first_column + i * 8;
    // k is even, and so is the column: both of a pair exist or none.
    if (column < task.k) {
      *reinterpret_cast<uint32_t*>(task.output + row * task.k + column) =
          pairs[i / 2 / kHalfSteps][i / 2 % kHalfSteps][i % 2];
    }
  }
}

}  // namespace lockstep::kernels
