#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "kernels/core/bfloat16.h"

namespace lockstep::testing {

struct ExpectedRows {
  std::vector<double> values;
  std::vector<double> tolerances;
};

// LayerNorm in fp64, with room for one rounding to bf16 and the fp32 arithmetic before it.
inline ExpectedRows ReferenceLayerNorm(std::span<const kernels::BFloat16> input,
                                       std::span<const float> weight, std::span<const float> bias,
                                       double eps) {
  ExpectedRows expected;
  const size_t size = weight.size();
  for (size_t begin = 0; begin < input.size(); begin += size) {
    double sum = 0.0;
    for (size_t i = 0; i < size; ++i) sum += kernels::ToFloat(input[begin + i]);
    const double mean = sum / static_cast<double>(size);
    double squares = 0.0;
    double largest = 0.0;
    for (size_t i = 0; i < size; ++i) {
      const double value = kernels::ToFloat(input[begin + i]);
      squares += (value - mean) * (value - mean);
      largest = std::max(largest, std::abs(value));
    }
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(size) + eps);
    for (size_t i = 0; i < size; ++i) {
      const double centred = kernels::ToFloat(input[begin + i]) - mean;
      const double scaled = centred * inverse * weight[i];
      expected.values.push_back(scaled + bias[i]);
      // The mean carries an error relative to the largest value, not to this one.
      expected.tolerances.push_back(std::abs(expected.values.back()) * 0x1p-8 +
                                    (std::abs(scaled) + std::abs(bias[i])) * 0x1p-18 +
                                    largest * inverse * std::abs(weight[i]) * 0x1p-19);
    }
  }
  return expected;
}

}  // namespace lockstep::testing
