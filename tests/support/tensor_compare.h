#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/core/bfloat16.h"

// Comparison of computed tensors with references. NaN and infinities are compared first, as masks:
// a tensor that is NaN where the reference is a number is never "within tolerance", and the other
// way round.
namespace lockstep {

// Every element of `actual` is within `tolerance` (one value, or one per element) of `expected`.
// The failure says how many are not, and shows the worst.
::testing::AssertionResult IsWithin(std::span<const float> actual, std::span<const double> expected,
                                    std::span<const double> tolerance);
::testing::AssertionResult IsWithin(std::span<const float> actual, std::span<const double> expected,
                                    double tolerance);

// Same bits; two NaNs are equal only if all their bits are. Shows the first difference.
::testing::AssertionResult IsSameBits(std::span<const float> actual,
                                      std::span<const float> expected);
::testing::AssertionResult IsSameBits(std::span<const kernels::BFloat16> actual,
                                      std::span<const kernels::BFloat16> expected);

// Neither NaN nor infinite, anywhere.
::testing::AssertionResult IsFinite(std::span<const float> values);

struct ErrorSummary {
  double max = 0.0;
  double rms = 0.0;
};

// Of finite tensors of equal, non-zero size.
ErrorSummary SummariseError(std::span<const float> actual, std::span<const float> expected);

std::vector<float> ToFloats(std::span<const kernels::BFloat16> values);
std::vector<kernels::BFloat16> ToBFloat16s(std::span<const float> values);

// Seeded test data: standard normal; with outliers, every 61st value is 50 times as large, as in
// the activations of real models.
enum class Distribution { kGaussian, kOutliers };
std::vector<float> RandomFloats(size_t count, uint32_t seed,
                                Distribution distribution = Distribution::kGaussian);
std::vector<kernels::BFloat16> RandomBFloat16s(size_t count, uint32_t seed,
                                               Distribution distribution = Distribution::kGaussian);

}  // namespace lockstep
