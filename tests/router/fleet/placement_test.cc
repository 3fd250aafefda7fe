#include "router/fleet/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "common/status.h"
#include "tests/router/core/properties/random_source.h"

namespace lockstep::router::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

ReplicaLoad Idle() { return {.eligible = true, .available_blocks = 1000, .free_blocks = 1000}; }

std::vector<ReplicaLoad> IdleReplicas(size_t count) { return std::vector(count, Idle()); }

PlacementRequest Prompt(RequestKey key, uint32_t num_tokens) {
  return {.key = key, .num_known_tokens = num_tokens};
}

TEST(PlacementTest, APrefixWinsOverLoadThatIsLittleMoreThanItSaves) {
  Placement placement({});
  std::vector<ReplicaLoad> replicas = IdleReplicas(3);
  replicas[1].cached_tokens = 800;
  replicas[1].queued_tokens = 1199;
  EXPECT_EQ(placement.Choose(Prompt(1, 1000), replicas), 1u);
  replicas[1].queued_tokens = 1201;
  EXPECT_NE(placement.Choose(Prompt(1, 1000), replicas), 1u);
}

TEST(PlacementTest, ASessionStaysWhereItIs) {
  Placement placement({});
  std::map<uint32_t, int> homes;
  for (uint64_t session = 1; session <= 200; ++session) {
    PlacementRequest request = Prompt(session, 100);
    request.session = session * 0x9E3779B97F4A7C15u;
    const std::optional<uint32_t> home = placement.Choose(request, IdleReplicas(4));
    ++homes[*home];
    for (request.key = 1000; request.key < 1010; ++request.key) {
      ASSERT_EQ(placement.Choose(request, IdleReplicas(4)), home);
    }
  }
  ASSERT_EQ(homes.size(), 4u);
  for (const auto& [home, count] : homes) EXPECT_GE(count, 30) << home;
}

TEST(PlacementTest, ASessionLosesToLoad) {
  Placement placement({.session_affinity_tokens = 512});
  std::vector<ReplicaLoad> replicas = IdleReplicas(4);
  PlacementRequest request = Prompt(1, 100);
  request.session = 77;
  const uint32_t home = *placement.Choose(request, replicas);
  replicas[home].queued_tokens = 512;
  EXPECT_EQ(placement.Choose(request, replicas), home);
  replicas[home].queued_tokens = 513;
  EXPECT_NE(placement.Choose(request, replicas), home);
}

TEST(PlacementTest, ASessionLosesToALongPrefixElsewhere) {
  Placement placement({});
  std::vector<ReplicaLoad> replicas = IdleReplicas(4);
  PlacementRequest request = Prompt(1, 4000);
  request.session = 77;
  const uint32_t home = *placement.Choose(request, replicas);
  const uint32_t other = (home + 1) % 4;
  replicas[other].cached_tokens = 3200;
  EXPECT_EQ(placement.Choose(request, replicas), other);
}

TEST(PlacementTest, ASessionMovesWhenItsReplicaLeavesAndOthersStay) {
  Placement placement({});
  std::vector<ReplicaLoad> replicas = IdleReplicas(4);
  replicas[2].eligible = false;
  for (uint64_t session = 1; session <= 100; ++session) {
    PlacementRequest request = Prompt(session, 100);
    request.session = session * 0x9E3779B97F4A7C15u;
    const uint32_t home = *placement.Choose(request, IdleReplicas(4));
    const uint32_t now = *placement.Choose(request, replicas);
    EXPECT_NE(now, 2u);
    if (home != 2) {
      EXPECT_EQ(now, home);
    }
  }
}

TEST(PlacementTest, TheLongestPrefixWinsAmongEquals) {
  Placement placement({});
  std::vector<ReplicaLoad> replicas = IdleReplicas(4);
  for (uint32_t i = 0; i < 4; ++i) replicas[i].cached_tokens = i == 2 ? 640 : 16 * i;
  for (RequestKey key = 0; key < 20; ++key) {
    EXPECT_EQ(placement.Choose(Prompt(key, 1000), replicas), 2u);
  }
}

