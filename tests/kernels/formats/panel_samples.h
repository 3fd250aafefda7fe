#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/formats/panels/panel_matrix.h"
#include "kernels/gemm/packed_matrix.h"
#include "tests/kernels/formats/quantized_samples.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::testing {

// Where the scales, the minima and those of blocks come from.
enum class SampleScales {
  kOfFormat,   // quantized_samples.h: few bits, zeros, both signs
  kGaussian,   // all bits of fp32, outliers, zeros of both signs
  kSubnormal,  // so small that products are subnormal or zero
  kPowers,     // of two, as in MXFP4, and zeros
};

struct PanelCase {
  const char* name;
  SampleShape shape;
  bool is_fused = true;  // with scales of the format
};

inline constexpr SampleShape kQ8_0Shape = {
    .kind = kernels::CodeKind::kInt8, .group_columns = 32, .has_half_scales = true};

inline constexpr PanelCase kPanelCases[] = {
    {"int4 g128", {kernels::CodeKind::kInt4, 128}},
    {"int4 g128 with zero points", {kernels::CodeKind::kInt4, 128, true}},
    {"int4 g48", {kernels::CodeKind::kInt4, 48}},
    {"int4 g32 with zero points", {kernels::CodeKind::kInt4, 32, true}},
    {"int4 g10", {kernels::CodeKind::kInt4, 10}, false},
    {"int4 g7 with zero points", {kernels::CodeKind::kInt4, 7, true}, false},
    {"int4 of a channel", {kernels::CodeKind::kInt4, 5000}},
    {"int8 g128", {kernels::CodeKind::kInt8, 128}},
    {"int8 g24 with zero points", {kernels::CodeKind::kInt8, 24, true}},
    {"int8 g5", {kernels::CodeKind::kInt8, 5}, false},
    {"fp8 g128", {kernels::CodeKind::kFp8E4M3, 128}},
    {"fp8 g4", {kernels::CodeKind::kFp8E4M3, 4}},
    {"fp8 g9", {kernels::CodeKind::kFp8E4M3, 9}, false},
    // Some of their scales are the smallest that there are.
    {"fp4 g16", {kernels::CodeKind::kFp4E2M1, 16}, false},
    {"fp4 g32", {kernels::CodeKind::kFp4E2M1, 32}, false},
    {"fp4 g3", {kernels::CodeKind::kFp4E2M1, 3}, false},
    {"Q8_0", kQ8_0Shape},
    {"Q4_0", kQ4_0Shape},
    {"Q4_1", kQ4_1Shape},
    {"Q5_0", kQ5_0Shape},
    {"Q5_1", kQ5_1Shape},
    {"Q4_K", kQ4_KShape},
    {"Q5_K", kQ5_KShape},
    {"Q6_K", kQ6_KShape},
    {"int5 g16 with zero points", {kernels::CodeKind::kInt5, 16, true}},
    {"int6 g32 with zero points", {kernels::CodeKind::kInt6, 32, true}},
    {"int6 g11", {kernels::CodeKind::kInt6, 11}, false},
    {"int4min g24", {kernels::CodeKind::kInt4Min, 24}, false},
    {"int4min with zero points", {kernels::CodeKind::kInt4Min, 32, true}, false},
    {"int5min of two levels, g8", {kernels::CodeKind::kInt5Min, 8, false, false, 16}, false},
    {"int8 of two levels",
     {.kind = kernels::CodeKind::kInt8,
      .group_columns = 16,
      .has_zeros = true,
      .block_columns = 64},
     false},
};

inline void ReplaceScales(SampleScales scales, uint32_t seed, std::vector<float>* values) {
  std::mt19937 random(seed);
  const std::vector<float> normal = RandomFloats(values->size(), seed, Distribution::kOutliers);
  for (size_t i = 0; i < values->size(); ++i) {
    const uint32_t kind = random() % 16;
    float value = normal[i] * 0.01f;
    if (scales == SampleScales::kSubnormal) value *= 0x1p-126f;
    if (scales == SampleScales::kPowers)
      value = std::ldexp(value < 0 ? -1.0f : 1.0f, -static_cast<int>(kind));
    if (kind == 0) value = 0.0f;
    if (kind == 1) value = -0.0f;
    (*values)[i] = value;
  }
}

inline kernels::QuantizedMatrix PanelSample(const SampleShape& shape, SampleScales scales,
                                            int64_t n, int64_t k) {
  kernels::QuantizedMatrix matrix = SampleMatrix(shape, n, k, 5);
  if (scales == SampleScales::kOfFormat) return matrix;
  ReplaceScales(scales, 6, &matrix.scales);
  ReplaceScales(scales, 7, &matrix.minima);
  ReplaceScales(SampleScales::kGaussian, 8, &matrix.block_scales);
  ReplaceScales(SampleScales::kGaussian, 9, &matrix.block_minima);
  return matrix;
}

// The values of DequantizeRow, [n, k].
inline std::vector<kernels::BFloat16> Dequantized(const kernels::QuantizedMatrix& matrix) {
  std::vector<kernels::BFloat16> values(static_cast<size_t>(matrix.n * matrix.k));
  for (int64_t row = 0; row < matrix.n; ++row) {
    DequantizeRow(matrix, row, values.data() + row * matrix.k);
  }
  return values;
}

inline std::byte* MutableBytes(kernels::PackedPanels* packed) {
  return reinterpret_cast<std::byte*>(packed->storage.data());
}

}  // namespace lockstep::testing
