#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/formats/quantized_matrix.h"

namespace lockstep::testing {

struct SampleShape {
  kernels::CodeKind kind;
  int64_t group_columns;
  bool has_zeros = false;
};

// A random matrix with every code, scales of both signs and several sizes, and now and then a scale
// of zero. All scales have 8 bits, so every codec stores them.
inline kernels::QuantizedMatrix SampleMatrix(const SampleShape& shape, int64_t n, int64_t k,
                                             uint32_t seed) {
  using kernels::CodeKind;
  std::mt19937 random(seed);
  kernels::QuantizedMatrix matrix;
  matrix.kind = shape.kind;
  matrix.n = n;
  matrix.k = k;
  matrix.group_columns = shape.group_columns;
  const uint32_t mask = shape.kind == CodeKind::kInt4 ? 0xF : 0xFF;
  for (int64_t i = 0; i < n * k; ++i) {
    uint32_t code = random() & mask;
    // E4M3 has two codes that are no numbers.
    if (shape.kind == CodeKind::kFp8E4M3 && (code & 0x7F) == 0x7F) code ^= 1;
    matrix.codes.push_back(static_cast<uint8_t>(code));
  }
  for (int64_t i = 0; i < n * matrix.num_groups(); ++i) {
    const float fraction = 1.0f + static_cast<float>(random() % 128) / 128.0f;
    const float scale = fraction * 0x1p-8f / static_cast<float>(1 << random() % 4);
    const uint32_t kind = random() % 16;
    matrix.scales.push_back(kind == 0 ? 0.0f : kind == 1 ? -scale : scale);
    if (shape.has_zeros) matrix.zeros.push_back(static_cast<uint8_t>(random() & mask));
  }
  return matrix;
}

// One of each codec, by what it is made of.
inline constexpr SampleShape kSampleShapes[] = {
    {kernels::CodeKind::kInt4, 128},    {kernels::CodeKind::kInt4, 128, true},
    {kernels::CodeKind::kInt4, 32},     {kernels::CodeKind::kInt4, 32, true},
    {kernels::CodeKind::kInt8, 128},    {kernels::CodeKind::kInt8, 32},
    {kernels::CodeKind::kFp8E4M3, 128},
};

}  // namespace lockstep::testing
