#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/core/device_math.cuh"
#include "kernels/core/ptx/arithmetic.cuh"
#include "kernels/core/ptx/registers.cuh"
#include "kernels/formats/strips/strip_bytes.cuh"
#include "kernels/formats/strips/strip_codec.h"

// How a warp makes bf16 of the packed codes of a strip (strip_codec.h says how they lie). Each
// codec has
//   kBlockBytes                   of a block of 128 columns
//   Raw                           what a lane has of a block before it is converted
//   Load(bytes, lane)             reads it, from SharedBytes or GlobalBytes
//   Row                           what a lane knows of its row in all blocks, mostly nothing
//   Row::Load(table, row)         reads it
//   Convert<kHalf>(raw, row, magic, pairs)
//                                 pairs[i][j]: pair j of step 4 * kHalf + i, in bf16
// Every weight is rounded once, as in DequantizeRow.
namespace lockstep::kernels {

// (u - z) * s. 0x4300 | u is 128 + u in bf16, and 128 + z is as exact: so is the difference. One
// multiplication rounds. The zero that is added makes +0 of -0.
template <int kGroupColumns, bool kHasZeros>
struct Int4Codec {
  static constexpr int kCodeBytes = kStripRows * kStripBlockColumns / 2;
  static constexpr int kGroups = kStripBlockColumns / kGroupColumns;
  static constexpr int kGroupBytes = kStripRows * 2;
  static constexpr int kBlockBytes = kCodeBytes + kGroups * kGroupBytes * (kHasZeros ? 2 : 1);

  using Row = NoRow;
  struct Raw {
    uint4 codes;
    GroupValues<kGroups> scales;
    GroupValues<kHasZeros ? kGroups : 1> zeros;
  };

  template <typename Bytes>
  __device__ __forceinline__ static Raw Load(const Bytes& bytes, int lane) {
    Raw raw;
    raw.codes = bytes.Load128(lane * 16);
    raw.scales = GroupValues<kGroups>::Load(bytes, kCodeBytes, lane);
    if constexpr (kHasZeros) {
      raw.zeros = GroupValues<kGroups>::Load(bytes, kCodeBytes + kGroups * kGroupBytes, lane);
    }
    return raw;
  }

  template <int kHalf>
  __device__ __forceinline__ static void Convert(const Raw& raw, const Row&, uint32_t magic,
                                                 StripPairs& pairs) {
    const __nv_bfloat162 plus_zero = AsPair(0);
    const uint32_t words[2] = {kHalf == 0 ? raw.codes.x : raw.codes.z,
                               kHalf == 0 ? raw.codes.y : raw.codes.w};
#pragma unroll
    for (int i = 0; i < kHalfSteps; ++i) {
      const int step = kHalf * kHalfSteps + i;
      const __nv_bfloat162 scale = AsPair(Twice(raw.scales.At(step)));
      const __nv_bfloat162 zero = AsPair(kHasZeros ? Twice(raw.zeros.At(step)) : 0x43084308);
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const uint32_t value = (words[i / 2] >> (4 * (i % 2 * 2 + pair)) & 0x000F000F) | magic;
        pairs[i][pair] = AsWord(__hfma2(__hsub2_rn(AsPair(value), zero), scale, plus_zero));
      }
    }
  }
};

// 2^15 plus a byte of a word.
__device__ __forceinline__ float PlusTwoTo15(uint32_t word, int byte) {
  return __uint_as_float(__byte_perm(word, 0x47000000, 0x7404 | byte << 4));
}

// (u - z) * s in fp32, as (2^15 + u) * s - (2^15 + z) * s. Without zero points, z is 128 and s has
// the 11 bits of an fp16; else s has the 8 bits of a bf16. (2^15 + z) * s is exact with both, and
// so is the sum. Converting to bf16 rounds.
template <int kGroupColumns, bool kHasZeros>
struct Int8Codec {
  static constexpr int kCodeBytes = kStripRows * kStripBlockColumns;
  static constexpr int kGroups = kStripBlockColumns / kGroupColumns;
  static constexpr int kGroupBytes = kStripRows * 2;
  static constexpr int kBlockBytes = kCodeBytes + kGroups * kGroupBytes * (kHasZeros ? 2 : 1);

  using Row = NoRow;
  struct Raw {
    uint4 codes[2];
    GroupValues<kGroups> scales;
    GroupValues<kHasZeros ? kGroups : 1> zeros;
  };

  template <typename Bytes>
  __device__ __forceinline__ static Raw Load(const Bytes& bytes, int lane) {
    Raw raw;
    raw.codes[0] = bytes.Load128(lane * 16);
    raw.codes[1] = bytes.Load128((32 + lane) * 16);
    raw.scales = GroupValues<kGroups>::Load(bytes, kCodeBytes, lane);
    if constexpr (kHasZeros) {
      raw.zeros = GroupValues<kGroups>::Load(bytes, kCodeBytes + kGroups * kGroupBytes, lane);
    }
    return raw;
  }

  template <int kHalf>
  __device__ __forceinline__ static void Convert(const Raw& raw, const Row&, uint32_t magic,
                                                 StripPairs& pairs) {
    const uint4 codes = raw.codes[kHalf];
    const uint32_t words[kHalfSteps] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
    for (int i = 0; i < kHalfSteps; ++i) {
      const int step = kHalf * kHalfSteps + i;
      const uint32_t bits = raw.scales.At(step);
      const float scale = kHasZeros ? LowerBFloat16(bits)
                                    : __half2float(__ushort_as_half(static_cast<uint16_t>(bits)));
      const float zero = kHasZeros ? PlusTwoTo15(raw.zeros.At(step), 0) : 32896.0f;
      const float minus_zero = __fmul_rn(scale, -zero);
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        float values[2];
#pragma unroll
        for (int second = 0; second < 2; ++second) {
          values[second] = __fmaf_rn(PlusTwoTo15(words[i], 2 * pair + second), scale, minus_zero);
        }
        pairs[i][pair] = PackBFloat16x2(values[0], values[1]);
      }
    }
  }
};

// E4M3(u) * s in fp32, then rounded to bf16.
struct Fp8Codec {
  static constexpr int kCodeBytes = kStripRows * kStripBlockColumns;
  static constexpr int kBlockBytes = kCodeBytes + kStripRows * 4;

  using Row = NoRow;
  struct Raw {
    uint4 codes[2];
    float scale;
  };

  template <typename Bytes>
  __device__ __forceinline__ static Raw Load(const Bytes& bytes, int lane) {
    return {.codes = {bytes.Load128(lane * 16), bytes.Load128((32 + lane) * 16)},
            .scale = __uint_as_float(bytes.Load32(kCodeBytes + lane / 4 * 4))};
  }

  template <int kHalf>
  __device__ __forceinline__ static void Convert(const Raw& raw, const Row&, uint32_t magic,
                                                 StripPairs& pairs) {
    const uint4 codes = raw.codes[kHalf];
    const uint32_t words[kHalfSteps] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
    for (int i = 0; i < kHalfSteps; ++i) {
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const uint32_t halves = ptx::UnpackE4M3x2(pair == 0 ? words[i] & 0xFFFF : words[i] >> 16);
        const float2 values = __half22float2(*reinterpret_cast<const __half2*>(&halves));
        pairs[i][pair] =
            PackBFloat16x2(__fmul_rn(values.x, raw.scale), __fmul_rn(values.y, raw.scale));
      }
    }
  }
};

}  // namespace lockstep::kernels
