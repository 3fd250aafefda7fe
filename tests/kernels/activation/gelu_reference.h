#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "kernels/activation/gelu.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::testing {

inline std::vector<kernels::BFloat16> EveryFiniteBFloat16() {
  std::vector<kernels::BFloat16> values;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const kernels::BFloat16 value{static_cast<uint16_t>(bits)};
    if (std::isfinite(kernels::ToFloat(value))) values.push_back(value);
  }
  return values;
}

// Within one rounding to bf16 and the fp32 arithmetic before it of the formula in fp64.
inline ::testing::AssertionResult IsGelu(std::span<const kernels::BFloat16> actual,
                                         std::span<const kernels::BFloat16> input,
                                         kernels::GeluForm form) {
  std::vector<double> expected;
  std::vector<double> tolerances;
  for (const kernels::BFloat16 element : input) {
    const double x = kernels::ToFloat(element);
    const double z = std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
    const double gelu = form == kernels::GeluForm::kTanh ? x / (1.0 + std::exp(-2.0 * z))
                                                         : 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    expected.push_back(gelu);
    // The exponent of the tail has a relative error, which the exponential makes absolute.
    const double tail = x < 0 ? std::min(2.0 * std::abs(z), 90.0) * 0x1p-20 : 0.0;
    // fp32 gives up at e^88; what is below the smallest normal number may become 0.
    tolerances.push_back(std::abs(gelu) * (0x1p-8 + 0x1p-18 + tail) + 0x1p-120);
  }
  return IsWithin(ToFloats(actual), expected, tolerances);
}

}  // namespace lockstep::testing
