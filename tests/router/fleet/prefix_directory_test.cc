#include "router/fleet/prefix_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "common/runtime/named_thread.h"
#include "router/core/kv/kv_cache.h"
#include "tests/router/core/properties/random_source.h"

namespace lockstep::router {
namespace {

using ::lockstep::router::testing::RandomSource;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr uint32_t kBlockSize = 4;

KvGroups OneGroup(uint32_t num_blocks) {
  return {{.block_size_tokens = kBlockSize, .num_blocks = num_blocks}};
}

// And a window of 6 tokens, which needs two blocks.
KvGroups GroupsWithWindow(uint32_t num_blocks, uint32_t num_window_blocks) {
  return {{.block_size_tokens = kBlockSize, .num_blocks = num_blocks},
          {.block_size_tokens = kBlockSize,
           .num_blocks = num_window_blocks,
           .retention = Retention::kWindow,
           .window_tokens = 6}};
}

// A replica's cache as its scheduler drives it: sequences come, are published, and go.
class CachedReplica {
 public:
  explicit CachedReplica(uint32_t num_blocks) : CachedReplica(OneGroup(num_blocks)) {}
  explicit CachedReplica(const KvGroups& groups) : groups_(groups) { Renew(); }

  PrefixChanges& changes() { return changes_; }
  KvCache& cache() { return *cache_; }

  // Another lease: everything is forgotten.
  void Renew() { cache_ = std::make_unique<KvCache>(groups_, &changes_); }

  // Runs a sequence of these tokens, if it fits, and keeps what the cache makes of it.
  void Run(const std::string& salt, const std::vector<TokenId>& tokens) {
    const KvProbe probe =
        cache_->Probe({.salt = salt}, tokens, static_cast<uint32_t>(tokens.size()) - 1);
    if (!cache_->Has(probe.Needed(0))) return;
    BlockTable table = cache_->Take(probe);
    PublishedPrefix published = {.num_blocks = static_cast<uint32_t>(probe.hit.blocks.size()),
                                 .last = probe.hit.last};
    // In chunks of a block, so that blocks fall behind the window.
    for (uint32_t end = published.num_blocks; end <= tokens.size() / kBlockSize; ++end) {
      if (cache_->MostCovered(table) < end) break;
      cache_->GrowTo(table, end);
      cache_->Publish(table, {.salt = salt}, std::span(tokens).first(size_t{end} * kBlockSize),
                      published);
      cache_->DropBehind(table, end * kBlockSize);
    }
  }

  uint32_t CachedTokens(const std::string& salt, const std::vector<TokenId>& tokens) const {
    const KvProbe probe =
        cache_->Probe({.salt = salt}, tokens, static_cast<uint32_t>(tokens.size()));
    return static_cast<uint32_t>(probe.hit.blocks.size()) * kBlockSize;
  }

