#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formats/panels/panel_codes.h"
#include "kernels/gemm/gemm_tile.h"

// From codes to pairs of bf16 in registers. Only for layouts whose is_fused is set.
namespace lockstep::kernels::LOCKSTEP_ISA {

// What 8 outputs make of a code u: fma(u, multiply, add).
struct LaneScales {
  F32x16 multiply;
  F32x16 add;
};

// Of 16 outputs.
LOCKSTEP_INLINE F32x16 LoadScales(PanelScales scales, const std::byte* part, int64_t index) {
  switch (scales) {
    case PanelScales::kFloat32:
      return Load(reinterpret_cast<const float*>(part) + index);
    case PanelScales::kFloat16:
      return HalvesToFloats(LoadHalfWords(part + index * 2));
    case PanelScales::kBFloat16:
      return LoadBf16(reinterpret_cast<const BFloat16*>(part) + index);
    case PanelScales::kBytes:
      return BytesToFloats(part + index);
    case PanelScales::kSignedBytes:
      return SignedBytesToFloats(part + index);
  }
  return Zero();
}

// The scales of a group, for the 16 outputs from `output` on.
template <CodeKind kKind>
LOCKSTEP_INLINE void LoadGroup(const PanelLayout& layout, const std::byte* panel, int64_t group,
                               int output, LaneScales (&lanes)[2]) {
  const int64_t index = group * kPanelOutputs + output;
  F32x16 scale = LoadScales(layout.scales, panel + layout.scale_offset, index);
  F32x16 minimum = Zero();
  if constexpr (HasMinimum(kKind)) {
    if (layout.has_minima) {
      minimum = LoadScales(layout.scales, panel + layout.minimum_offset, index);
    }
  }
  if (layout.block_columns != 0) {
    const int64_t block = group * layout.group_columns / layout.block_columns;
    const int64_t place = (block * kPanelOutputs + output) * 2;
    scale =
        Multiply(scale, HalvesToFloats(LoadHalfWords(panel + layout.block_scale_offset + place)));
    if constexpr (HasMinimum(kKind)) {
      minimum = Multiply(
          minimum, HalvesToFloats(LoadHalfWords(panel + layout.block_minimum_offset + place)));
    }
  }
  F32x16 add;
  if constexpr (kKind == CodeKind::kFp8E4M3 || kKind == CodeKind::kFp4E2M1) {
    add = Broadcast(-0.0f);  // leaves every sum as it is
  } else if constexpr (HasMinimum(kKind)) {
    add = Subtract(Zero(), minimum);
  } else {
    constexpr float kMiddle = kKind == CodeKind::kInt4   ? 8.0f
                              : kKind == CodeKind::kInt5 ? 16.0f
                              : kKind == CodeKind::kInt6 ? 32.0f
                                                         : 128.0f;
    const F32x16 zero =
        layout.has_zeros ? BytesToFloats(panel + layout.zero_offset + index) : Broadcast(kMiddle);
    add = Subtract(Zero(), Multiply(zero, scale));
  }
  constexpr float kFactor = CodesOfKind<kKind>::Type::kScaleFactor;
  if constexpr (kFactor != 1.0f) scale = Multiply(scale, Broadcast(kFactor));
  lanes[0] = {DuplicateFirst(scale), DuplicateFirst(add)};
  lanes[1] = {DuplicateLast(scale), DuplicateLast(add)};
}

// sink(pair, vector, pairs) for the pairs of a step from kPair up to num_pairs. `vector` is which
// 16 outputs of the panel.
template <typename Codes, int kPair, typename Sink>
LOCKSTEP_INLINE void DecodeStep(const Codes (&codes)[kVectorsPerPanel][2],
                                const LaneScales (&scales)[kVectorsPerPanel][2], int64_t num_pairs,
                                const Sink& sink) {
  if constexpr (kPair < Codes::kPairs) {
    if (kPair >= num_pairs) return;
    for (int vector = 0; vector < kVectorsPerPanel; ++vector) {
      F32x16 values[2];
      for (int half = 0; half < 2; ++half) {
        const LaneScales& lanes = scales[vector][half];
        values[half] =
            MultiplyAdd(codes[vector][half].template Values<kPair>(), lanes.multiply, lanes.add);
      }
      sink(kPair, vector, RoundPairs(values[0], values[1]));
    }
    DecodeStep<Codes, kPair + 1>(codes, scales, num_pairs, sink);
  }
}

// How far ahead of its use a code is asked for.
inline constexpr int64_t kCodePrefetchBytes = 2048;

// sink(pair, vector, pairs) for the pairs of columns of some steps, ascending. Pairs beyond k are
// left out.
template <CodeKind kKind, typename Sink>
LOCKSTEP_INLINE void DecodeSteps(const PanelLayout& layout, const std::byte* panel,
                                 int64_t num_pairs, int64_t step_begin, int64_t step_end,
                                 const Sink& sink) {
  using Codes = typename CodesOfKind<kKind>::Type;
  constexpr int kStepBytes = StepBytes(kKind);
  const int64_t steps_of_group =
      layout.num_groups == 1 ? layout.num_steps : layout.group_columns / StepColumns(kKind);
  int64_t step = step_begin;
  for (int64_t group = step_begin / steps_of_group; step < step_end; ++group) {
    LaneScales scales[kVectorsPerPanel][2];
    for (int vector = 0; vector < kVectorsPerPanel; ++vector) {
      LoadGroup<kKind>(layout, panel, group, vector * kLanes, scales[vector]);
    }
    int64_t group_end = (group + 1) * steps_of_group;
    if (group_end > step_end) group_end = step_end;
    for (; step < group_end; ++step) {
      const std::byte* const at = panel + step * kStepBytes;
      for (int line = 0; line < kStepBytes; line += 64) Prefetch(at + line, kCodePrefetchBytes);
      Codes codes[kVectorsPerPanel][2];
      for (int vector = 0; vector < kVectorsPerPanel; ++vector) {
        for (int half = 0; half < 2; ++half) {
          codes[vector][half].Load(at, vector * 2 * kLanes + half * kLanes);
        }
      }
      const int64_t first_pair = step * Codes::kPairs;
      const auto in_step = [&](int pair, int vector, const Bf16Pairs& pairs) {
        sink(first_pair + pair, vector, pairs);
      };
      const int64_t num_left = num_pairs - first_pair;
      if (num_left >= Codes::kPairs) {
        DecodeStep<Codes, 0>(codes, scales, Codes::kPairs, in_step);
      } else {
        DecodeStep<Codes, 0>(codes, scales, num_left, in_step);
      }
    }
  }
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
