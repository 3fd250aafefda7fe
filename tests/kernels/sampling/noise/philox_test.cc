#include "kernels/sampling/noise/philox.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>

namespace lockstep::kernels {
namespace {

using Block = std::array<uint32_t, 4>;

// The vectors that the authors of Random123 publish for philox4x32 with 10 rounds.
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(NoiseWordsTest, EveryPartOfTheKeyCounts) {
  const DrawKey key{.seed = 5, .sample_index = 6, .position = 7};
  std::set<Block> blocks = {NoiseWords(key, 8), NoiseWords(key, 9)};
  for (int part = 0; part < 4; ++part) {
    DrawKey other = key;
    if (part == 0) other.seed += 1;
    if (part == 1) other.seed += uint64_t{1} << 32;
    if (part == 2) other.sample_index += 1;
    if (part == 3) other.position += 1;
    blocks.insert(NoiseWords(other, 8));
  }
  EXPECT_EQ(blocks.size(), 6u);
  EXPECT_EQ(NoiseWords(key, 8), NoiseWords(key, 8));
}

TEST(NoiseWordsTest, AreUniform) {
  constexpr uint32_t kNumGroups = 25'000;
  constexpr size_t kNumBins = 64;
  std::array<int, kNumBins> bins{};
  for (uint32_t group = 0; group < kNumGroups; ++group) {
    for (const uint32_t word : NoiseWords({.seed = 1}, group)) ++bins[word >> 26];
  }
  double chi_square = 0;
  for (const int count : bins) {
    constexpr double kExpected = 4.0 * kNumGroups / kNumBins;
    chi_square += (count - kExpected) * (count - kExpected) / kExpected;
  }
  EXPECT_LT(chi_square, 126.0);  // 63 degrees of freedom, p about 4e-6
}

}  // namespace
}  // namespace lockstep::kernels
