#pragma once

#include <cstdint>

#include "kernels/core/device_math.cuh"
#include "kernels/formats/strips/gguf_strip_scales.cuh"
#include "kernels/formats/strips/strip_codecs.cuh"

// The codecs of GGUF's types. A weight is code * scale - minimum in fp32 with one rounding: the
// product is exact, because scales have few bits. A code of up to 6 bits in the lowest or the next
// bits of an fp16 is a subnormal number, code * 2^-24 or code * 2^-20. Converting that to fp32 is
// exact, so no offset has to be subtracted. The scale takes the power of two.
namespace lockstep::kernels {

// The bits of codes above the low four: none, or a word of a lane for all steps, or two.
template <int kBits>
struct HighBits {
  static constexpr int kHighBits = kBits - 4;
  static constexpr int kBytes = kStripRows * kStripBlockColumns * kHighBits / 8;
  uint32_t words[kHighBits == 2 ? 2 : 1];

  template <typename Bytes>
  __device__ __forceinline__ static HighBits Load(const Bytes& bytes, int at, int lane) {
    HighBits loaded = {};
    if constexpr (kHighBits == 1) loaded.words[0] = bytes.Load32(at + lane * 4);
    if constexpr (kHighBits == 2) {
      const uint2 both = bytes.Load64(at + lane * 8);
      loaded.words[0] = both.x;
      loaded.words[1] = both.y;
    }
    return loaded;
  }
  // Those of step i of a half, pair 0 from bit 4 on, pair 1 from bit 8 on. Other bits are others'.
  template <int kHalf>
  __device__ __forceinline__ uint32_t OfStep(int i) const {
    const uint32_t word = words[kHighBits == 2 ? kHalf : 0];
    const int first = kHighBits == 2 ? 8 * (i / 2) + 2 * (i % 2) : 8 * kHalf + i;
    return first < 4 ? word << (4 - first) : word >> (first - 4);
  }
};

template <int kBits, typename Scales>
struct GgufCodec {
  static constexpr int kLowBytes = kStripRows * kStripBlockColumns / 2;
  static constexpr int kCodeBytes = kLowBytes + HighBits<kBits>::kBytes;
  static constexpr int kBlockBytes = kCodeBytes + Scales::kBytes;
  static_assert(kBlockBytes % 16 == 0);

  using Row = NoRow;
  struct Raw {
    uint4 codes;
    HighBits<kBits> high;
    typename Scales::Raw scales;
  };

  template <typename Bytes>
  __device__ __forceinline__ static Raw Load(const Bytes& bytes, int lane) {
    return {.codes = bytes.Load128(lane * 16),
            .high = HighBits<kBits>::Load(bytes, kLowBytes, lane),
            .scales = Scales::Load(bytes, kCodeBytes, lane)};
  }

  template <int kHalf>
  __device__ __forceinline__ static void Convert(const Raw& raw, const Row&, uint32_t,
                                                 StripPairs& pairs) {
    GgufGroup groups[kHalfSteps / Scales::kGroupSteps];
    Scales::template Groups<kHalf>(raw.scales, groups);
    const uint32_t words[2] = {kHalf == 0 ? raw.codes.x : raw.codes.z,
                               kHalf == 0 ? raw.codes.y : raw.codes.w};
#pragma unroll
    for (int i = 0; i < kHalfSteps; ++i) {
      const GgufGroup& group = groups[i / Scales::kGroupSteps];
      const uint32_t low = words[i / 2] >> (i % 2 * 8);
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        uint32_t halves = low & (0x000F000Fu << (4 * pair));
        if constexpr (kBits > 4) {
          constexpr uint32_t kHighMask = kBits == 5 ? 0x00100010u : 0x00300030u;
          halves |= raw.high.template OfStep<kHalf>(i) & (kHighMask << (4 * pair));
        }
        const float2 codes = HalvesToFloats(halves);
        pairs[i][pair] = PackBFloat16x2(__fmaf_rn(codes.x, group.scales[pair], group.minus),
                                        __fmaf_rn(codes.y, group.scales[pair], group.minus));
      }
    }
  }
};

using Q4_0Codec = GgufCodec<4, OneLevel<8>>;
using Q4_1Codec = GgufCodec<4, OneLevelMin>;
using Q5_0Codec = GgufCodec<5, OneLevel<16>>;
using Q5_1Codec = GgufCodec<5, OneLevelMin>;
using Q4_KCodec = GgufCodec<4, TwoLevelMin>;
using Q5_KCodec = GgufCodec<5, TwoLevelMin>;
using Q6_KCodec = GgufCodec<6, TwoLevelSigned>;

}  // namespace lockstep::kernels
