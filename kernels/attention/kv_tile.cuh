#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/paged_attention.h"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/core/ptx/mma.cuh"
#include "kernels/kv_cache/device_paged_kv.h"
#include "kernels/kv_cache/kv_codes.cuh"

// How matrix instructions read 16 rows in the order of device_paged_kv.h from shared memory. A page
// is what the pool has of one head of one block.
namespace lockstep::kernels {

inline constexpr int kKeyTilePages = kKeyTile / kKvBlockTokens;

template <int kHeadDim, KvType kType = KvType::kBFloat16>
struct KvTile {
  static constexpr int kSteps = kHeadDim / 16;                      // of 16 dims
  static constexpr int kHalfBytes = kKvBlockTokens * kHeadDim * 2;  // keys, or values, of a block
  static constexpr int kPageBytes = 2 * kHalfBytes;
  // What a lane needs of a page beside its elements.
  struct KeyScales {
    KeyScales() = default;
    __device__ __forceinline__ KeyScales(uint32_t, int) {}
  };
  using ValueScales = KeyScales;

  // Loads rows 0 .. 15 as the left operand of a product over dims 16 * step ..
  __device__ __forceinline__ static void LoadRows(uint32_t (&a)[4], uint32_t rows, int step,
                                                  int lane) {
    ptx::LoadMatrixX4(a, rows + 16 * DeviceKvChunk(lane % 16, 2 * step + lane / 16, kHeadDim));
  }
  // Loads keys 0 .. 15 of a page as the right operand of products over dims 16 * step ..: b[0..1]
  // for keys 0 .. 7, b[2..3] for keys 8 .. 15.
  __device__ __forceinline__ static void LoadKeys(uint32_t (&b)[4], uint32_t page, int step,
                                                  const KeyScales&, int lane) {
    const int token = lane % 8 + lane / 16 * 8;
    ptx::LoadMatrixX4(b, page + 16 * DeviceKvChunk(token, 2 * step + lane / 8 % 2, kHeadDim));
  }
  // Loads the values of tokens 0 .. 15 of a page as the right operand of products over tokens:
  // b[0..1] for 8 dims from 16 * step on, b[2..3] for the next 8.
  __device__ __forceinline__ static void LoadValues(uint32_t (&b)[4], uint32_t page, int step,
                                                    const ValueScales&, int lane) {
    ptx::LoadMatrixX4Transposed(
        b, page + kHalfBytes + 16 * DeviceKvChunk(lane % 16, 2 * step + lane / 16, kHeadDim));
  }
};

// The same from codes. Matrix instructions move pairs of codes as they move a bf16 element.
template <int kHeadDim>
struct KvTile<kHeadDim, KvType::kFp8> {
  static constexpr int kSteps = kHeadDim / 16;
  static constexpr int kHalfBytes = kKvBlockTokens * kHeadDim;
  static constexpr int kPageBytes = static_cast<int>(DeviceKvHeadBytes(KvType::kFp8, kHeadDim));
  static_assert(DeviceTakesKvCodes(kHeadDim));

  // Pairs of multipliers: of keys g and g + 8, twice each, with g = lane / 4.
  struct KeyScales {
    KeyScales() = default;
    __device__ __forceinline__ KeyScales(uint32_t page, int lane) {
      const uint32_t scales = page + 2 * kHalfBytes + lane / 4;
      first = KvMultiplier(ptx::LoadShared8(scales)) * 0x10001u;
      second = KvMultiplier(ptx::LoadShared8(scales + 8)) * 0x10001u;
    }
    uint32_t first;
    uint32_t second;
  };
  // Of values 2t and 2t + 1, and of those 8 later, with t = lane % 4.
  struct ValueScales {
    __device__ __forceinline__ ValueScales(uint32_t page, int lane) {
      const uint32_t scales = page + 2 * kHalfBytes + kKvBlockTokens + lane % 4 * 2;
      first = Multipliers(ptx::LoadShared16(scales));
      second = Multipliers(ptx::LoadShared16(scales + 8));
    }
    __device__ __forceinline__ static uint32_t Multipliers(uint32_t scales) {
      return KvMultiplier(scales & 0xFFu) | KvMultiplier(scales >> 8) << 16;
    }
    uint32_t first;
    uint32_t second;
  };

  __device__ __forceinline__ static void LoadKeys(uint32_t (&b)[4], uint32_t page, int step,
                                                  const KeyScales& scales, int lane) {
    uint32_t codes[2];
    ptx::LoadMatrixX2(codes, page + 16 * DeviceKvChunk(lane % 16, step, kHeadDim / 2));
    b[0] = EvenKvElements(codes[0], scales.first);
    b[1] = OddKvElements(codes[0], scales.first);
    b[2] = EvenKvElements(codes[1], scales.second);
    b[3] = OddKvElements(codes[1], scales.second);
  }
  __device__ __forceinline__ static void LoadValues(uint32_t (&b)[4], uint32_t page, int step,
                                                    const ValueScales& scales, int lane) {
    uint32_t codes[2];
    ptx::LoadMatrixX2Transposed(
        codes, page + kHalfBytes + 16 * DeviceKvChunk(lane % 16, step, kHeadDim / 2));
    b[0] = EvenKvElements(codes[0], scales.first);
    b[1] = EvenKvElements(codes[1], scales.second);
    b[2] = OddKvElements(codes[0], scales.first);
    b[3] = OddKvElements(codes[1], scales.second);
  }
};

// Where a page lies in the pool.
template <KvType kType>
__device__ __forceinline__ const std::byte* PageInPool(const PagedKv& kv, int64_t block,
                                                       int64_t kv_head) {
  return static_cast<const std::byte*>(kv.data) +
         DeviceKvHeadIndex(kv, block, kv_head) * DeviceKvHeadBytes(kType, kv.head_dim);
}

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
