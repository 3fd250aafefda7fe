#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formats/panels/panel_scales.h"
#include "kernels/formats/panels/wide_dot.h"

// From codes to weights in registers: values of bf16 in lanes of fp32. Only for layouts whose
// is_fused is set.
namespace lockstep::kernels::LOCKSTEP_ISA {

// Rounds as ToBFloat16 does, for numbers that are not near the limits of fp32. 65537 x has so many
// bits that fp32 keeps just eight of x's behind the 65536 x.
LOCKSTEP_INLINE F32x16 RoundWide(F32x16 x) {
  const F32x16 sum = MultiplyAdd(x, Broadcast(65536.0f), x);
  return MultiplyAdd(x, Broadcast(-65536.0f), sum);
}

template <int kPair, typename Codes>
LOCKSTEP_INLINE F32x16 DecodeColumn(const Codes& codes, const LaneScales& scales) {
  return RoundWide(MultiplyAdd(codes.template Values<kPair>(), scales.multiply, scales.add));
}

// sink(pair, vector, weights) for the pairs of a step from kPair up to num_pairs.
template <int kPair, int kVectors, typename Codes, typename Sink>
LOCKSTEP_INLINE void DecodeStep(const Codes (&codes)[kVectors][2],
                                const LaneScales (&scales)[kVectors], int64_t num_pairs,
                                const Sink& sink) {
  if constexpr (kPair < Codes::kPairs) {
    if (kPair >= num_pairs) return;
    for (int vector = 0; vector < kVectors; ++vector) {
      sink(kPair, vector,
           WidePairs{DecodeColumn<kPair>(codes[vector][0], scales[vector]),
                     DecodeColumn<kPair>(codes[vector][1], scales[vector])});
    }
    DecodeStep<kPair + 1>(codes, scales, num_pairs, sink);
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

// sink(pair, vector, weights) for the columns' pairs, ascending from 0, of kVectors times 16
// outputs from `output` on.
template <CodeKind kKind, int kVectors, typename Sink>
LOCKSTEP_INLINE void DecodeColumns(const PanelColumns& columns, int output, const Sink& sink) {
  using Codes = typename CodesOfKind<kKind>::Type;
  constexpr int kStepColumns = StepColumns(kKind);
  const PanelLayout& layout = columns.layout;
  int64_t column = columns.begin;
  while (column < columns.end) {
    const int64_t group = column / layout.group_columns;
    int64_t group_end = (group + 1) * layout.group_columns;
    if (group_end > columns.end) group_end = columns.end;
    LaneScales scales[kVectors];
    for (int vector = 0; vector < kVectors; ++vector) {
      scales[vector] = LoadGroup<kKind>(layout, columns.panel, group, output + vector * kLanes);
    }
    for (; column < group_end; column += kStepColumns) {
      const std::byte* const step = columns.panel + column / kStepColumns * StepBytes(kKind);
      for (int line = 0; line < StepBytes(kKind); line += 64) {
        Prefetch(step + line, kCodePrefetchBytes);
      }
      Codes codes[kVectors][2];
      for (int vector = 0; vector < kVectors; ++vector) {
        for (const int parity : {0, 1}) {
          const int word = parity * static_cast<int>(kPanelOutputs) + output + vector * kLanes;
          codes[vector][parity].Load(step, word);
        }
      }
      const int64_t first_pair = (column - columns.begin) / 2;
      const auto in_step = [&](int pair, int vector, const WidePairs& weights) {
        sink(first_pair + pair, vector, weights);
      };
      const int64_t num_left = (group_end - column) / 2;
      if (num_left >= Codes::kPairs) {
        DecodeStep<0>(codes, scales, Codes::kPairs, in_step);
      } else {
        DecodeStep<0>(codes, scales, num_left, in_step);
      }
    }
  }
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
