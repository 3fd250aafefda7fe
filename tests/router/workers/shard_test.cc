#include "router/workers/shard.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "common/status.h"

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Workers(uint32_t count) {
  std::vector<std::string> workers;
  for (uint32_t i = 0; i < count; ++i) {
    workers.push_back(fmt::format("10.{}.{}.{}:50061", i / 65536, i / 256 % 256, i % 256));
  }
  return workers;
}

uint32_t OwnerOf(const std::string& worker, uint32_t num_routers) {
  for (uint32_t i = 0; i < num_routers; ++i) {
    if (ShardRank({.index = i, .count = num_routers}, worker) == 0) return i;
  }
  ADD_FAILURE() << worker << " has no owner";
  return num_routers;
}

TEST(ShardTest, ParsesWhatTheFlagSays) {
  EXPECT_EQ(ParseShard("")->count, 1u);
  EXPECT_EQ(ParseShard("0/1")->index, 0u);
  EXPECT_EQ(ParseShard("2/3")->index, 2u);
  EXPECT_EQ(ParseShard("127/128")->count, 128u);
  for (const char* const bad : {"1", "/", "1/", "/2", "2/2", "3/2", "-1/2", "0/0", "0/129", "0/2/3",
                                " 0/2", "0/2 ", "a/2", "0/4294967297"}) {
    const absl::Status status = ParseShard(bad).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(Message(status), HasSubstr(fmt::format("\"{}\", expected I/N", bad)));
  }
}

TEST(ShardTest, TheOnlyRouterOwnsEverything) {
  for (const std::string& worker : Workers(100)) EXPECT_EQ(ShardRank({}, worker), 0u);
}

TEST(ShardTest, EveryWorkerHasEachRouterOnceInItsOrder) {
  for (const std::string& worker : Workers(200)) {
    std::set<uint32_t> ranks;
    for (uint32_t i = 0; i < 7; ++i) ranks.insert(ShardRank({.index = i, .count = 7}, worker));
    EXPECT_THAT(ranks, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  }
}

// Within five standard deviations of an even share, for the owners and for the first stand-ins.
TEST(ShardTest, SharesAreEven) {
  constexpr uint32_t kNumWorkers = 20'000;
  for (const uint32_t num_routers : {2u, 3u, 8u, 100u}) {
    std::vector<uint32_t> owned(num_routers);
    std::vector<uint32_t> next(num_routers);
    for (const std::string& worker : Workers(kNumWorkers)) {
      for (uint32_t i = 0; i < num_routers; ++i) {
        const uint32_t rank = ShardRank({.index = i, .count = num_routers}, worker);
        owned[i] += rank == 0;
        next[i] += rank == 1;
      }
    }
    const double even = static_cast<double>(kNumWorkers) / num_routers;
    for (uint32_t i = 0; i < num_routers; ++i) {
      EXPECT_NEAR(owned[i], even, 5 * std::sqrt(even)) << i << "/" << num_routers;
      EXPECT_NEAR(next[i], even, 5 * std::sqrt(even)) << i << "/" << num_routers;
    }
  }
}

// The workers of a router that is gone do not all go to one other router.
TEST(ShardTest, OrphansSpread) {
  std::vector<uint32_t> taken(8);
  for (const std::string& worker : Workers(8000)) {
    if (OwnerOf(worker, 8) != 3) continue;
    for (uint32_t i = 0; i < 8; ++i) taken[i] += ShardRank({.index = i, .count = 8}, worker) == 1;
  }
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(taken[i], i == 3 ? 0 : 1000.0 / 7, i == 3 ? 0 : 60) << i;
  }
}

TEST(ShardTest, OneMoreRouterTakesItsShareAndNothingElseMoves) {
  constexpr uint32_t kNumWorkers = 10'000;
  for (const uint32_t before : {1u, 2u, 7u, 50u}) {
    uint32_t num_moved = 0;
    for (const std::string& worker : Workers(kNumWorkers)) {
      const uint32_t owner = OwnerOf(worker, before + 1);
      if (owner == OwnerOf(worker, before)) continue;
      EXPECT_EQ(owner, before) << worker;  // to nobody but the new one
      ++num_moved;
    }
    const double expected = static_cast<double>(kNumWorkers) / (before + 1);
    EXPECT_NEAR(num_moved, expected, 5 * std::sqrt(expected));
  }
}

