#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace lockstep::testing {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Logits around 0 with this standard deviation, the same for the same seed.
inline std::vector<float> GaussianRow(size_t size, uint64_t seed, float scale) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> row(size);
  for (float& x : row) x = normal(random);
  return row;
}

}  // namespace lockstep::testing
