#include "router/core/kv/block_pool.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace lockstep::router {
namespace {

void ExpectCounts(const BlockPool& pool, uint32_t free, uint32_t used, uint32_t cached,
                  uint32_t fenced) {
  const BlockCounts counts = pool.Counts();
  EXPECT_EQ(counts.free, free);
  EXPECT_EQ(counts.used, used);
  EXPECT_EQ(counts.cached, cached);
  EXPECT_EQ(counts.fenced, fenced);
}

TEST(BlockPoolTest, GivesEveryBlockOnce) {
  BlockPool pool(5);
  std::set<BlockId> taken;
  while (pool.num_free() > 0) taken.insert(pool.TakeFree());
  EXPECT_EQ(taken, (std::set<BlockId>{0, 1, 2, 3, 4}));
}

TEST(BlockPoolTest, FollowsABlockThroughItsLife) {
  BlockPool pool(3);
  const BlockId block = pool.TakeFree();
  pool.Reference(block);
  ExpectCounts(pool, 2, 1, 0, 0);
  pool.Fence(block);
  ExpectCounts(pool, 2, 0, 0, 1);
  EXPECT_TRUE(pool.Unreference(block, /*fenced=*/true));
  ExpectCounts(pool, 2, 0, 1, 0);  // cached until somebody says that it is free
  pool.PutFree(block);
  ExpectCounts(pool, 3, 0, 0, 0);
}

TEST(BlockPoolTest, ABlockIsFencedOnlyWhenNobodyElseUsesIt) {
  BlockPool pool(1);
  const BlockId block = pool.TakeFree();
  pool.Reference(block);
  pool.Reference(block);
  pool.Fence(block);
  ExpectCounts(pool, 0, 1, 0, 0);
  EXPECT_FALSE(pool.Unreference(block, /*fenced=*/false));
  ExpectCounts(pool, 0, 0, 0, 1);
  pool.Reference(block);  // a prefix hit on a fenced block
  ExpectCounts(pool, 0, 1, 0, 0);
  EXPECT_FALSE(pool.Unreference(block, /*fenced=*/true));
  ExpectCounts(pool, 0, 1, 0, 0);
  EXPECT_TRUE(pool.Unreference(block, /*fenced=*/false));
  ExpectCounts(pool, 0, 0, 1, 0);
}

TEST(BlockPoolTest, SeveralFencedReferences) {
  BlockPool pool(1);
  const BlockId block = pool.TakeFree();
  for (int i = 0; i < 3; ++i) pool.Reference(block);
  for (int i = 0; i < 3; ++i) pool.Fence(block);
  ExpectCounts(pool, 0, 0, 0, 1);
  EXPECT_FALSE(pool.Unreference(block, true));
  EXPECT_FALSE(pool.Unreference(block, true));
  ExpectCounts(pool, 0, 0, 0, 1);
  EXPECT_TRUE(pool.Unreference(block, true));
}

TEST(BlockPoolTest, IntegrityComparesWithWhatIsCounted) {
  BlockPool pool(2);
  const BlockId block = pool.TakeFree();
  pool.Reference(block);
  std::vector<uint32_t> references(2, 0);
  std::vector<uint32_t> fenced(2, 0);
  references[block] = 1;
  EXPECT_TRUE(pool.CheckIntegrity(references, fenced).ok());
  references[block] = 2;
  EXPECT_FALSE(pool.CheckIntegrity(references, fenced).ok());
  references[block] = 1;
  fenced[block] = 1;
  EXPECT_FALSE(pool.CheckIntegrity(references, fenced).ok());
}

TEST(BlockPoolDeathTest, MisuseIsNoticed) {
  BlockPool pool(1);
  EXPECT_DEATH(pool.PutFree(0), "is free or referenced");
  EXPECT_DEATH(pool.Reference(0), "is free");
  const BlockId block = pool.TakeFree();
  EXPECT_DEATH(pool.TakeFree(), "no free block");
  EXPECT_DEATH(pool.Unreference(block, false), "no such reference");
  EXPECT_DEATH(pool.Fence(block), "no unfenced reference");
}

}  // namespace
}  // namespace lockstep::router