// By worker.
std::vector<uint32_t> EvenOwners(const std::vector<std::string>& workers, uint32_t num_routers) {
  std::vector<uint32_t> owners(workers.size(), num_routers);
  for (uint32_t i = 0; i < num_routers; ++i) {
    const std::vector<uint32_t> ranks = EvenShardRanks({.index = i, .count = num_routers}, workers);
    for (size_t worker = 0; worker < workers.size(); ++worker) {
      if (ranks[worker] != 0) continue;
      EXPECT_EQ(owners[worker], num_routers) << workers[worker] << " has two owners";
      owners[worker] = i;
    }
  }
  EXPECT_EQ(std::ranges::count(owners, num_routers), 0);
  return owners;
}

TEST(EvenShardsTest, NoRouterOwnsMoreThanOneMoreThanAnother) {
  for (const uint32_t num_workers : {0u, 1u, 2u, 3u, 7u, 8u, 64u, 100u}) {
    const std::vector<std::string> workers = Workers(num_workers);
    for (const uint32_t num_routers : {1u, 2u, 3u, 8u, 16u}) {
      std::vector<uint32_t> owned(num_routers);
      for (const uint32_t owner : EvenOwners(workers, num_routers)) ++owned[owner];
      EXPECT_LE(std::ranges::max(owned) - std::ranges::min(owned), 1u);
    }
  }
}

TEST(EvenShardsTest, EveryWorkerHasEachRouterOnceInItsOrder) {
  const std::vector<std::string> workers = Workers(30);
  std::vector<std::set<uint32_t>> ranks(workers.size());
  for (uint32_t i = 0; i < 5; ++i) {
    const std::vector<uint32_t> mine = EvenShardRanks({.index = i, .count = 5}, workers);
    for (size_t worker = 0; worker < workers.size(); ++worker) ranks[worker].insert(mine[worker]);
  }
  for (const std::set<uint32_t>& all : ranks) EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 4));
}

TEST(EvenShardsTest, TheOrderOfTheListDoesNotMatter) {
  std::vector<std::string> workers = Workers(21);
  const std::vector<uint32_t> owners = EvenOwners(workers, 4);
  std::ranges::reverse(workers);
  std::vector<uint32_t> reversed = EvenOwners(workers, 4);
  std::ranges::reverse(reversed);
  EXPECT_EQ(reversed, owners);
}

TEST(EvenShardsTest, OneMoreRouterMovesLittleMoreThanItsShare) {
  for (const uint32_t num_workers : {32u, 256u}) {
    const std::vector<std::string> workers = Workers(num_workers);
    for (const uint32_t before : {1u, 2u, 3u, 7u}) {
      const std::vector<uint32_t> old_owners = EvenOwners(workers, before);
      const std::vector<uint32_t> owners = EvenOwners(workers, before + 1);
      uint32_t num_moved = 0;
      for (uint32_t i = 0; i < num_workers; ++i) num_moved += owners[i] != old_owners[i];
      EXPECT_GE(num_moved, num_workers / (before + 1));
      EXPECT_LE(num_moved, 1.5 * num_workers / (before + 1) + 1) << num_workers << " " << before;
    }
  }
}

// Routers of different builds share workers, so these never change.
TEST(ShardTest, GoldenOrder) {
  const auto order = [](const std::string& worker) {
    std::vector<uint32_t> ranks;
    for (uint32_t i = 0; i < 4; ++i) ranks.push_back(ShardRank({.index = i, .count = 4}, worker));
    return ranks;
  };
  EXPECT_THAT(order("10.0.0.1:50061"), ElementsAre(3, 1, 0, 2));
  EXPECT_THAT(order("10.0.0.2:50061"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(order("[fd00::1]:50061"), ElementsAre(2, 0, 3, 1));
  EXPECT_THAT(order("unix:/run/lockstep/worker-0"), ElementsAre(1, 0, 2, 3));
  EXPECT_THAT(EvenOwners(Workers(10), 4), ElementsAre(0, 2, 0, 1, 0, 1, 2, 3, 2, 3));
  uint64_t all = 0;
  for (const std::string& worker : Workers(1000)) {
    for (uint32_t i = 0; i < 5; ++i) {
      all = all * 31 + ShardRank({.index = i, .count = 5}, worker);
    }
  }
  EXPECT_EQ(all, 1028844005858229298u);
}

}  // namespace
}  // namespace lockstep::router
