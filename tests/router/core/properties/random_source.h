#pragma once

#include <cstdint>
#include <random>

namespace lockstep::router::testing {

// Reproducible on every platform: the standard distributions are not.
class RandomSource {
 public:
  explicit RandomSource(uint64_t seed) : engine_(seed) {}

  // In [low, high].
  uint32_t Between(uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(engine_() % (uint64_t{high} - low + 1));
  }
  // True once in `n` times.
  bool OneIn(uint32_t n) { return Between(1, n) == 1; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace lockstep::router::testing