TEST(PlacementTest, AHotPrefixDoesNotMeltItsReplica) {
  Placement placement({.max_imbalance = 1.25, .imbalance_slack_tokens = 0});
  std::vector<ReplicaLoad> replicas = IdleReplicas(4);
  for (ReplicaLoad& replica : replicas) replica.queued_tokens = 10'000;
  replicas[3].cached_tokens = 100'000;
  EXPECT_EQ(placement.Choose(Prompt(1, 100'001), replicas), 3u);
  replicas[3].queued_tokens = 14'000;  // the mean is 11,000
  EXPECT_NE(placement.Choose(Prompt(1, 100'001), replicas), 3u);
}

TEST(PlacementTest, WhatDoesNotFitTheFreeBlocksCosts) {
  Placement placement({});
  std::vector<ReplicaLoad> replicas = IdleReplicas(2);
  replicas[0].available_blocks = 10;  // of 16 tokens
  replicas[1].queued_tokens = 300;
  EXPECT_EQ(placement.Choose(Prompt(1, 1000), replicas), 1u);
  EXPECT_EQ(placement.Choose(Prompt(1, 100), replicas), 0u);
}

TEST(PlacementTest, NewPrefixesGoWhereTheyEvictLeast) {
  Placement placement({});
  std::vector<ReplicaLoad> replicas = IdleReplicas(3);
  replicas[0].free_blocks = 10;
  replicas[2].free_blocks = 20;
  replicas[1].free_blocks = 30;
  EXPECT_EQ(placement.Choose(Prompt(1, 100), replicas), 1u);
}

TEST(PlacementTest, EqualsAreChosenByLotEvenly) {
  Placement placement({.seed = 7});
  std::vector<int> counts(4);
  for (RequestKey key = 0; key < 4000; ++key) {
    ++counts[*placement.Choose(Prompt(key, 10), IdleReplicas(4))];
  }
  EXPECT_THAT(counts, Each(::testing::AllOf(::testing::Ge(850), ::testing::Le(1150))));
}

TEST(PlacementTest, RoundRobinTakesTurnsAndSkipsWhatIsNotEligible) {
  Placement placement({.policy = PlacementPolicy::kRoundRobin});
  std::vector<ReplicaLoad> replicas = IdleReplicas(4);
  replicas[1].eligible = false;
  replicas[2].queued_tokens = 1'000'000;
  std::vector<uint32_t> chosen;
  for (RequestKey key = 0; key < 5; ++key) {
    chosen.push_back(*placement.Choose(Prompt(key, 10), replicas));
  }
  EXPECT_THAT(chosen, ::testing::ElementsAre(0, 2, 3, 0, 2));
}

TEST(PlacementTest, LeastLoadedLooksAtNothingElse) {
  Placement placement({.policy = PlacementPolicy::kLeastLoaded});
  std::vector<ReplicaLoad> replicas = IdleReplicas(3);
  replicas[0] = {.eligible = true, .queued_tokens = 500, .cached_tokens = 1000};
  replicas[1] = {.eligible = true, .num_sequences = 4};
  replicas[2] = {.eligible = true, .num_sequences = 3, .available_blocks = 0};
  EXPECT_EQ(placement.Choose(Prompt(1, 1000), replicas), 2u);
}

TEST(PlacementTest, SuspectsGoToOneReplicaWhileItIsThere) {
  Placement placement({});
  std::vector<ReplicaLoad> replicas = IdleReplicas(8);
  PlacementRequest suspect = {.key = 1, .num_known_tokens = 100, .suspect = true};
  const uint32_t first = *placement.Choose(suspect, replicas);
  for (RequestKey key = 2; key < 30; ++key) {
    suspect.key = key;
    replicas[first].num_sequences += 10;
    EXPECT_EQ(placement.Choose(suspect, replicas), first);
  }
  replicas[first].eligible = false;
  const uint32_t second = *placement.Choose(suspect, replicas);
  EXPECT_NE(second, first);
  replicas[first].eligible = true;
  EXPECT_EQ(placement.Choose(suspect, replicas), second);
}

TEST(PlacementTest, NobodyIsChosenWhenNobodyIsEligible) {
  std::vector<ReplicaLoad> replicas = IdleReplicas(3);
  for (ReplicaLoad& replica : replicas) replica.eligible = false;
  for (const auto policy : {PlacementPolicy::kPrefixAware, PlacementPolicy::kLeastLoaded,
                            PlacementPolicy::kRoundRobin}) {
    Placement placement({.policy = policy});
    EXPECT_EQ(placement.Choose(Prompt(1, 10), replicas), std::nullopt);
    EXPECT_EQ(placement.Choose({.key = 1, .num_known_tokens = 1, .suspect = true}, replicas),
              std::nullopt);
    EXPECT_EQ(placement.Choose(Prompt(1, 10), {}), std::nullopt);
  }
}

TEST(PlacementTest, LimitsOfTheConfigurationAreNamed) {
  EXPECT_TRUE(PlacementConfig().Validate().ok());
  const PlacementConfig bad = {.max_imbalance = 0.9, .sequence_tokens = 1u << 21};
  EXPECT_THAT(Message(bad.Validate()), HasSubstr("max_imbalance"));
  EXPECT_THAT(Message(bad.Validate()), HasSubstr("sequence_tokens"));
  EXPECT_EQ(ParsePlacementPolicy("least-loaded"), PlacementPolicy::kLeastLoaded);
  EXPECT_EQ(ParsePlacementPolicy("Prefix"), std::nullopt);
}

// --- properties over random fleets ---

ReplicaLoad RandomLoad(RandomSource& random) {
  return {.eligible = !random.OneIn(4),
          .queued_tokens = random.OneIn(3) ? 0 : random.Between(0, 50'000),
          .num_sequences = random.Between(0, 300),
          .available_blocks = random.Between(0, 2000),
          .free_blocks = random.Between(0, 100),
          .cached_tokens = random.OneIn(2) ? 0 : 16 * random.Between(0, 400)};
}

class PlacementPropertyTest : public ::testing::TestWithParam<PlacementPolicy> {};

TEST_P(PlacementPropertyTest, TheChoiceIsEligibleReproducibleAndWithinTheBounds) {
  const PlacementConfig config = {.policy = GetParam(), .max_imbalance = 1.5, .seed = 3};
  Placement placement(config);
  Placement twin(config);
  RandomSource random(11);
  int num_chosen = 0;
  int num_for_prefix = 0;
  for (RequestKey key = 0; key < 20'000; ++key) {
    std::vector<ReplicaLoad> replicas(random.Between(1, 12));
    for (ReplicaLoad& replica : replicas) replica = RandomLoad(random);
    const PlacementRequest request = {
        .key = key, .num_known_tokens = random.Between(1, 8000), .suspect = random.OneIn(50)};
    const std::optional<uint32_t> chosen = placement.Choose(request, replicas);
    ASSERT_EQ(twin.Choose(request, replicas), chosen);
    const bool any = std::ranges::any_of(replicas, &ReplicaLoad::eligible);
    ASSERT_EQ(chosen.has_value(), any);
    if (!any) continue;
    ASSERT_TRUE(replicas.at(*chosen).eligible);
    ++num_chosen;
    if (GetParam() != PlacementPolicy::kPrefixAware || request.suspect) continue;
    uint64_t sum = 0;
    uint64_t least = UINT64_MAX;
    uint64_t count = 0;
    for (const ReplicaLoad& replica : replicas) {
      if (!replica.eligible) continue;
      sum += placement.LoadOf(replica);
      least = std::min(least, placement.LoadOf(replica));
      ++count;
    }
    const uint64_t load = placement.LoadOf(replicas[*chosen]);
    ASSERT_LE(load, 1.5 * static_cast<double>(sum) / static_cast<double>(count) +
                        config.imbalance_slack_tokens + 1);
    // Somebody busier than the least busy one is only chosen for what it saves there.
    const uint64_t cached = std::min(replicas[*chosen].cached_tokens, request.num_known_tokens);
    const double most_saved = Placement::kComputeWeight * static_cast<double>(cached) +
                              request.num_known_tokens;  // blocks that are not free
    ASSERT_LE(static_cast<double>(load), static_cast<double>(least) + most_saved + 1);
    num_for_prefix += cached > 0;
  }
  EXPECT_GT(num_chosen, 15'000);
  EXPECT_GE(num_for_prefix, GetParam() == PlacementPolicy::kPrefixAware ? 3'000 : 0);
}

INSTANTIATE_TEST_SUITE_P(All, PlacementPropertyTest,
                         ::testing::Values(PlacementPolicy::kPrefixAware,
                                           PlacementPolicy::kLeastLoaded,
                                           PlacementPolicy::kRoundRobin));

// A stream of requests of which nine in ten share one prefix, against replicas that work their
// queues off evenly.
TEST(PlacementTest, UnderAHotPrefixLoadsStayTogether) {
  Placement placement({});
  RandomSource random(5);
  std::vector<ReplicaLoad> replicas = IdleReplicas(8);
  std::map<uint32_t, uint64_t> placed_tokens;
  std::vector<bool> has_hot(8);
  for (RequestKey key = 0; key < 8000; ++key) {
    const bool hot = !random.OneIn(10);
    for (uint32_t i = 0; i < 8; ++i) {
      replicas[i].cached_tokens = hot && has_hot[i] ? 1600 : 0;
      replicas[i].queued_tokens -= std::min<uint64_t>(replicas[i].queued_tokens, 90);
    }
    const uint32_t chosen = *placement.Choose(Prompt(key, 2000), replicas);
    const uint64_t to_compute = 2000 - replicas[chosen].cached_tokens;
    replicas[chosen].queued_tokens += to_compute;
    placed_tokens[chosen] += to_compute;
    if (hot) has_hot[chosen] = true;
  }
  uint64_t most = 0;
  uint64_t sum = 0;
  for (const auto& [replica, tokens] : placed_tokens) {
    most = std::max(most, tokens);
    sum += tokens;
  }
  ASSERT_EQ(placed_tokens.size(), 8u);
  EXPECT_LE(static_cast<double>(most), 1.3 * static_cast<double>(sum) / 8);
}

}  // namespace
}  // namespace lockstep::router::testing
