#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/formats/strips/strip_codecs.cuh"

// The scales of GGUF's types in a block of a strip (strip_codec.h says how they lie). Each has
//   kBytes                 of a block
//   kGroupSteps            steps of 16 columns in a group
//   Raw                    what a lane has of its row
//   Load(bytes, at, lane)  reads it
//   Groups<kHalf>(raw, groups)  those of half a block, in fp32
namespace lockstep::kernels {

// What the weights of a group in one row share.
struct GgufGroup {
  float scales[2];  // of the pairs 0 and 1 of a step: scale * 2^24 and scale * 2^20
  float minus;      // the minimum, or zero point times scale, with the other sign
};

__device__ __forceinline__ float2 HalvesToFloats(uint32_t halves) {
  return __half22float2(*reinterpret_cast<const __half2*>(&halves));
}
// Bytes 0 and 2 of a word, or 1 and 3, times 2^-24.
template <bool kOdd>
__device__ __forceinline__ float2 BytesToFloats(uint32_t word) {
  return HalvesToFloats((kOdd ? word >> 8 : word) & 0x00FF00FF);
}

// Scales of one level: [8 rows][4 groups] in fp16. The code kMiddle has the value 0. Both terms of
// the sum are exact, and so is the sum.
template <int kMiddle>
struct OneLevel {
  static constexpr int kBytes = kStripRows * 4 * 2;
  static constexpr int kGroupSteps = 2;
  using Raw = uint2;

  template <typename Bytes>
  __device__ __forceinline__ static Raw Load(const Bytes& bytes, int at, int lane) {
    return bytes.Load64(at + lane / 4 * 8);
  }
  template <int kHalf>
  __device__ __forceinline__ static void Groups(const Raw& raw, GgufGroup (&groups)[2]) {
    const float2 scales = HalvesToFloats(kHalf == 0 ? raw.x : raw.y);
    groups[0] = Group(scales.x);
    groups[1] = Group(scales.y);
  }

 private:
  __device__ __forceinline__ static GgufGroup Group(float scale) {
    return {.scales = {__fmul_rn(scale, 0x1p24f), __fmul_rn(scale, 0x1p20f)},
            .minus = __fmul_rn(scale, -static_cast<float>(kMiddle))};
  }
};

// [8 rows][4 groups][scale, minimum] in fp16.
struct OneLevelMin {
  static constexpr int kBytes = kStripRows * 4 * 4;
  static constexpr int kGroupSteps = 2;
  using Raw = uint4;

  template <typename Bytes>
  __device__ __forceinline__ static Raw Load(const Bytes& bytes, int at, int lane) {
    return bytes.Load128(at + lane / 4 * 16);
  }
  template <int kHalf>
  __device__ __forceinline__ static void Groups(const Raw& raw, GgufGroup (&groups)[2]) {
    groups[0] = Group(kHalf == 0 ? raw.x : raw.z);
    groups[1] = Group(kHalf == 0 ? raw.y : raw.w);
  }

 private:
  // 0 minus a minimum of either zero is +0: then no weight is -0.
  __device__ __forceinline__ static GgufGroup Group(uint32_t word) {
    const float2 values = HalvesToFloats(word);
    return {.scales = {__fmul_rn(values.x, 0x1p24f), __fmul_rn(values.x, 0x1p20f)},
            .minus = __fsub_rn(0.0f, values.y)};
  }
};

// Scales of two levels: 8 bytes of a row for its groups, then kSecondBytes of a row, in fp16.
template <int kSecondBytes>
struct TwoLevels {
  static_assert(kSecondBytes == 2 || kSecondBytes == 4);
  static constexpr int kRowBytes = 8;
  static constexpr int kBytes = kStripRows * (kRowBytes + kSecondBytes);
  struct Raw {
    uint2 groups;
    uint32_t block;
  };

  template <typename Bytes>
  __device__ __forceinline__ static Raw Load(const Bytes& bytes, int at, int lane) {
    const int second = at + kStripRows * kRowBytes + lane / 4 * kSecondBytes;
    return {.groups = bytes.Load64(at + lane / 4 * kRowBytes),
            .block = kSecondBytes == 4 ? bytes.Load32(second) : bytes.Load16(second)};
  }
};

// [8 rows][4 groups][scale, minimum] in bytes, and [8 rows][d, dmin] in fp16.
struct TwoLevelMin : TwoLevels<4> {
  static constexpr int kGroupSteps = 2;

  template <int kHalf>
  __device__ __forceinline__ static void Groups(const Raw& raw, GgufGroup (&groups)[2]) {
    const float2 block = HalvesToFloats(raw.block);
    const float block_scale = __fmul_rn(block.x, 0x1p48f);
    const float minus_block_minimum = __fmul_rn(block.y, -0x1p24f);
    const uint32_t word = kHalf == 0 ? raw.groups.x : raw.groups.y;
    const float2 scales = BytesToFloats<false>(word);
    const float2 minima = BytesToFloats<true>(word);
    groups[0] = Group(scales.x, block_scale, minima.x, minus_block_minimum);
    groups[1] = Group(scales.y, block_scale, minima.y, minus_block_minimum);
  }

 private:
  // The zero that is added makes +0 of -0.
  __device__ __forceinline__ static GgufGroup Group(float scale, float block_scale, float minimum,
                                                    float minus_block_minimum) {
    const float of_pair_0 = __fmul_rn(scale, block_scale);
    return {.scales = {of_pair_0, __fmul_rn(of_pair_0, 0x1p-4f)},
            .minus = __fmaf_rn(minimum, minus_block_minimum, 0.0f)};
  }
};

// Of Q6_K: [8 rows][8 groups] in bytes, signed scales plus 128, and [8 rows][d] in fp16. The code
// 32 has the value 0. All terms are exact.
struct TwoLevelSigned : TwoLevels<2> {
  static constexpr int kGroupSteps = 1;

  template <int kHalf>
  __device__ __forceinline__ static void Groups(const Raw& raw, GgufGroup (&groups)[4]) {
    const float block = __half2float(__ushort_as_half(static_cast<uint16_t>(raw.block)));
    const float block_scale = __fmul_rn(block, 0x1p48f);
    const float minus_offset = __fmul_rn(block, -0x1p31f);  // 128 * 2^24
    const uint32_t word = kHalf == 0 ? raw.groups.x : raw.groups.y;
    const float2 even = BytesToFloats<false>(word);
    const float2 odd = BytesToFloats<true>(word);
    groups[0] = Group(even.x, block_scale, minus_offset);
    groups[1] = Group(odd.x, block_scale, minus_offset);
    groups[2] = Group(even.y, block_scale, minus_offset);
    groups[3] = Group(odd.y, block_scale, minus_offset);
  }

 private:
  __device__ __forceinline__ static GgufGroup Group(float scale, float block_scale,
                                                    float minus_offset) {
    const float of_pair_0 = __fmaf_rn(scale, block_scale, minus_offset);
    return {.scales = {of_pair_0, __fmul_rn(of_pair_0, 0x1p-4f)},
            .minus = __fmul_rn(of_pair_0, -0x1p-19f)};  // 32 * 2^-24
  }
};

}  // namespace lockstep::kernels
