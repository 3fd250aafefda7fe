#include "worker/cuda/steps/shared_prefixes.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace lockstep::worker {
namespace {

// A table of 200 blocks whose first `num_shared` are 0, 1, ...; the others are the row's own.
std::vector<BlockId> Blocks(BlockId row, size_t num_shared) {
  std::vector<BlockId> blocks(200);
  std::iota(blocks.begin(), blocks.end(), 1000 + 200 * row);
  std::iota(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(num_shared), BlockId{0});
  return blocks;
}

TEST(SharedPrefixesTest, CountsWhatRowsHaveInCommon) {
  SharedPrefixes prefixes(10'000);
  EXPECT_FALSE(prefixes.AreMany());
  for (BlockId row = 0; row < 8; ++row) prefixes.Add(Blocks(row, 128), 2240);
  EXPECT_TRUE(prefixes.AreMany());
  prefixes.Clear();
  for (BlockId row = 0; row < 8; ++row) prefixes.Add(Blocks(row, 0), 2240);
  EXPECT_FALSE(prefixes.AreMany());
}

TEST(SharedPrefixesTest, ALittleIsNotMany) {
  SharedPrefixes prefixes(10'000);
  // 128 keys of 2,240.
  for (BlockId row = 0; row < 8; ++row) prefixes.Add(Blocks(row, 8), 2240);
  EXPECT_FALSE(prefixes.AreMany());
  prefixes.Clear();
  // Two rows of twenty.
  for (BlockId row = 0; row < 20; ++row) prefixes.Add(Blocks(row, row < 2 ? 128 : 0), 2240);
  EXPECT_FALSE(prefixes.AreMany());
  prefixes.Clear();
  // Less than the shortest depth.
  for (BlockId row = 0; row < 8; ++row) prefixes.Add(Blocks(row, 7), 160);
  EXPECT_FALSE(prefixes.AreMany());
}

TEST(SharedPrefixesTest, ARowsLastKeyIsItsOwn) {
  SharedPrefixes prefixes(10'000);
  for (BlockId row = 0; row < 8; ++row) prefixes.Add(Blocks(row, 8), 128);
  EXPECT_FALSE(prefixes.AreMany());
  prefixes.Clear();
  for (BlockId row = 0; row < 8; ++row) prefixes.Add(Blocks(row, 8), 129);
  EXPECT_TRUE(prefixes.AreMany());
}

TEST(SharedPrefixesTest, ATableMayBeShorterThanItsKeysSay) {
  SharedPrefixes prefixes(10'000);
  const std::vector<BlockId> blocks = {1, 2, 3};
  for (int row = 0; row < 8; ++row) prefixes.Add(blocks, 5'000);
  EXPECT_FALSE(prefixes.AreMany());
}

}  // namespace
}  // namespace lockstep::worker
