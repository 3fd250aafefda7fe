// A cache with two groups: all tokens, and a window of 5 tokens, which needs 2 blocks of 2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "router/core/kv/kv_cache.h"

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;

constexpr uint32_t kWindowGroup = 1;

class KvCacheGroupsTest : public ::testing::Test {
 protected:
  KvProbe Probe(const std::vector<TokenId>& tokens) {
    return cache_.Probe({}, tokens, static_cast<uint32_t>(tokens.size()) - 1);
  }
  uint32_t NumHitBlocks(const std::vector<TokenId>& tokens) {
    return static_cast<uint32_t>(Probe(tokens).hit.blocks.size());
  }
  // Runs a sequence token by token, from its hit to `num_computed` tokens.
  BlockTable Run(const std::vector<TokenId>& tokens, uint32_t num_computed) {
    const KvProbe probe = Probe(tokens);
    EXPECT_TRUE(cache_.Has(probe.Needed(0)));
    BlockTable table = cache_.Take(probe);
    PublishedPrefix published = {.num_blocks = static_cast<uint32_t>(probe.hit.blocks.size()),
                                 .last = probe.hit.last};
    for (uint32_t end = published.num_blocks * 2 + 1; end <= num_computed; ++end) {
      cache_.GrowTo(table, cache_.BlocksFor(end));
      cache_.Publish(table, {}, std::span(tokens).first(end), published);
      cache_.DropBehind(table, end);
      ExpectIntegrity({&table});
    }
    return table;
  }
  void ExpectIntegrity(std::vector<const BlockTable*> tables) {
    const absl::Status status = cache_.CheckIntegrity(tables);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  static std::vector<TokenId> Text(TokenId first, uint32_t num_tokens) {
    std::vector<TokenId> text(num_tokens);
    std::iota(text.begin(), text.end(), first);
    return text;
  }

  KvCache cache_{KvGroups{{.block_size_tokens = 2, .num_blocks = 32},
                          {.block_size_tokens = 2,
                           .num_blocks = 6,
                           .retention = Retention::kWindow,
                           .window_tokens = 5}}};
  const std::vector<TokenId> text_ = Text(1, 20);
};

TEST_F(KvCacheGroupsTest, AProbeCountsEachGroup) {
  const KvProbe probe = Probe(text_);
  ASSERT_EQ(probe.groups.size(), 2u);
  EXPECT_EQ(probe.groups[0].num_new_blocks, 10u) << "all tokens";
  EXPECT_EQ(probe.groups[1].num_new_blocks, 3u) << "a window, and the block of the next tokens";
  EXPECT_TRUE(cache_.Has(probe.Needed(3)));
  EXPECT_FALSE(cache_.Has(probe.Needed(4))) << "the second group has 6 blocks";
  EXPECT_EQ(Probe({1, 2, 3}).groups[1].num_new_blocks, 2u) << "no more than it has tokens";
}

TEST_F(KvCacheGroupsTest, BlocksBehindTheWindowComeBack) {
  const BlockTable table = Run(text_, 9);
  EXPECT_EQ(table.size(kWindowGroup), 5u);
  EXPECT_EQ(table.num_behind(kWindowGroup), 2u) << "token 8 reads from token 4 on";
  EXPECT_EQ(table.ids(kWindowGroup)[1], kNoBlock);
  EXPECT_EQ(cache_.Counts(kWindowGroup).used, 3u);
  EXPECT_EQ(cache_.Counts(0).used, 10u);
}

TEST_F(KvCacheGroupsTest, AWindowHoldsATextOfAnyLength) {
  for (uint32_t num_computed = 1; num_computed < text_.size(); ++num_computed) {
    const BlockTable table = Run(text_, num_computed);
    EXPECT_LE(cache_.Counts(kWindowGroup).used, 5u) << num_computed;
  }
  EXPECT_EQ(cache_.Counts(kWindowGroup).used, 0u);
}

TEST_F(KvCacheGroupsTest, AFencedTableKeepsWhatFallsBehind) {
  BlockTable table = Run(text_, 9);
  cache_.Fence(table);
  cache_.DropBehind(table, 13);
  EXPECT_EQ(cache_.Counts(kWindowGroup).fenced, 3u);
  ExpectIntegrity({&table});
  EXPECT_FALSE(cache_.WillHave({0, 7}));
  EXPECT_TRUE(cache_.WillHave({0, 6}));
  table = BlockTable();
  EXPECT_EQ(cache_.Counts(kWindowGroup).fenced, 0u);
  ExpectIntegrity({});
}

TEST_F(KvCacheGroupsTest, AHitTakesTheWindowBeforeItsEnd) {
  {
    const BlockTable first = Run(text_, 9);
  }
  const KvProbe probe = Probe(text_);
  EXPECT_EQ(probe.hit.blocks.size(), 4u);
  EXPECT_EQ(probe.groups[1].num_cached_hit_blocks, 2u);
  const BlockTable table = cache_.Take(probe);
  EXPECT_EQ(table.num_behind(kWindowGroup), 2u);
  EXPECT_EQ(table.ids(kWindowGroup).size(), 4u + 3u);
  ExpectIntegrity({&table});
}

TEST_F(KvCacheGroupsTest, ShorterThanTheWindowAHitNeedsAllBlocks) {
  {
    const BlockTable first = Run(text_, 5);
  }
  EXPECT_EQ(NumHitBlocks({1, 2, 9}), 1u);
  EXPECT_EQ(NumHitBlocks(text_), 2u);
}

TEST_F(KvCacheGroupsTest, WithoutTheWindowBeforeItsEndAHitIsShorter) {
  {
    const BlockTable first = Run(text_, 9);
  }
  // Other texts need all blocks of the window group. Blocks behind the window go first.
  {
    const BlockTable other = Run(Text(100, 20), 7);
    EXPECT_EQ(NumHitBlocks(text_), 4u) << "two blocks are free, and two were behind the window";
  }
  {
    const BlockTable other = Run(Text(200, 20), 12);
  }
  EXPECT_EQ(NumHitBlocks(text_), 0u) << "group 0 has all blocks, the window group lacks them";
  EXPECT_EQ(cache_.Probe({}, text_, 20).hit.last.serial, 0u);
  {
    const BlockTable again = Run(text_, 9);
  }
  EXPECT_EQ(NumHitBlocks(text_), 4u) << "computed again, below the nodes that are there";
  ExpectIntegrity({});
}

TEST_F(KvCacheGroupsTest, AHitEndsWhereEveryGroupHasItsBlocks) {
  // The window group keeps all blocks of the run but the first, which it evicted for the last.
  {
    const BlockTable first = Run(text_, 13);
  }
  EXPECT_EQ(NumHitBlocks(text_), 6u);
  std::vector<TokenId> branch(text_.begin(), text_.begin() + 8);
  branch.push_back(99);
  EXPECT_EQ(NumHitBlocks(branch), 4u);
  // A hit of two blocks needs the first.
  branch = {text_.begin(), text_.begin() + 4};
  branch.push_back(99);
  EXPECT_EQ(NumHitBlocks(branch), 0u);
  ExpectIntegrity({});
}

TEST_F(KvCacheGroupsTest, AnEvictedNodeTakesItsBlockOfTheWindowAlong) {
  {
    const BlockTable first = Run(text_, 9);
  }
  const uint32_t num_cached = cache_.Counts(kWindowGroup).cached;
  EXPECT_GE(num_cached, 2u);
  {
    BlockTable filler = cache_.Take(Probe(Text(100, 60)));
    ExpectIntegrity({&filler});
    EXPECT_EQ(cache_.Counts(0).cached, 2u) << "the start of the chain";
    EXPECT_LT(cache_.Counts(kWindowGroup).cached, num_cached);
  }
  ExpectIntegrity({});
}

TEST_F(KvCacheGroupsTest, TellsTheWorkerBlocksByGroup) {
  BlockTable table = cache_.Take(Probe(text_));
  std::vector<GroupBlocks> untold = table.TakeUntold();
  ASSERT_EQ(untold.size(), 2u);
  EXPECT_EQ(untold[0].ids.size(), 10u);
  EXPECT_EQ(untold[1].group, kWindowGroup);
  EXPECT_EQ(untold[1].ids.size(), 3u);
  EXPECT_FALSE(table.has_untold());
  EXPECT_EQ(cache_.MostCovered(table), 6u);
  cache_.GrowTo(table, 4);
  EXPECT_TRUE(table.has_untold());
  untold = table.TakeUntold();
  ASSERT_EQ(untold.size(), 1u) << "the first group had them";
  EXPECT_EQ(untold[0].group, kWindowGroup);
  EXPECT_EQ(untold[0].first, 3u);
  EXPECT_THAT(untold[0].ids, ElementsAre(table.ids(kWindowGroup)[3]));
}

TEST(KvCacheGroupsDeathTest, GrowsInEveryGroupOrInNone) {
  KvCache cache(KvGroups{{.block_size_tokens = 2, .num_blocks = 32},
                         {.block_size_tokens = 2,
                          .num_blocks = 4,
                          .retention = Retention::kWindow,
                          .window_tokens = 5}});
  const std::vector<TokenId> text(40, 1);
  BlockTable table = cache.Take(cache.Probe({}, text, 39));
  EXPECT_DEATH(cache.GrowTo(table, 5), "2 blocks asked for in group 1, 1 available");
  EXPECT_TRUE(cache.CanHold(32));
  EXPECT_FALSE(cache.CanHold(33));
}

}  // namespace
}  // namespace lockstep::router