 private:
  const KvGroups groups_;
  PrefixChanges changes_;
  std::unique_ptr<KvCache> cache_;
};

std::vector<uint32_t> Match(const PrefixDirectory& directory, const std::string& salt,
                            const std::vector<TokenId>& tokens, size_t num_replicas,
                            const KvGroups& groups = OneGroup(1)) {
  std::vector<uint32_t> lengths(num_replicas, 77);
  directory.Match({.salt = salt}, groups, tokens, lengths);
  return lengths;
}

TEST(PrefixDirectoryTest, KnowsHowMuchEachReplicaHolds) {
  PrefixDirectory directory(3);
  CachedReplica first(16);
  CachedReplica second(16);
  first.Run("", {1, 2, 3, 4, 5, 6, 7, 8, 9});
  second.Run("", {1, 2, 3, 4, 6});
  EXPECT_TRUE(directory.TryTell(0, first.changes()));
  EXPECT_TRUE(directory.TryTell(2, second.changes()));
  const std::vector<TokenId> prompt = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4};
  EXPECT_THAT(Match(directory, "", prompt, 3), ElementsAre(8, 0, 4));
  EXPECT_THAT(Match(directory, "other", prompt, 3), Each(0));
  EXPECT_THAT(Match(directory, "", {1, 2, 3}, 3), Each(0));
  EXPECT_THAT(Match(directory, "", {}, 3), Each(0));
  std::vector<uint32_t> lengths(3);
  directory.Match({}, KvGroups{{.block_size_tokens = 2 * kBlockSize}}, prompt, lengths);
  EXPECT_THAT(lengths, Each(0)) << "blocks of another size are other prefixes";
  EXPECT_EQ(directory.num_prefixes(), 2u);
}

TEST(PrefixDirectoryTest, ALeaseThatEndsIsForgotten) {
  PrefixDirectory directory(2);
  CachedReplica replica(16);
  replica.Run("", {1, 2, 3, 4, 5});
  EXPECT_TRUE(directory.TryTell(1, replica.changes()));
  replica.Renew();
  EXPECT_TRUE(directory.TryTell(1, replica.changes()));
  EXPECT_EQ(directory.num_prefixes(), 0u);
}

TEST(PrefixDirectoryTest, WhatWasLearnedAndForgottenMeanwhileIsNeverTold) {
  CachedReplica replica(16);
  replica.Run("", {1, 2, 3, 4, 5});
  replica.Renew();
  EXPECT_TRUE(replica.changes().empty());
}

TEST(PrefixDirectoryTest, ManyChangesAreTakenBitByBit) {
  PrefixDirectory directory(1);
  PrefixChanges changes;
  for (uint64_t prefix = 0; prefix < 5000; ++prefix) changes.Learn(prefix);
  int num_calls = 1;
  while (!directory.TryTell(0, changes)) ++num_calls;
  EXPECT_EQ(num_calls, 5);
  EXPECT_EQ(directory.num_prefixes(), 5000u);
}

// The first group holds all five blocks of the text. A hit needs the last two blocks before its end
// in the window group, too.
TEST(PrefixDirectoryTest, AHitIsWhatEveryGroupCanServe) {
  const KvGroups groups = GroupsWithWindow(64, 8);
  const auto text = [](TokenId first) {
    std::vector<TokenId> tokens(5 * kBlockSize + 1);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
  };
  PrefixDirectory directory(1);
  CachedReplica replica(groups);
  const auto length = [&](const std::vector<TokenId>& tokens) {
    EXPECT_TRUE(directory.TryTell(0, replica.changes()));
    EXPECT_EQ(Match(directory, "", tokens, 1, OneGroup(1)).front(), 5 * kBlockSize);
    const uint32_t found = Match(directory, "", tokens, 1, groups).front();
    EXPECT_EQ(found, replica.CachedTokens("", tokens));
    return found;
  };
  replica.Run("", text(1));
  EXPECT_EQ(length(text(1)), 5 * kBlockSize);
  // Texts take blocks behind windows first. The third one takes an end, and leaves nothing of the
  // first text that has a whole window.
  replica.Run("", text(100));
  EXPECT_EQ(length(text(1)), 5 * kBlockSize);
  replica.Run("", text(200));
  replica.Run("", text(300));
  EXPECT_EQ(length(text(1)), 0u);
  EXPECT_EQ(length(text(300)), 5 * kBlockSize);
  replica.Renew();
  EXPECT_TRUE(directory.TryTell(0, replica.changes()));
  EXPECT_EQ(directory.num_prefixes(), 0u) << "of both groups";
}

// Against the indexes of 70 replicas (more than a word of bits) over a tiny vocabulary, where
// prefixes are shared, evicted and learned again all the time.
void CheckAgreement(const KvGroups& groups) {
  constexpr uint32_t kReplicas = 70;
  PrefixDirectory directory(kReplicas);
  std::vector<std::unique_ptr<CachedReplica>> replicas;
  RandomSource random(17);
  for (uint32_t i = 0; i < kReplicas; ++i) {
    KvGroups of_replica = groups;
    of_replica[0].num_blocks = random.Between(2, 12);
    replicas.push_back(std::make_unique<CachedReplica>(of_replica));
  }
  const auto random_text = [&random] {
    std::vector<TokenId> text(random.Between(1, 5 * kBlockSize));
    for (TokenId& token : text) token = random.OneIn(6) ? 1 : 0;
    return text;
  };
  const std::vector<std::string> salts = {"", "a", "b"};
  uint64_t num_hits = 0;
  uint64_t num_shorter = 0;
  for (int round = 0; round < 20'000; ++round) {
    const uint32_t changed = random.Between(0, kReplicas - 1);
    CachedReplica& replica = *replicas[changed];
    if (random.OneIn(100)) {
      replica.Renew();
    } else {
      replica.Run(salts[random.Between(0, 2)], random_text());
    }
    // Told late, and in other orders than it happened, but completely.
    if (!random.OneIn(3)) continue;
    for (uint32_t i = 0; i < kReplicas; ++i) {
      ASSERT_TRUE(directory.TryTell(i, replicas[i]->changes()));
    }
    const std::string& salt = salts[random.Between(0, 2)];
    const std::vector<TokenId> text = random_text();
    const std::vector<uint32_t> lengths = Match(directory, salt, text, kReplicas, groups);
    const std::vector<uint32_t> in_first = Match(directory, salt, text, kReplicas);
    for (uint32_t i = 0; i < kReplicas; ++i) {
      ASSERT_EQ(lengths[i], replicas[i]->CachedTokens(salt, text)) << "replica " << i;
      num_hits += lengths[i] > 0;
      num_shorter += lengths[i] < in_first[i];
    }
  }
  EXPECT_GT(num_hits, 10'000u);
  if (groups.size() > 1) {
    EXPECT_GT(num_shorter, 1'000u);
  }
  uint64_t num_nodes = 0;
  for (const auto& replica : replicas) num_nodes += replica->cache().num_index_nodes();
  EXPECT_LE(directory.num_prefixes(), groups.size() * num_nodes);
}

TEST(PrefixDirectoryPropertyTest, AgreesWithEveryReplicasOwnIndex) { CheckAgreement(OneGroup(1)); }

TEST(PrefixDirectoryPropertyTest, AgreesWithEveryReplicasOwnIndexInTwoGroups) {
  CheckAgreement(GroupsWithWindow(1, 6));
}

TEST(PrefixDirectoryTest, LoopsAndReadersDoNotWaitForEachOther) {
  constexpr uint32_t kLoops = 3;
  PrefixDirectory directory(kLoops);
  const std::vector<TokenId> shared(8 * kBlockSize, 5);
  std::atomic<bool> done = false;
  {
    std::vector<NamedThread> readers;
    for (int i = 0; i < 2; ++i) {
      readers.emplace_back("reader", [&] {
        while (!done.load()) {
          for (const uint32_t length : Match(directory, "", shared, kLoops)) {
            EXPECT_LE(length, shared.size());
          }
        }
      });
    }
    std::vector<NamedThread> loops;
    for (uint32_t i = 0; i < kLoops; ++i) {
      loops.emplace_back("loop", [&directory, &shared, i] {
        CachedReplica replica(32);
        for (int round = 0; round < 300; ++round) {
          replica.Run("", shared);
          directory.TryTell(i, replica.changes());
          if (round % 7 == 6) replica.Renew();
        }
        replica.Run("", shared);
        while (!directory.TryTell(i, replica.changes())) {
        }
      });
    }
    loops.clear();
    done.store(true);
  }
  EXPECT_THAT(Match(directory, "", shared, kLoops), Each(shared.size()));
}

}  // namespace
}  // namespace lockstep::router
