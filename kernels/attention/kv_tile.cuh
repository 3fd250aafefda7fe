#pragma once

#include <cstdint>

#include "kernels/attention/paged_attention.h"
#include "kernels/core/ptx/mma.cuh"
#include "kernels/kv_cache/device_paged_kv.h"

// How matrix instructions read 16 rows in the order of device_paged_kv.h from shared memory.
namespace lockstep::kernels {

inline constexpr int kKeyTilePages = kKeyTile / kKvBlockTokens;

template <int kHeadDim>
struct KvTile {
  static constexpr int kSteps = kHeadDim / 16;                      // of 16 dims
  static constexpr int kHalfBytes = kKvBlockTokens * kHeadDim * 2;  // keys, or values, of a block
  static constexpr int kPageBytes = 2 * kHalfBytes;

  // Loads rows 0 .. 15 as the left operand of a product over dims 16 * step ..
  __device__ __forceinline__ static void LoadRows(uint32_t (&a)[4], uint32_t rows, int step,
                                                  int lane) {
    ptx::LoadMatrixX4(a, rows + 16 * DeviceKvChunk(lane % 16, 2 * step + lane / 16, kHeadDim));
  }
  // Loads keys 0 .. 15 as the right operand of products over dims 16 * step ..: b[0..1] for keys 0
  // .. 7, b[2..3] for keys 8 .. 15.
  __device__ __forceinline__ static void LoadKeys(uint32_t (&b)[4], uint32_t keys, int step,
                                                  int lane) {
    const int token = lane % 8 + lane / 16 * 8;
    ptx::LoadMatrixX4(b, keys + 16 * DeviceKvChunk(token, 2 * step + lane / 8 % 2, kHeadDim));
  }
  // Loads the values of tokens 0 .. 15 as the right operand of products over tokens: b[0..1] for 8
  // dims from 16 * step on, b[2..3] for the next 8.
  __device__ __forceinline__ static void LoadValues(uint32_t (&b)[4], uint32_t values, int step,
                                                    int lane) {
    ptx::LoadMatrixX4Transposed(
        b, values + 16 * DeviceKvChunk(lane % 16, 2 * step + lane / 16, kHeadDim));
  }
};

// Keeps the first `num_tokens` tokens of what LoadValues loaded, and sets the others to zero.
__device__ __forceinline__ void ClearValuesFrom(uint32_t (&b)[4], int num_tokens, int lane) {
  const int first = lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int token = first + i % 2 * 8;
    const uint32_t lower = token < num_tokens ? 0x0000FFFFu : 0u;
    const uint32_t upper = token + 1 < num_tokens ? 0xFFFF0000u : 0u;
    b[i] &= lower | upper;
  }
}

}  // namespace lockstep::kernels
