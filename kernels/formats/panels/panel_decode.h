#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formats/panels/panel_scales.h"
#include "kernels/formats/panels/wide_dot.h"

// From codes to weights in registers: values of bf16 in lanes of fp32. Only for layouts with
// is_fused.
namespace lockstep::kernels::LOCKSTEP_ISA {

// Rounds as ToBFloat16 does, for numbers that are not near the limits of fp32. In fp32 the product
// 65537 x keeps just the upper eight bits of x behind 65536 x.
LOCKSTEP_INLINE F32x16 RoundWide(F32x16 x) {
  return MultiplyAdd(x, Broadcast(-65536.0f), Multiply(x, Broadcast(65537.0f)));
}

// How a kind of codes becomes weights: the codes of a step, the scales of a group, and the value of
// a code with its scale.
template <CodeKind kCodes>
struct DecoderOf {
  static constexpr CodeKind kKind = kCodes;
  using Codes = typename CodesOfKind<kKind>::Type;

  LOCKSTEP_INLINE static LaneScales Load(const PanelLayout& layout, const std::byte* panel,
                                         const GroupPlace& place, int output) {
    return LoadGroup<kKind>(layout, panel, place, output);
  }
  template <int kPair>
  LOCKSTEP_INLINE static F32x16 Decode(const Codes& codes, const LaneScales& scales) {
    return RoundWide(MultiplyAdd(codes.template Values<kPair>(), scales.multiply, scales.add));
  }
};

// Codes of layouts with is_exact.
struct ExactFp4Decoder : DecoderOf<CodeKind::kFp4E2M1> {
  template <int kPair>
  LOCKSTEP_INLINE static F32x16 Decode(const Codes& codes, const LaneScales& scales) {
    return Multiply(codes.Values<kPair>(), scales.multiply);
  }
};

#if LOCKSTEP_ISA_LEVEL == 2

// kInt4 without zero points, with scales in bf16. 65537 times such a scale is exact in fp32, so
// that the product with a code needs no rounding of its own.
struct ShortInt4Decoder {
  static constexpr CodeKind kKind = CodeKind::kInt4;
  using Codes = SignedCodesOf4Bits;

  LOCKSTEP_INLINE static bool Takes(const PanelLayout& layout) {
    return layout.kind == kKind && layout.scales == PanelScales::kBFloat16 && !layout.has_zeros;
  }
  LOCKSTEP_INLINE static LaneScales Load(const PanelLayout& layout, const std::byte* panel,
                                         const GroupPlace& place, int output) {
    const F32x16 scale = LoadScales(layout.scales, panel + layout.scale_offset,
                                    place.group * kPanelOutputs + output);
    return {Multiply(scale, Broadcast(-65536.0f)), Multiply(scale, Broadcast(65537.0f))};
  }
  template <int kPair>
  LOCKSTEP_INLINE static F32x16 Decode(const Codes& codes, const LaneScales& scales) {
    const F32x16 values = codes.Values<kPair>();
    return MultiplyAdd(values, scales.multiply, Multiply(values, scales.add));
  }
};

#endif

// sink(pair, weights) for the pairs of a step from kPair on that are below num_pairs.
template <typename Decoder, int kPair, int kVectors, typename Sink>
LOCKSTEP_INLINE void DecodeStep(const typename Decoder::Codes (&codes)[kVectors][2],
                                const LaneScales (&scales)[kVectors], int64_t num_pairs,
                                const Sink& sink) {
  if constexpr (kPair < Decoder::Codes::kPairs) {
    if (kPair >= num_pairs) return;
    WidePairs weights[kVectors];
    for (int vector = 0; vector < kVectors; ++vector) {
      weights[vector] = {Decoder::template Decode<kPair>(codes[vector][0], scales[vector]),
                         Decoder::template Decode<kPair>(codes[vector][1], scales[vector])};
    }
    sink(kPair, weights);
    DecodeStep<Decoder, kPair + 1>(codes, scales, num_pairs, sink);
  }
}

// Some columns of a panel, from a whole step on.
struct PanelColumns {
  const PanelLayout& layout;
  const std::byte* panel;
  int64_t begin;
  int64_t end;
};

// How far ahead of its use a code is asked for.
inline constexpr int64_t kCodePrefetchBytes = 2048;

// sink(pair, weights) for the pairs of a step that are below num_pairs, in kVectors times 16
// outputs from `output` on.
template <typename Decoder, int kVectors, typename Sink>
LOCKSTEP_INLINE void DecodeOutputs(const std::byte* step, int output,
                                   const LaneScales (&scales)[kVectors], int64_t num_pairs,
                                   const Sink& sink) {
  constexpr int kStepBytes = StepBytes(Decoder::kKind);
  for (int line = 0; line < kStepBytes; line += 64) Prefetch(step + line, kCodePrefetchBytes);
  typename Decoder::Codes codes[kVectors][2];
  for (int vector = 0; vector < kVectors; ++vector) {
    for (const int parity : {0, 1}) {
      const int word = parity * static_cast<int>(kPanelOutputs) + output + vector * kLanes;
      codes[vector][parity].Load(step, word);
    }
  }
  DecodeStep<Decoder, 0>(codes, scales, num_pairs, sink);
}

// sink(pair, weights) for the columns' pairs, ascending from 0, in kVectors times 16 outputs from
// `output` on.
template <typename Decoder, int kVectors, typename Sink>
LOCKSTEP_INLINE void DecodeColumns(const PanelColumns& columns, int output, const Sink& sink) {
  constexpr int kStepPairs = Decoder::Codes::kPairs;
  constexpr int kStepBytes = StepBytes(Decoder::kKind);
  const PanelLayout& layout = columns.layout;
  const bool has_blocks = layout.block_columns != 0;
  GroupPlace place = {.group = columns.begin / layout.group_columns,
                      .block = has_blocks ? columns.begin / layout.block_columns : 0};
  const std::byte* step = columns.panel + columns.begin / (2 * kStepPairs) * kStepBytes;
  const int64_t num_pairs = (columns.end - columns.begin) / 2;
  for (int64_t pair = 0; pair < num_pairs; ++place.group) {
    const int64_t column = columns.begin + 2 * pair;
    if (has_blocks && column >= (place.block + 1) * layout.block_columns) ++place.block;
    LaneScales scales[kVectors];
    for (int vector = 0; vector < kVectors; ++vector) {
      scales[vector] = Decoder::Load(layout, columns.panel, place, output + vector * kLanes);
    }
    int64_t group_end = ((place.group + 1) * layout.group_columns - columns.begin) / 2;
    if (group_end > num_pairs) group_end = num_pairs;
    const auto in_step = [&](int in_step_pair, const WidePairs(&weights)[kVectors]) {
      sink(pair + in_step_pair, weights);
    };
    for (; pair < group_end; pair += kStepPairs, step += kStepBytes) {
      DecodeOutputs<Decoder>(step, output, scales, group_end - pair, in_step);
    }
  }
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
