#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formats/panels/panel_codes.h"
#include "kernels/gemm/packed_matrix.h"

// The values that a group's scales give to its codes. Only for layouts with is_fused.
namespace lockstep::kernels::LOCKSTEP_ISA {

// A code u has the value fma(u, multiply, add), before it is rounded to bf16.
struct LaneScales {
  F32x16 multiply;
  F32x16 add;
};

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

// MiddleCode, where it is not 0.
constexpr float MiddleOf(CodeKind kind) {
  return kind == CodeKind::kInt4   ? 8.0f
         : kind == CodeKind::kInt5 ? 16.0f
         : kind == CodeKind::kInt6 ? 32.0f
                                   : 128.0f;
}

// A group of columns, and its block where there are two levels.
struct GroupPlace {
  int64_t group;
  int64_t block;
};

// The scales of a group, for the 16 outputs from `output` on.
template <CodeKind kKind>
LOCKSTEP_INLINE LaneScales LoadGroup(const PanelLayout& layout, const std::byte* panel,
                                     const GroupPlace& place, int output) {
  const int64_t index = place.group * kPanelOutputs + output;
  F32x16 scale = LoadScales(layout.scales, panel + layout.scale_offset, index);
  F32x16 minimum = Zero();
  if constexpr (HasMinimum(kKind)) {
    if (layout.has_minima) {
      minimum = LoadScales(layout.scales, panel + layout.minimum_offset, index);
    }
  }
  if (layout.block_columns != 0) {
    const std::byte* const halves = panel + (place.block * kPanelOutputs + output) * 2;
    scale = Multiply(scale, HalvesToFloats(LoadHalfWords(halves + layout.block_scale_offset)));
    if constexpr (HasMinimum(kKind)) {
      minimum =
          Multiply(minimum, HalvesToFloats(LoadHalfWords(halves + layout.block_minimum_offset)));
    }
  }
  constexpr float kFactor = CodesOfKind<kKind>::Type::kScaleFactor;
  if constexpr (kKind == CodeKind::kFp8E4M3 || kKind == CodeKind::kFp4E2M1) {
    return {Multiply(scale, Broadcast(kFactor)), Broadcast(-0.0f)};  // -0 alters no sum
  } else if constexpr (HasMinimum(kKind)) {
    return {scale, Subtract(Zero(), minimum)};
  } else {
    const F32x16 zero = layout.has_zeros ? BytesToFloats(panel + layout.zero_offset + index)
                                         : Broadcast(MiddleOf(kKind));
    return {scale, Subtract(Zero(), Multiply(zero, scale))};
  }
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
