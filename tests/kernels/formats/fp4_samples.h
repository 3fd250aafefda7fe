#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/small_floats.h"
#include "kernels/formats/strips/fp4/nvfp4_rows.h"

// Matrices of FP4 with every code under every scale.
namespace lockstep::testing {

inline kernels::QuantizedMatrix Fp4Matrix(int64_t n, int64_t num_groups, int64_t group_columns) {
  kernels::QuantizedMatrix matrix;
  matrix.kind = kernels::CodeKind::kFp4E2M1;
  matrix.n = n;
  matrix.k = num_groups * group_columns;
  matrix.group_columns = group_columns;
  for (int64_t i = 0; i < n * matrix.k; ++i) {
    matrix.codes.push_back(static_cast<uint8_t>((i + i / matrix.k) % 16));
  }
  return matrix;
}

// Scales of rows of NVFP4: powers of two with random fractions, and fractions whose multiples are
// near the middle of two neighbours in bf16. Some are tiny, some are huge.
inline std::vector<float> RowScales(int count) {
  std::mt19937 random(11);
  std::vector<float> scales = {1.0f,      3.0f,    2688.0f, 0x1p-149f, 0x1.fffffep127f,
                               0x1p-126f, 0x1p127f};
  while (static_cast<int>(scales.size()) < count) {
    const uint32_t exponent = random() % 8 == 0 ? random() % 255 : 115 + random() % 24;
    uint32_t fraction = random() % (1 << 23);
    if (random() % 2 == 0) {
      // The quotient of two numbers of few bits, and its neighbours.
      const float few = (257.0f + 2.0f * static_cast<float>(random() % 128)) /
                        static_cast<float>((8 + random() % 8) * (2 + random() % 2));
      fraction = (std::bit_cast<uint32_t>(few) + random() % 3 - 1) % (1 << 23);
    }
    scales.push_back(std::bit_cast<float>(exponent << 23 | fraction));
  }
  return scales;
}

// One row for each of `row_scales`. Its groups have all numbers of E4M3 as their scales. The
// kernels refuse some of these beside the row's scale; such groups have the scale 0.
inline kernels::QuantizedMatrix Nvfp4WithEveryScale(const std::vector<float>& row_scales,
                                                    bool divides) {
  kernels::QuantizedMatrix matrix = Fp4Matrix(static_cast<int64_t>(row_scales.size()), 256, 16);
  matrix.block_columns = matrix.k;
  matrix.block_scales = row_scales;
  matrix.block_scales_divide = divides;
  for (const float of_row : row_scales) {
    for (int code = 0; code < 256; ++code) {
      const float scale = kernels::E4M3ToFloat(static_cast<uint8_t>(code));
      const float magnitude = std::fabs(matrix.CombineScales(scale, of_row));
      const bool is_taken =
          magnitude >= kernels::kMinNvfp4Scale && magnitude < kernels::kMaxNvfp4Scale;
      matrix.scales.push_back(is_taken ? scale : std::copysign(0.0f, scale));
    }
  }
  return matrix;
}

// Every power of two that the kernels take, 2^-127 to 2.
inline kernels::QuantizedMatrix Mxfp4WithEveryScale() {
  kernels::QuantizedMatrix matrix = Fp4Matrix(16, 129, 32);
  for (int64_t i = 0; i < matrix.n * matrix.num_groups(); ++i) {
    matrix.scales.push_back(
        kernels::E8M0ToFloat(static_cast<uint8_t>((i + i / matrix.num_groups()) % 129)));
  }
  return matrix;
}

}  // namespace lockstep::testing
