#include "tests/support/tensor_compare.h"

#include <bit>
#include <cmath>
#include <random>

namespace lockstep {
namespace {

using kernels::BFloat16;
using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

constexpr size_t kOutlierPeriod = 61;
constexpr float kOutlierFactor = 50.0f;

// -1, 0, 1 for infinities and numbers, 2 for NaN.
int SpecialKind(double value) {
  if (std::isnan(value)) return 2;
  if (!std::isinf(value)) return 0;
  return value > 0 ? 1 : -1;
}

template <typename ToleranceOf>
AssertionResult CompareWithin(std::span<const float> actual, std::span<const double> expected,
                              ToleranceOf tolerance_of) {
  if (actual.size() != expected.size()) {
    return AssertionFailure() << actual.size() << " values, expected " << expected.size();
  }
  for (size_t i = 0; i < actual.size(); ++i) {
    if (SpecialKind(actual[i]) != SpecialKind(expected[i])) {
      return AssertionFailure() << "value " << i << " is " << actual[i] << ", expected "
                                << expected[i];
    }
  }
  size_t num_outside = 0;
  size_t worst = 0;
  double worst_excess = 0.0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (SpecialKind(expected[i]) != 0) continue;
    const double excess = std::abs(actual[i] - expected[i]) - tolerance_of(i);
    if (excess <= 0.0) continue;
    ++num_outside;
    if (excess > worst_excess) {
      worst_excess = excess;
      worst = i;
    }
  }
  if (num_outside == 0) return AssertionSuccess();
  return AssertionFailure() << num_outside << " of " << actual.size()
                            << " values are outside the tolerance; the worst is value " << worst
                            << ": " << actual[worst] << ", expected " << expected[worst] << " +- "
                            << tolerance_of(worst);
}

template <typename Bits, typename T>
AssertionResult CompareBits(std::span<const T> actual, std::span<const T> expected) {
  if (actual.size() != expected.size()) {
    return AssertionFailure() << actual.size() << " values, expected " << expected.size();
  }
  size_t num_different = 0;
  size_t first = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::bit_cast<Bits>(actual[i]) == std::bit_cast<Bits>(expected[i])) continue;
    if (num_different++ == 0) first = i;
  }
  if (num_different == 0) return AssertionSuccess();
  return AssertionFailure() << num_different << " of " << actual.size()
                            << " values have other bits; the first is value " << first << ": 0x"
                            << std::hex << std::bit_cast<Bits>(actual[first]) << ", expected 0x"
                            << std::bit_cast<Bits>(expected[first]);
}

}  // namespace

AssertionResult IsWithin(std::span<const float> actual, std::span<const double> expected,
                         std::span<const double> tolerance) {
  if (tolerance.size() != expected.size()) {
    return AssertionFailure() << tolerance.size() << " tolerances for " << expected.size()
                              << " values";
  }
  return CompareWithin(actual, expected, [&](size_t i) { return tolerance[i]; });
}

AssertionResult IsWithin(std::span<const float> actual, std::span<const double> expected,
                         double tolerance) {
  return CompareWithin(actual, expected, [&](size_t) { return tolerance; });
}

AssertionResult IsSameBits(std::span<const float> actual, std::span<const float> expected) {
  return CompareBits<uint32_t>(actual, expected);
}

AssertionResult IsSameBits(std::span<const BFloat16> actual, std::span<const BFloat16> expected) {
  return CompareBits<uint16_t>(actual, expected);
}

AssertionResult IsFinite(std::span<const float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      return AssertionFailure() << "value " << i << " is " << values[i];
    }
  }
  return AssertionSuccess();
}

ErrorSummary SummariseError(std::span<const float> actual, std::span<const float> expected) {
  ErrorSummary summary;
  double sum_of_squares = 0.0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(static_cast<double>(actual[i]) - expected[i]);
    summary.max = std::max(summary.max, error);
    sum_of_squares += error * error;
  }
  summary.rms = std::sqrt(sum_of_squares / static_cast<double>(actual.size()));
  return summary;
}

std::vector<float> ToFloats(std::span<const BFloat16> values) {
  std::vector<float> result;
  for (const BFloat16 value : values) result.push_back(kernels::ToFloat(value));
  return result;
}

std::vector<BFloat16> ToBFloat16s(std::span<const float> values) {
  std::vector<BFloat16> result;
  for (const float value : values) result.push_back(kernels::ToBFloat16(value));
  return result;
}

std::vector<float> RandomFloats(size_t count, uint32_t seed, Distribution distribution) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = normal(generator);
    if (distribution == Distribution::kOutliers && i % kOutlierPeriod == 0) {
      values[i] *= kOutlierFactor;
    }
  }
  return values;
}

std::vector<BFloat16> RandomBFloat16s(size_t count, uint32_t seed, Distribution distribution) {
  return ToBFloat16s(RandomFloats(count, seed, distribution));
}

}  // namespace lockstep
