#pragma once

#include <absl/time/time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace lockstep::bench {

// Inclusive.
struct Range {
  uint32_t low = 0;
  uint32_t high = 0;
};

// What a simulation draws. The standard distributions differ between libraries; these do not.
class RandomDraws {
 public:
  explicit RandomDraws(uint64_t seed) : engine_(seed) {}

  uint64_t Bits() { return engine_(); }
  uint32_t In(const Range& range) {
    return range.low + static_cast<uint32_t>(engine_() % (uint64_t{range.high} - range.low + 1));
  }
  // In [0, 1).
  double Unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  absl::Duration Exponential(absl::Duration mean) { return mean * -std::log1p(-Unit()); }

 private:
  std::mt19937_64 engine_;
};

// Draws `i` of 0 .. count - 1 with a weight of 1 / (i + 1)^skew.
class Zipf {
 public:
  Zipf(uint32_t count, double skew) {
    double sum = 0;
    for (uint32_t i = 0; i < count; ++i) cumulated_.push_back(sum += std::pow(i + 1.0, -skew));
  }
  uint32_t Draw(RandomDraws& random) const {
    const double at = random.Unit() * cumulated_.back();
    const auto found = std::upper_bound(cumulated_.begin(), cumulated_.end(), at);
    return static_cast<uint32_t>(
        std::min<ptrdiff_t>(found - cumulated_.begin(), std::ssize(cumulated_) - 1));
  }

 private:
  std::vector<double> cumulated_;
};

}  // namespace lockstep::bench
