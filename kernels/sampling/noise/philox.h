#pragma once

#include <array>
#include <cstdint>

// Philox4x32-10, the counter-based generator of J. Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011. Stateless: a draw is a function of its key and counter, so it can be
// repeated after a preemption, on another worker, or in any order.
namespace lockstep::kernels {

inline constexpr int kPhiloxRounds = 10;

[[gnu::always_inline]] constexpr void PhiloxRound(uint32_t& c0, uint32_t& c1, uint32_t& c2,
                                                  uint32_t& c3, uint32_t key0, uint32_t key1) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  const uint64_t product0 = kMultiplier0 * c0;
  const uint64_t product1 = kMultiplier1 * c2;
  c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ key0;
  c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ key1;
  c1 = static_cast<uint32_t>(product1);
  c3 = static_cast<uint32_t>(product0);
}

[[gnu::always_inline]] constexpr void NextPhiloxKey(uint32_t& key0, uint32_t& key1) {
  constexpr uint32_t kKeyStep0 = 0x9E3779B9, kKeyStep1 = 0xBB67AE85;
  key0 += kKeyStep0;
  key1 += kKeyStep1;
}

constexpr std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    PhiloxRound(counter[0], counter[1], counter[2], counter[3], key[0], key[1]);
    NextPhiloxKey(key[0], key[1]);
  }
  return counter;
}

// What the noise of a row depends on, and nothing else (docs/numerics.md, rule 5).
struct DrawKey {
  uint64_t seed = 0;
  uint32_t sample_index = 0;
  uint32_t position = 0;  // absolute position of the token being sampled
};

// One word for each of four neighbouring tokens: 4 * token_group and following.
constexpr std::array<uint32_t, 4> NoiseWords(const DrawKey& key, uint32_t token_group) {
  return Philox4x32({key.position, key.sample_index, token_group, 0},
                    {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)});
}

}  // namespace lockstep::kernels
