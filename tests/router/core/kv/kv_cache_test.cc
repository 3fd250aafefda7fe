#include "router/core/kv/kv_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;

class KvCacheTest : public ::testing::Test {
 protected:
  KvProbe Probe(const std::vector<TokenId>& tokens) {
    return cache_.Probe({}, tokens, static_cast<uint32_t>(tokens.size()) - 1);
  }
  BlockTable Admit(const std::vector<TokenId>& tokens) { return cache_.Take(Probe(tokens)); }
  void ExpectIntegrity(std::vector<const BlockTable*> tables) {
    const absl::Status status = cache_.CheckIntegrity(tables);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  KvCache cache_{KvGroups{{.block_size_tokens = 2, .num_blocks = 8}}};
  const std::vector<TokenId> text_ = {1, 2, 3, 4, 5, 6, 7};
};

TEST_F(KvCacheTest, BlocksForTokens) {
  EXPECT_EQ(cache_.BlocksFor(0), 0u);
  EXPECT_EQ(cache_.BlocksFor(1), 1u);
  EXPECT_EQ(cache_.BlocksFor(2), 1u);
  EXPECT_EQ(cache_.BlocksFor(3), 2u);
}

TEST_F(KvCacheTest, AProbeTakesNothing) {
  const KvProbe probe = Probe(text_);
  EXPECT_EQ(probe.groups[0].num_new_blocks, 4u);
  EXPECT_EQ(probe.groups[0].num_cached_hit_blocks, 0u);
  EXPECT_TRUE(cache_.Has(probe.Needed(4)));
  EXPECT_FALSE(cache_.Has(probe.Needed(5)));
  EXPECT_EQ(cache_.Counts().free, 8u);
}

TEST_F(KvCacheTest, ATableGivesItsBlocksBackOnce) {
  {
    BlockTable table = Admit(text_);
    EXPECT_EQ(table.size(), 4u);
    ExpectIntegrity({&table});
    BlockTable moved = std::move(table);
    EXPECT_EQ(table.size(), 0u);
    ExpectIntegrity({&moved});
    moved = Admit({9});
    EXPECT_EQ(cache_.Counts().used, 1u) << "assignment released the old ones";
  }
  EXPECT_EQ(cache_.Counts().free, 8u);
  ExpectIntegrity({});
}

TEST_F(KvCacheTest, GrowsFromFreeThenFromCachedBlocks) {
  PublishedPrefix published;
  {
    const BlockTable table = Admit(text_);
    cache_.Publish(table, {}, text_, published);
    EXPECT_EQ(published.num_blocks, 3u) << "only full blocks are published";
  }
  EXPECT_EQ(cache_.Counts().cached, 3u);
  EXPECT_EQ(cache_.num_available(), 8u);
  BlockTable table = Admit({9});
  cache_.GrowTo(table, 7);
  EXPECT_EQ(cache_.Counts().cached, 1u) << "two leaves were evicted";
  EXPECT_EQ(Probe(text_).hit.blocks.size(), 1u) << "from the end of the chain";
  ExpectIntegrity({&table});
}

TEST_F(KvCacheTest, BlocksOfTheHitAreNotAvailableToItself) {
  PublishedPrefix published;
  {
    cache_.Publish(Admit(text_), {}, text_, published);
  }
  const KvProbe probe = Probe(text_);
  EXPECT_EQ(probe.hit.blocks.size(), 3u);
  EXPECT_EQ(probe.groups[0].num_new_blocks, 1u);
  EXPECT_EQ(probe.groups[0].num_cached_hit_blocks, 3u);
  const BlockTable first = cache_.Take(probe);
  const KvProbe second = Probe(text_);
  EXPECT_EQ(second.groups[0].num_cached_hit_blocks, 0u) << "they are in use already";
  const BlockTable table = cache_.Take(second);
  EXPECT_THAT(std::vector<BlockId>(table.ids().begin(), table.ids().begin() + 3),
              ElementsAre(first.ids()[0], first.ids()[1], first.ids()[2]));
  EXPECT_EQ(cache_.Counts().used, 5u);
  ExpectIntegrity({&first, &table});
}

TEST_F(KvCacheTest, MaxHitTokensIsRoundedDown) {
  PublishedPrefix published;
  {
    cache_.Publish(Admit(text_), {}, text_, published);
  }
  EXPECT_EQ(cache_.Probe({}, text_, 0).hit.blocks.size(), 0u);
  EXPECT_EQ(cache_.Probe({}, text_, 1).hit.blocks.size(), 0u);
  EXPECT_EQ(cache_.Probe({}, text_, 5).hit.blocks.size(), 2u);
  EXPECT_EQ(cache_.Probe({.salt = "other"}, text_, 5).hit.blocks.size(), 0u);
}

TEST_F(KvCacheTest, FencedBlocksAreNeitherUsedNorAvailable) {
  BlockTable table = Admit(text_);
  cache_.Fence(table);
  cache_.Fence(table);
  EXPECT_EQ(cache_.Counts().fenced, 4u);
  EXPECT_EQ(cache_.num_available(), 4u);
  ExpectIntegrity({&table});
  table = BlockTable();
  EXPECT_EQ(cache_.num_available(), 8u);
}

TEST_F(KvCacheTest, PublishesStepByStep) {
  const BlockTable table = Admit(text_);
  PublishedPrefix published;
  for (size_t num_computed = 0; num_computed <= text_.size(); ++num_computed) {
    cache_.Publish(table, {}, std::span(text_).first(num_computed), published);
    EXPECT_EQ(published.num_blocks, num_computed / 2);
  }
  EXPECT_EQ(cache_.num_index_nodes(), 3u);
}

TEST_F(KvCacheTest, ATwinPublishesUnderTheFirstOnesBlocks) {
  const BlockTable first = Admit({1, 2, 3});
  const BlockTable twin = Admit({1, 2, 3, 4, 5});
  PublishedPrefix of_first;
  PublishedPrefix of_twin;
  cache_.Publish(first, {}, std::vector<TokenId>{1, 2, 3}, of_first);
  cache_.Publish(twin, {}, std::vector<TokenId>{1, 2, 3, 4}, of_twin);
  EXPECT_EQ(of_twin.num_blocks, 2u);
  EXPECT_THAT(Probe({1, 2, 3, 4, 5}).hit.blocks, ElementsAre(first.ids()[0], twin.ids()[1]));
  ExpectIntegrity({&first, &twin});
}

TEST_F(KvCacheTest, ATwinThatUsesItsOwnBlocksOnlyKeepsNoneOfTheFirstOnes) {
  BlockTable first = Admit({1, 2, 3});
  const BlockTable twin = Admit({1, 2, 3, 4, 5});
  PublishedPrefix of_first;
  PublishedPrefix of_twin;
  cache_.Publish(first, {}, std::vector<TokenId>{1, 2, 3}, of_first);
  const std::vector<TokenId> computed = {1, 2, 3, 4};
  cache_.Publish(twin, {}, computed, of_twin, PublishBelow::kOwnBlock);
  EXPECT_EQ(of_twin.num_blocks, 0u);
  first = BlockTable();
  EXPECT_EQ(cache_.num_available(), 8u - twin.size());
  BlockTable filler = Admit({9});
  cache_.GrowTo(filler, filler.size() + cache_.num_available());
  cache_.Publish(twin, {}, computed, of_twin, PublishBelow::kOwnBlock);
  EXPECT_EQ(of_twin.num_blocks, 2u) << "the first one's block is gone";
  EXPECT_THAT(Probe({1, 2, 3, 4, 5}).hit.blocks, ElementsAre(twin.ids()[0], twin.ids()[1]));
  ExpectIntegrity({&filler, &twin});
}

TEST_F(KvCacheTest, ATwinWhoseSupportWasEvictedPublishesAll) {
  PublishedPrefix of_first;
  PublishedPrefix of_twin;
  BlockTable first = Admit({1, 2, 3});
  const BlockTable twin = Admit({1, 2, 3, 4, 5});
  cache_.Publish(first, {}, std::vector<TokenId>{1, 2, 3}, of_first);
  cache_.Publish(twin, {}, std::vector<TokenId>{1, 2, 3}, of_twin);
  first = BlockTable();
  BlockTable filler = Admit({9});
  cache_.GrowTo(filler, filler.size() + cache_.num_available());
  EXPECT_EQ(cache_.num_index_nodes(), 0u);
  cache_.Publish(twin, {}, std::vector<TokenId>{1, 2, 3, 4}, of_twin);
  EXPECT_EQ(of_twin.num_blocks, 2u);
  EXPECT_THAT(Probe({1, 2, 3, 4, 5}).hit.blocks, ElementsAre(twin.ids()[0], twin.ids()[1]));
  ExpectIntegrity({&filler, &twin});
}

TEST_F(KvCacheTest, IntegrityMissesATable) {
  const BlockTable table = Admit(text_);
  EXPECT_FALSE(cache_.CheckIntegrity({}).ok());
}

TEST(KvCacheDeathTest, TakingMoreThanThereIs) {
  KvCache cache(KvGroups{{.block_size_tokens = 2, .num_blocks = 2}});
  const std::vector<TokenId> text = {1, 2, 3};
  BlockTable table = cache.Take(cache.Probe({}, text, 2));
  EXPECT_DEATH(cache.GrowTo(table, 3), "1 blocks asked for in group 0, 0 available");
  cache.Fence(table);
  EXPECT_DEATH(cache.GrowTo(table, 0), "foreign or fenced");
}

}  // namespace
}  // namespace lockstep::router
