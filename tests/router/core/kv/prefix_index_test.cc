#include "router/core/kv/prefix_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/router/core/properties/random_source.h"

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

uint64_t EverythingCollides(uint64_t /*parent_serial*/, std::span<const TokenId> /*tokens*/) {
  return 42;
}

// An index with blocks of two tokens, and the references that a pool would count.
class PrefixIndexTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kNumBlocks = 16;

  PrefixNode Insert(const PrefixNode& parent, std::vector<TokenId> tokens, BlockId block,
                    std::string salt = "") {
    ++references_[block];
    const std::optional<PrefixNode> node =
        index_.Insert({.salt = std::move(salt)}, parent, tokens, block);
    EXPECT_TRUE(node.has_value());
    ExpectIntegrity();
    return node.value_or(PrefixNode{});
  }
  std::vector<BlockId> Match(std::vector<TokenId> tokens, std::string salt = "",
                             uint32_t max_blocks = 100) {
    return index_.Match({.salt = std::move(salt)}, tokens, max_blocks).blocks;
  }
  void Unreference(BlockId block) {
    if (--references_[block] == 0 && index_.Contains(block)) index_.MarkUnreferenced(block);
    ExpectIntegrity();
  }
  void Reference(BlockId block) {
    if (references_[block]++ == 0) index_.MarkReferenced(block);
    ExpectIntegrity();
  }
  BlockId Evict() {
    const BlockId block = index_.EvictOldest();
    ExpectIntegrity();
    return block;
  }
  void ExpectIntegrity() {
    const absl::Status status = index_.CheckIntegrity(references_);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  PrefixIndex index_{kNumBlocks, 2};
  std::vector<uint32_t> references_ = std::vector<uint32_t>(kNumBlocks, 0);
};

TEST_F(PrefixIndexTest, MatchesTheLongestChainOfFullBlocks) {
  const PrefixNode first = Insert({}, {1, 2}, 5);
  const PrefixNode second = Insert(first, {3, 4}, 7);
  EXPECT_THAT(Match({1, 2, 3, 4}), ElementsAre(5, 7));
  EXPECT_THAT(Match({1, 2, 3, 4, 5, 6}), ElementsAre(5, 7));
  EXPECT_THAT(Match({1, 2, 3}), ElementsAre(5)) << "half a block is no block";
  EXPECT_THAT(Match({1, 2, 3, 5}), ElementsAre(5));
  EXPECT_THAT(Match({3, 4}), IsEmpty()) << "a block has its place after its parent only";
  EXPECT_THAT(Match({1}), IsEmpty());
  EXPECT_THAT(Match({1, 2, 3, 4}, "", 1), ElementsAre(5));
  EXPECT_EQ(index_.Match({}, std::vector<TokenId>{1, 2, 3, 4}, 9).last.serial, second.serial);
}

TEST_F(PrefixIndexTest, EachSaltHasARootOfItsOwn) {
  Insert({}, {1, 2}, 0, "a");
  Insert({}, {1, 2}, 1, "b");
  EXPECT_THAT(Match({1, 2}, "a"), ElementsAre(0));
  EXPECT_THAT(Match({1, 2}, "b"), ElementsAre(1));
  EXPECT_THAT(Match({1, 2}, ""), IsEmpty());
  EXPECT_EQ(index_.num_roots(), 2u);
  Unreference(0);
  Evict();
  EXPECT_EQ(index_.num_roots(), 1u) << "a root without children is forgotten";
}

TEST_F(PrefixIndexTest, EqualTokensAtOnePlaceAreOneNode) {
  const PrefixNode first = Insert({}, {1, 2}, 0);
  const PrefixNode again = Insert({}, {1, 2}, 1);
  EXPECT_EQ(again.block, 0u);
  EXPECT_EQ(again.serial, first.serial);
  EXPECT_FALSE(index_.Contains(1));
  EXPECT_EQ(index_.num_nodes(), 1u);
}

TEST_F(PrefixIndexTest, AParentThatIsGoneIsNoticed) {
  const PrefixNode old = Insert({}, {1, 2}, 0);
  Unreference(0);
  EXPECT_EQ(Evict(), 0u);
  references_[1] = 1;
  EXPECT_EQ(index_.Insert({}, old, std::vector<TokenId>{3, 4}, 1), std::nullopt);
  Insert({}, {7, 8}, 0);  // another node in the block of the old one
  EXPECT_EQ(index_.Insert({}, old, std::vector<TokenId>{3, 4}, 1), std::nullopt);
}

TEST_F(PrefixIndexTest, ANodeIsNotFoundUnderWhateverTookItsParentsPlace) {
  const PrefixNode first = Insert({}, {1, 2}, 0);
  Insert(first, {3, 4}, 1);
  Unreference(1);
  Unreference(0);
  EXPECT_EQ(Evict(), 1u);
  EXPECT_EQ(Evict(), 0u);
  Insert({}, {1, 2}, 0);
  EXPECT_THAT(Match({1, 2, 3, 4}), ElementsAre(0));
}

TEST_F(PrefixIndexTest, EvictsTheLeastRecentlyUsedLeafFirst) {
  const PrefixNode a = Insert({}, {1, 1}, 0);
  Insert(a, {2, 2}, 1);
  Insert(a, {3, 3}, 2);
  Insert({}, {4, 4}, 3);
  EXPECT_EQ(index_.num_idle(), 0u);
  Unreference(3);
  Unreference(1);
  EXPECT_EQ(index_.num_idle(), 2u);
  Unreference(0);
  EXPECT_EQ(index_.num_idle(), 2u) << "a busy child keeps its parent busy";
  Unreference(2);
  EXPECT_EQ(index_.num_idle(), 4u);
  Reference(3);  // a hit
  Unreference(3);
  EXPECT_EQ(Evict(), 1u);
  EXPECT_EQ(Evict(), 2u);
  EXPECT_EQ(Evict(), 0u);
  EXPECT_EQ(Evict(), 3u);
  EXPECT_EQ(index_.num_nodes(), 0u);
}

