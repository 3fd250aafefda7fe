#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formats/panels/panel_layout.h"
#if LOCKSTEP_ISA_LEVEL == 2
#include "kernels/formats/panels/panel_lanes_avx512.h"
#else
#include "kernels/formats/panels/panel_lanes_avx2.h"
#endif

// The codes of every second column of a step for 16 outputs, and their values before the scale.
// `word`: their place among the step's words. Values<i> belong to one of the columns. Their scale
// must be multiplied by kScaleFactor.
namespace lockstep::kernels::LOCKSTEP_ISA {

struct CodesOf4Bits {
  static constexpr int kPairs = 8;
  static constexpr float kScaleFactor = 1.0f;
  const std::byte* words;

  LOCKSTEP_INLINE void Load(const std::byte* step, int word) { words = step + word * 4; }
  // Has the code in the four lowest bits. A load from another byte is as good as a shift, and
  // does not need the units that compute.
  template <int kPair>
  LOCKSTEP_INLINE Words Low() const {
    return ShiftRight<4 * (kPair % 2)>(LoadWords(words + kPair / 2));
  }
  template <int kPair>
  LOCKSTEP_INLINE F32x16 Values() const {
    return LowBitsToFloats<4>(Low<kPair>());
  }
};

#if LOCKSTEP_ISA_LEVEL == 2
// Minus 8.
struct SignedCodesOf4Bits : CodesOf4Bits {
  template <int kPair>
  LOCKSTEP_INLINE F32x16 Values() const {
    return LowBitsToSignedFloats(Low<kPair>());
  }
};
#endif

struct Fp4Codes : CodesOf4Bits {
  template <int kPair>
  LOCKSTEP_INLINE F32x16 Values() const {
    return Fp4ToFloats(Low<kPair>());
  }
};

inline constexpr int kHighBitsOffset = StepWordBytes(CodeKind::kInt5);

// The bits above the fourth stand ready where they belong.
struct CodesOf5Bits : CodesOf4Bits {
  Words high;

  LOCKSTEP_INLINE void Load(const std::byte* step, int word) {
    CodesOf4Bits::Load(step, word);
    high = ShiftLeft<4>(WidenBytes(step + kHighBitsOffset + word));
  }
  template <int kPair>
  LOCKSTEP_INLINE F32x16 Values() const {
    return LowBitsToFloats<5>(Select(0x10, ShiftRight<kPair>(high), Low<kPair>()));
  }
};

struct CodesOf6Bits : CodesOf4Bits {
  Words high;

  LOCKSTEP_INLINE void Load(const std::byte* step, int word) {
    CodesOf4Bits::Load(step, word);
    high = ShiftLeft<4>(WidenHalfWords(LoadHalfWords(step + kHighBitsOffset + word * 2)));
  }
  template <int kPair>
  LOCKSTEP_INLINE F32x16 Values() const {
    return LowBitsToFloats<6>(Select(0x30, ShiftRight<2 * kPair>(high), Low<kPair>()));
  }
};

struct CodesOf8Bits {
  static constexpr int kPairs = 4;
  static constexpr float kScaleFactor = 1.0f;
  Words words;

  // Three of four loads from other bytes would cross a cache line. Shifts are faster.
  LOCKSTEP_INLINE void Load(const std::byte* step, int word) { words = LoadWords(step + word * 4); }
  template <int kPair>
  LOCKSTEP_INLINE F32x16 Values() const {
    const Words codes = ShiftRight<8 * kPair>(words);
    if constexpr (kPair == kPairs - 1) return ToFloats(codes);
    return LowBitsToFloats<8>(codes);
  }
};

struct Fp8Codes {
  static constexpr int kPairs = 2;
  static constexpr float kScaleFactor = 256.0f;
  HalfWords words;

  LOCKSTEP_INLINE void Load(const std::byte* step, int word) {
    words = LoadHalfWords(step + word * 2);
  }
  template <int kPair>
  LOCKSTEP_INLINE F32x16 Values() const {
    return Fp8ToFloats<(kPair == 1)>(words);
  }
};

template <CodeKind kKind>
struct CodesOfKind {
  using Type = CodesOf4Bits;
};
template <>
struct CodesOfKind<CodeKind::kFp4E2M1> {
  using Type = Fp4Codes;
};
template <>
struct CodesOfKind<CodeKind::kInt5> {
  using Type = CodesOf5Bits;
};
template <>
struct CodesOfKind<CodeKind::kInt5Min> {
  using Type = CodesOf5Bits;
};
template <>
struct CodesOfKind<CodeKind::kInt6> {
  using Type = CodesOf6Bits;
};
template <>
struct CodesOfKind<CodeKind::kInt8> {
  using Type = CodesOf8Bits;
};
template <>
struct CodesOfKind<CodeKind::kFp8E4M3> {
  using Type = Fp8Codes;
};

}  // namespace lockstep::kernels::LOCKSTEP_ISA
