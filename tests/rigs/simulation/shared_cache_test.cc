#include "tests/rigs/simulation/shared_cache.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::bench {
namespace {

std::vector<TokenId> Tokens(TokenId first, uint32_t count) {
  std::vector<TokenId> tokens(count);
  for (uint32_t i = 0; i < count; ++i) tokens[i] = first + i;
  return tokens;
}

TEST(SharedCacheTest, HoldsFullBlocksOfPromptAndOutput) {
  SharedCache cache(100, 4);
  EXPECT_EQ(cache.Serve("a", Tokens(0, 8), Tokens(8, 5)), 0u);
  EXPECT_EQ(cache.Serve("a", Tokens(0, 8), {}), 4u) << "the last token of a prompt is computed";
  EXPECT_EQ(cache.Serve("a", Tokens(0, 9), {}), 8u);
  EXPECT_EQ(cache.Serve("a", Tokens(0, 14), {}), 12u) << "the output is history";
  EXPECT_EQ(cache.Serve("b", Tokens(0, 9), {}), 0u) << "under another salt";
}

TEST(SharedCacheTest, TheBlockUsedLongestAgoGoesFirst) {
  SharedCache cache(3, 4);
  cache.Serve("a", Tokens(0, 5), {});
  cache.Serve("a", Tokens(100, 5), {});
  cache.Serve("a", Tokens(200, 5), {});
  EXPECT_EQ(cache.Serve("a", Tokens(0, 5), {}), 4u);
  cache.Serve("a", Tokens(300, 5), {});
  EXPECT_EQ(cache.Serve("a", Tokens(0, 5), {}), 4u);
  EXPECT_EQ(cache.Serve("a", Tokens(100, 5), {}), 0u);
}

TEST(SharedCacheTest, TheEndOfATextGoesBeforeItsBeginning) {
  SharedCache cache(4, 4);
  cache.Serve("a", Tokens(0, 13), {});
  cache.Serve("a", Tokens(100, 9), {});
  EXPECT_EQ(cache.Serve("a", Tokens(0, 13), {}), 8u);
}

}  // namespace
}  // namespace lockstep::bench