TEST_F(PrefixIndexTest, AReferencedChildProtectsItsAncestors) {
  const PrefixNode a = Insert({}, {1, 1}, 0);
  const PrefixNode b = Insert(a, {2, 2}, 1);
  Insert(b, {3, 3}, 2);
  Unreference(0);
  Unreference(1);
  EXPECT_EQ(index_.num_idle(), 0u);
  EXPECT_FALSE(index_.IsIdle(0));
  Unreference(2);
  EXPECT_EQ(index_.num_idle(), 3u);
  Reference(2);
  EXPECT_EQ(index_.num_idle(), 0u);
}

TEST(PrefixIndexCollisionTest, ACollisionServesNobodyElsesBlocks) {
  PrefixIndex index(8, 2, &EverythingCollides);
  const std::optional<PrefixNode> a = index.Insert({}, {}, std::vector<TokenId>{1, 2}, 0);
  const std::optional<PrefixNode> b = index.Insert({}, {}, std::vector<TokenId>{3, 4}, 1);
  const std::optional<PrefixNode> c =
      index.Insert({.salt = "salt"}, {}, std::vector<TokenId>{1, 2}, 2);
  const std::optional<PrefixNode> d = index.Insert({}, *a, std::vector<TokenId>{3, 4}, 3);
  EXPECT_EQ(a->block, 0u);
  EXPECT_EQ(b->block, 1u);
  EXPECT_EQ(c->block, 2u);
  EXPECT_EQ(d->block, 3u);
  EXPECT_THAT(index.Match({}, std::vector<TokenId>{1, 2, 3, 4}, 9).blocks, ElementsAre(0, 3));
  EXPECT_THAT(index.Match({}, std::vector<TokenId>{3, 4, 1, 2}, 9).blocks, ElementsAre(1));
  EXPECT_THAT(index.Match({.salt = "salt"}, std::vector<TokenId>{1, 2, 3, 4}, 9).blocks,
              ElementsAre(2));
  EXPECT_TRUE(index.CheckIntegrity({1, 1, 1, 1, 0, 0, 0, 0}).ok());
}

// The index against a plain map of whole texts, with a vocabulary of two.
class IndexAndMap {
 public:
  explicit IndexAndMap(PrefixIndex::HashFunction hash) : index_(kNumBlocks, 2, hash) {
    for (BlockId block = 0; block < kNumBlocks; ++block) free_.insert(block);
  }

  // Looks a random text up, remembers one more block of it, and drops a random reference.
  void Round() {
    std::vector<TokenId> text;
    for (uint32_t i = random_.Between(0, 4) * 2; i > 0; --i) text.push_back(random_.Between(0, 1));
    const PrefixMatch match = index_.Match({}, text, 100);
    for (size_t i = 0; i < match.blocks.size(); ++i) {
      const std::vector<TokenId> prefix(text.begin(), text.begin() + 2 * (i + 1));
      ASSERT_TRUE(texts_.contains(prefix));
      ASSERT_EQ(texts_[prefix], match.blocks[i]);
      ++num_hits;
    }
    const size_t next_size = 2 * (match.blocks.size() + 1);
    if (text.size() >= next_size) {
      text.resize(next_size);
      ASSERT_FALSE(texts_.contains(text));
      Remember(match, text);
    }
    const BlockId block = random_.Between(0, kNumBlocks - 1);
    if (references_[block] > 0) Unreference(block);
    const absl::Status status = index_.CheckIntegrity(references_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  uint64_t num_hits = 0;
  uint64_t num_evictions = 0;

 private:
  static constexpr uint32_t kNumBlocks = 12;

  void Remember(const PrefixMatch& parents, const std::vector<TokenId>& text) {
    for (BlockId block : parents.blocks) {
      if (references_[block]++ == 0) index_.MarkReferenced(block);
    }
    if (free_.empty() && index_.num_idle() > 0) {
      const BlockId evicted = index_.EvictOldest();
      std::erase_if(texts_, [evicted](const auto& entry) { return entry.second == evicted; });
      free_.insert(evicted);
      ++num_evictions;
    }
    if (!free_.empty()) {
      const BlockId block = *free_.begin();
      free_.erase(free_.begin());
      ++references_[block];
      ASSERT_TRUE(index_.Insert({}, parents.last, std::span(text).last(2), block).has_value());
      texts_[text] = block;
    }
    for (BlockId block : parents.blocks) Unreference(block);
  }

  void Unreference(BlockId block) {
    if (--references_[block] == 0) index_.MarkUnreferenced(block);
  }

  PrefixIndex index_;
  std::map<std::vector<TokenId>, BlockId> texts_;
  std::vector<uint32_t> references_ = std::vector<uint32_t>(kNumBlocks, 0);
  std::set<BlockId> free_;
  testing::RandomSource random_{5};
};

uint64_t FewHashes(uint64_t parent_serial, std::span<const TokenId> tokens) {
  return (parent_serial + tokens[0] * 2 + tokens[1]) % 3;
}

TEST(PrefixIndexRandomTest, AgreesWithAMapOfTexts) {
  for (const PrefixIndex::HashFunction hash : {&EverythingCollides, &FewHashes}) {
    IndexAndMap both(hash);
    for (int round = 0; round < 20000; ++round) {
      both.Round();
      ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "round " << round;
    }
    EXPECT_GT(both.num_hits, 5000u);
    EXPECT_GT(both.num_evictions, 500u);
  }
}

}  // namespace
}  // namespace lockstep::router
