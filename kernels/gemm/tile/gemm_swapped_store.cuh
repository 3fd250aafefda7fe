#pragma once

#include <cstdint>

#include "kernels/gemm/tile/gemm_store.cuh"

namespace lockstep::kernels {

// own: sums of two input rows for kHalves weight rows, 8 apart. The neighbour, 4 lanes away, has
// those of the next weight rows. The two swap, and each then has sums of one input row and of two
// weight rows, kHalves times.
template <int kHalves>
__device__ __forceinline__ GemmRowShare<kHalves, 8> SwapWithNeighbour(const float* own,
                                                                      bool is_second) {
  GemmRowShare<kHalves, 8> share;
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    const float* const of_half = own + 2 * half;
    const float given = __shfl_xor_sync(0xFFFFFFFFu, is_second ? of_half[0] : of_half[1], 4);
    share.values[half][0] = is_second ? given : of_half[0];
    share.values[half][1] = is_second ? of_half[1] : given;
  }
  return share;
}
__device__ __forceinline__ GemmRowShare<1, 8> PairOf(const GemmRowShare<2, 8>& share, int half) {
  return {.values = {{share.values[half][0], share.values[half][1]}}};
}

// Stores what a warp has of 8 * kHalves weight rows and kInputRows input rows, with the weights on
// the M side: sums[4j .. 4j + 3] as ptx::MmaM16N8K16 leaves them for the input rows 8j .. 8j + 7.
// `column` is the first output; gated, the weight rows are 8 gate rows and then the 8 up rows.
template <int kInputRows, GemmEpilogue kEpilogue, int kHalves = 2>
__device__ __forceinline__ void StoreSwapped(const GemmTask& task, int first_input_row, int column,
                                             const float* sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool is_second = lane / 4 % 2 != 0;
  const int lane_column = column + lane / 8 * 2;
#pragma unroll
  for (int eight = 0; eight < kInputRows / 8; ++eight) {
    const int first_row = first_input_row + 8 * eight;
    if (first_row >= task.num_rows) continue;
    const int row = first_row + lane % 4 * 2 + (is_second ? 1 : 0);
    const GemmRowShare<kHalves, 8> share = SwapWithNeighbour<kHalves>(sums + 4 * eight, is_second);
    if constexpr (kEpilogue == GemmEpilogue::kSwiGlu) {
      StoreGated(task, row, lane_column, PairOf(share, 0), PairOf(share, 1));
    } else {
      StoreActivated<kEpilogue>(task, row, lane_column, share);
    }
  }
}

}  // namespace lockstep::kernels
