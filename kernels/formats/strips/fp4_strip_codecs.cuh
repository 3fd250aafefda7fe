#pragma once

#include <cstdint>

#include "kernels/formats/strips/fp4/fp4_weights.h"
#include "kernels/formats/strips/strip_codecs.cuh"

// The codecs of FP4 (fp4_weights.h has their arithmetic).
namespace lockstep::kernels {

inline constexpr int kFp4CodeBytes = kStripRows * kStripBlockColumns / 2;

// A group is two steps, a word of codes.
struct Mxfp4Codec {
  static constexpr int kBlockBytes = kFp4CodeBytes + kStripRows * 4;

  using Row = NoRow;
  struct Raw {
    uint4 codes;
    uint32_t scales;  // of the four groups
  };

  template <typename Bytes>
  __device__ __forceinline__ static Raw Load(const Bytes& bytes, int lane) {
    return {.codes = bytes.Load128(lane * 16),
            .scales = bytes.Load32(kFp4CodeBytes + lane / 4 * 4)};
  }

  template <int kHalf>
  __device__ __forceinline__ static void Convert(const Raw& raw, const Row&, uint32_t,
                                                 StripPairs& pairs) {
    ConvertGroup<2 * kHalf>(kHalf == 0 ? raw.codes.x : raw.codes.z, raw.scales, &pairs[0]);
    ConvertGroup<2 * kHalf + 1>(kHalf == 0 ? raw.codes.y : raw.codes.w, raw.scales, &pairs[2]);
  }

 private:
  template <int kGroup>
  __device__ __forceinline__ static void ConvertGroup(uint32_t word, uint32_t scales,
                                                      uint32_t (*pairs)[2]) {
    const uint32_t scale = Mxfp4Scale<kGroup>(scales);
    pairs[0][0] = Fp4TimesPower(Fp4Values<0>(word), scale);
    pairs[0][1] = Fp4TimesPower(Fp4Values<1>(word), scale);
    pairs[1][0] = Fp4TimesPower(Fp4Values<2>(word), scale);
    pairs[1][1] = Fp4TimesPower(Fp4Values<3>(word), scale);
  }
};

// The table of rows: [rows] hi_bytes and lo_bytes, then [rows] upper_bytes.
struct Nvfp4LaneRow : Nvfp4Row {
  __device__ __forceinline__ static Nvfp4LaneRow Load(const StripRowTable& table, int64_t row) {
    const uint4 bytes = *reinterpret_cast<const uint4*>(table.data + row * 16);
    Nvfp4LaneRow loaded;
    loaded.hi_bytes[0] = bytes.x;
    loaded.hi_bytes[1] = bytes.y;
    loaded.lo_bytes[0] = bytes.z;
    loaded.lo_bytes[1] = bytes.w;
    loaded.upper_bytes =
        *reinterpret_cast<const uint32_t*>(table.data + table.num_rows * 16 + row * 4);
    return loaded;
  }
};

// A group is a step. The four lanes of a row need the scales of the same four groups of a half
// block. Each makes one of them and takes the others from its neighbours.
struct Nvfp4Codec {
  static constexpr int kBlockBytes = kFp4CodeBytes + kStripRows * 8;

  using Row = Nvfp4LaneRow;
  struct Raw {
    uint4 codes;
    uint32_t scales;  // of groups i and i + 4, with i = lane % 4
  };

  template <typename Bytes>
  __device__ __forceinline__ static Raw Load(const Bytes& bytes, int lane) {
    return {.codes = bytes.Load128(lane * 16), .scales = bytes.Load16(kFp4CodeBytes + lane * 2)};
  }

  template <int kHalf>
  __device__ __forceinline__ static void Convert(const Raw& raw, const Row& row, uint32_t,
                                                 StripPairs& pairs) {
    const uint32_t own = Nvfp4Scale<kHalf>(row, raw.scales);
    uint32_t scales[kHalfSteps];
#pragma unroll
    for (int i = 0; i < kHalfSteps; ++i) scales[i] = __shfl_sync(~0u, own, i, 4);
    const uint32_t words[2] = {kHalf == 0 ? raw.codes.x : raw.codes.z,
                               kHalf == 0 ? raw.codes.y : raw.codes.w};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      pairs[2 * i][0] = Fp4TimesSum(Fp4Values<0>(words[i]), scales[2 * i]);
      pairs[2 * i][1] = Fp4TimesSum(Fp4Values<1>(words[i]), scales[2 * i]);
      pairs[2 * i + 1][0] = Fp4TimesSum(Fp4Values<2>(words[i]), scales[2 * i + 1]);
      pairs[2 * i + 1][1] = Fp4TimesSum(Fp4Values<3>(words[i]), scales[2 * i + 1]);
    }
  }
};
static_assert(kHalfSteps == 4);

}  // namespace lockstep::kernels
