#pragma once

#include <array>
#include <cstdint>

// Philox4x32-10, the counter-based generator of J. Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011. Stateless: a draw is a function of its key and counter, so it can be
// repeated after a preemption, on another worker, or in any order.
namespace lockstep::kernels {

constexpr std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  constexpr int kRounds = 10;
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kKeyStep0 = 0x9E3779B9, kKeyStep1 = 0xBB67AE85;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key = {key[0] + kKeyStep0, key[1] + kKeyStep1};
  }
  return counter;
}

// What a random number of a row depends on, and nothing else (docs/numerics.md, item 4).
struct DrawKey {
  uint64_t seed = 0;
  uint32_t sample_index = 0;
  uint32_t position = 0;  // absolute position of the token being sampled
  uint32_t draw = 0;      // number of the draw at this position
};

// Uniform in [0, 1) with 53 random bits.
constexpr double UniformDraw(const DrawKey& key) {
  const std::array<uint32_t, 4> bits =
      Philox4x32({key.position, key.sample_index, key.draw, 0},
                 {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)});
  const uint64_t word = uint64_t{bits[1]} << 32 | bits[0];
  return static_cast<double>(word >> 11) * 0x1p-53;
}

}  // namespace lockstep::kernels
