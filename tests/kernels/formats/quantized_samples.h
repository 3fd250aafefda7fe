#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/small_floats.h"

namespace lockstep::testing {

struct SampleShape {
  kernels::CodeKind kind;
  int64_t group_columns;
  bool has_zeros = false;
  bool has_half_scales = false;  // in fp16, else in bf16
  int64_t block_columns = 0;     // of the second level of scales
  bool has_row_scales = false;   // NVFP4: scales in E4M3, and a second level of rows
  bool row_scales_divide = false;
};

// The columns of a matrix with about k: groups that have a minimum must be whole.
inline int64_t ColumnsOf(const SampleShape& shape, int64_t k) {
  if (!kernels::HasMinimum(shape.kind)) return k;
  return (k + shape.group_columns - 1) / shape.group_columns * shape.group_columns;
}

// Scales of both signs and several sizes, and now and then zero. All have 8 bits.
inline float SampleScale(std::mt19937& random) {
  const float fraction = 1.0f + static_cast<float>(random() % 128) / 128.0f;
  const float scale = fraction * 0x1p-8f / static_cast<float>(1 << random() % 4);
  const uint32_t kind = random() % 16;
  return kind == 0 ? 0.0f : kind == 1 ? -scale : scale;
}

// An fp16 of both signs with all its bits. Some are subnormal, some are a zero of either sign.
inline float SampleHalf(std::mt19937& random) {
  const auto fraction = static_cast<float>(random() % 1024);
  const float sign = random() % 2 == 0 ? 1.0f : -1.0f;
  const uint32_t kind = random() % 16;
  if (kind == 0) return sign * 0.0f;
  if (kind == 1) return sign * fraction * 0x1p-24f;
  return sign * (1024.0f + fraction) * 0x1p-18f / static_cast<float>(1 << random() % 4);
}

// The scale or the minimum of a group under a second level.
inline float SampleSmall(const SampleShape& shape, std::mt19937& random) {
  const auto byte = static_cast<int>(random() % 256);
  return static_cast<float>(kernels::HasMinimum(shape.kind) ? byte % 64 : byte - 128);
}

// A power of two: mostly of usual size, now and then the smallest or the largest of MXFP4.
inline float SamplePower(std::mt19937& random) {
  const uint32_t kind = random() % 16;
  const auto code = static_cast<uint8_t>(kind == 0 ? 0 : kind == 1 ? 128 : 110 + random() % 12);
  return kernels::E8M0ToFloat(code);
}

// Every number of E4M3: both signs and zero as well.
inline float SampleE4M3(std::mt19937& random) {
  const auto code = static_cast<uint8_t>(random() % 256);
  return kernels::E4M3ToFloat(kernels::IsE4M3Nan(code) ? uint8_t{0} : code);
}

// Of NVFP4, so that a weight is below 24. Now and then the weights of a row are tiny.
inline float SampleRowScale(bool divides, std::mt19937& random) {
  const float fraction = 1.0f + static_cast<float>(random() % (1 << 23)) * 0x1p-23f;
  const float divisor = random() % 16 == 0 ? 0x1p80f : static_cast<float>(128 << random() % 8);
  return divides ? fraction * divisor : fraction / (2 * divisor);
}

// A random matrix with every code.
inline kernels::QuantizedMatrix SampleMatrix(const SampleShape& shape, int64_t n, int64_t k,
                                             uint32_t seed) {
  using kernels::CodeKind;
  std::mt19937 random(seed);
  kernels::QuantizedMatrix matrix;
  matrix.kind = shape.kind;
  matrix.n = n;
  matrix.k = k;
  matrix.group_columns = shape.group_columns;
  matrix.block_columns = shape.block_columns;
  const uint32_t mask = (1u << kernels::CodeBits(shape.kind)) - 1;
  for (int64_t i = 0; i < n * k; ++i) {
    uint32_t code = random() & mask;
    // E4M3 has two codes that are no numbers.
    if (shape.kind == CodeKind::kFp8E4M3 && (code & 0x7F) == 0x7F) code ^= 1;
    matrix.codes.push_back(static_cast<uint8_t>(code));
  }
  const auto scale = [&] {
    if (shape.has_row_scales) return SampleE4M3(random);
    if (shape.kind == CodeKind::kFp4E2M1) return SamplePower(random);
    if (shape.block_columns != 0) return SampleSmall(shape, random);
    return shape.has_half_scales ? SampleHalf(random) : SampleScale(random);
  };
  for (int64_t i = 0; i < n * matrix.num_groups(); ++i) {
    matrix.scales.push_back(scale());
    if (shape.has_zeros) matrix.zeros.push_back(static_cast<uint8_t>(random() & mask));
    if (kernels::HasMinimum(shape.kind)) matrix.minima.push_back(scale());
  }
  if (shape.has_row_scales) {
    matrix.block_columns = k;
    matrix.block_scales_divide = shape.row_scales_divide;
    for (int64_t row = 0; row < n; ++row) {
      matrix.block_scales.push_back(SampleRowScale(shape.row_scales_divide, random));
    }
  }
  if (shape.block_columns == 0) return matrix;
  for (int64_t i = 0; i < n * matrix.num_scale_blocks(); ++i) {
    matrix.block_scales.push_back(SampleHalf(random));
    if (kernels::HasMinimum(shape.kind)) matrix.block_minima.push_back(SampleHalf(random));
  }
  return matrix;
}

// Types of GGUF, but Q8_0, whose codec is one of 8 bits.
inline constexpr SampleShape kQ4_0Shape = {
    .kind = kernels::CodeKind::kInt4, .group_columns = 32, .has_half_scales = true};
inline constexpr SampleShape kQ4_1Shape = {
    .kind = kernels::CodeKind::kInt4Min, .group_columns = 32, .has_half_scales = true};
inline constexpr SampleShape kQ5_0Shape = {
    .kind = kernels::CodeKind::kInt5, .group_columns = 32, .has_half_scales = true};
inline constexpr SampleShape kQ5_1Shape = {
    .kind = kernels::CodeKind::kInt5Min, .group_columns = 32, .has_half_scales = true};
inline constexpr SampleShape kQ4_KShape = {
    .kind = kernels::CodeKind::kInt4Min, .group_columns = 32, .block_columns = 256};
inline constexpr SampleShape kQ5_KShape = {
    .kind = kernels::CodeKind::kInt5Min, .group_columns = 32, .block_columns = 256};
inline constexpr SampleShape kQ6_KShape = {
    .kind = kernels::CodeKind::kInt6, .group_columns = 16, .block_columns = 256};

inline constexpr SampleShape kMxfp4Shape = {.kind = kernels::CodeKind::kFp4E2M1,
                                            .group_columns = 32};
// Of ModelOpt, and of compressed-tensors.
inline constexpr SampleShape kNvfp4Shape = {
    .kind = kernels::CodeKind::kFp4E2M1, .group_columns = 16, .has_row_scales = true};
inline constexpr SampleShape kNvfp4DividedShape = {.kind = kernels::CodeKind::kFp4E2M1,
                                                   .group_columns = 16,
                                                   .has_row_scales = true,
                                                   .row_scales_divide = true};

// One of each codec, by what it is made of.
inline constexpr SampleShape kSampleShapes[] = {
    {kernels::CodeKind::kInt4, 128},
    {kernels::CodeKind::kInt4, 128, true},
    {kernels::CodeKind::kInt4, 32},
    {kernels::CodeKind::kInt4, 32, true},
    {kernels::CodeKind::kInt8, 128},
    {kernels::CodeKind::kInt8, 32},
    {kernels::CodeKind::kInt8, 128, true},
    {kernels::CodeKind::kInt8, 32, true},
    {kernels::CodeKind::kFp8E4M3, 128},
    kQ4_0Shape,
    kQ4_1Shape,
    kQ5_0Shape,
    kQ5_1Shape,
    kQ4_KShape,
    kQ5_KShape,
    kQ6_KShape,
    kMxfp4Shape,
    kNvfp4Shape,
    kNvfp4DividedShape,
};

}  // namespace lockstep::testing
