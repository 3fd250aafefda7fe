#include "kernels/formats/panels/choose_panel_layout.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "kernels/core/bfloat16.h"
#include "kernels/quant/float16.h"

namespace lockstep::kernels {
namespace {

// A byte has only one zero, the positive one.
bool IsIntegerWithin(float value, float lowest, float highest) {
  return value >= lowest && value <= highest && value == std::floor(value) &&
         !(value == 0.0f && std::signbit(value));
}
bool IsByteScale(float value) { return IsIntegerWithin(value, 0.0f, 255.0f); }
bool IsSignedByteScale(float value) { return IsIntegerWithin(value, -128.0f, 127.0f); }

bool AreAll(const std::vector<float>& values, bool (*holds)(float)) {
  return std::all_of(values.begin(), values.end(), holds);
}

bool HasSmallLevels(const QuantizedMatrix& matrix, bool (*holds)(float)) {
  return matrix.has_two_levels() && !matrix.block_scales_divide && AreAll(matrix.scales, holds) &&
         AreAll(matrix.minima, holds) && AreAll(matrix.block_scales, IsFloat16) &&
         AreAll(matrix.block_minima, IsFloat16);
}

PanelScales ChooseScales(const QuantizedMatrix& matrix) {
  if (HasSmallLevels(matrix, IsByteScale)) return PanelScales::kBytes;
  if (HasSmallLevels(matrix, IsSignedByteScale)) return PanelScales::kSignedBytes;
  if (matrix.has_two_levels()) return PanelScales::kFloat32;
  const auto are_all = [&](bool (*holds)(float)) {
    return AreAll(matrix.scales, holds) && AreAll(matrix.minima, holds);
  };
  if (are_all(IsBFloat16)) return PanelScales::kBFloat16;
  if (are_all(IsFloat16)) return PanelScales::kFloat16;
  return PanelScales::kFloat32;
}

// Products with codes, and sums of these, neither overflow nor underflow.
bool IsModerate(float value) {
  const float magnitude = std::fabs(value);
  return value == 0.0f || (magnitude >= 0x1p-100f && magnitude <= 0x1p+100f);
}

bool IsExactInFp32(double value) { return static_cast<double>(static_cast<float>(value)) == value; }

int SignificantBits(float value) {
  const uint32_t fraction = std::bit_cast<uint32_t>(value) & 0x7FFFFFu;
  return value == 0.0f ? 0 : 24 - std::countr_zero(fraction | 1u << 23);
}

// fma(u, s, -z * s) is (u - z) * s rounded once, if z * s is exact. fma(u, s, -m) is what two
// roundings give, if u * s is exact for all u.
bool IsFusedExact(CodeKind kind, const GroupScales& group) {
  if (!IsModerate(group.scale) || !IsModerate(group.minimum)) return false;
  if (kind == CodeKind::kFp8E4M3 || kind == CodeKind::kFp4E2M1) return true;
  if (HasMinimum(kind)) return SignificantBits(group.scale) + CodeBits(kind) <= 24;
  return IsExactInFp32(double{group.scale} * group.zero);
}

bool IsFused(const QuantizedMatrix& matrix) {
  if (matrix.num_groups() > 1 && matrix.group_columns % StepColumns(matrix.kind) != 0) return false;
  if (HasMinimum(matrix.kind) && !matrix.zeros.empty()) return false;
  for (int64_t row = 0; row < matrix.n; ++row) {
    for (int64_t group = 0; group < matrix.num_groups(); ++group) {
      if (!IsFusedExact(matrix.kind, ScalesOfGroup(matrix, row, group))) return false;
    }
  }
  return true;
}

// A code of E2M1 has two bits, and bf16 eight.
bool IsExact(const QuantizedMatrix& matrix) {
  const auto is_short = [](float scale) { return SignificantBits(scale) <= 6; };
  return matrix.kind == CodeKind::kFp4E2M1 && !matrix.has_two_levels() &&
         std::all_of(matrix.scales.begin(), matrix.scales.end(), is_short);
}

}  // namespace

PanelLayout ChoosePanelLayout(const QuantizedMatrix& matrix) {
  const PanelScales scales = ChooseScales(matrix);
  const bool has_two_levels = scales == PanelScales::kBytes || scales == PanelScales::kSignedBytes;
  const bool is_float = matrix.kind == CodeKind::kFp8E4M3 || matrix.kind == CodeKind::kFp4E2M1;
  PanelLayout layout = {.kind = matrix.kind,
                        .scales = scales,
                        .has_minima = HasMinimum(matrix.kind) && !matrix.minima.empty(),
                        .has_zeros = !is_float && !matrix.zeros.empty(),
                        .is_fused = IsFused(matrix),
                        .group_columns = std::min(matrix.group_columns, matrix.k),
                        .block_columns = has_two_levels ? matrix.block_columns : 0};
  layout.is_exact = layout.is_fused && IsExact(matrix);
  PlaceParts(matrix.k, &layout);
  return layout;
}

}  // namespace lockstep::kernels
