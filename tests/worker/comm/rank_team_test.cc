#include "worker/comm/rank_team.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <set>
#include <thread>
#include <vector>

namespace lockstep::worker {
namespace {

constexpr std::chrono::seconds kManySeconds{60};

void LetOthersFallAsleep() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
  while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

class RankTeamTest : public ::testing::TestWithParam<int> {};

TEST_P(RankTeamTest, EveryRankRunsOnceOnItsOwnThread) {
  const int num_ranks = GetParam();
  RankTeam team(num_ranks);
  std::vector<std::set<std::thread::id>> threads(static_cast<size_t>(num_ranks));
  std::vector<int> num_runs(static_cast<size_t>(num_ranks), 0);
  constexpr int kRuns = 2'000;
  for (int run = 0; run < kRuns; ++run) {
    team.Run(
        [&](int rank) {
          threads[static_cast<size_t>(rank)].insert(std::this_thread::get_id());
          ++num_runs[static_cast<size_t>(rank)];
        },
        kManySeconds);
    if (run % 400 == 0) LetOthersFallAsleep();
  }
  for (const int count : num_runs) EXPECT_EQ(count, kRuns);
  std::set<std::thread::id> all;
  for (const std::set<std::thread::id>& of_rank : threads) {
    EXPECT_EQ(of_rank.size(), 1u);
    all.insert(of_rank.begin(), of_rank.end());
  }
  EXPECT_EQ(all.size(), static_cast<size_t>(num_ranks));
  EXPECT_EQ(*threads[0].begin(), std::this_thread::get_id());
}

// Ranks on GPUs of their own wait for each other's launches.
TEST_P(RankTeamTest, RanksMayWaitForEachOther) {
  const int num_ranks = GetParam();
  RankTeam team(num_ranks);
  for (int run = 0; run < 50; ++run) {
    std::atomic<int> num_here{0};
    team.Run(
        [&](int) {
          num_here.fetch_add(1);
          while (num_here.load() < num_ranks) std::this_thread::yield();
        },
        kManySeconds);
    EXPECT_EQ(num_here.load(), num_ranks);
  }
}

TEST_P(RankTeamTest, RanksThatTakeTurnsAreNeverInABodyTogether) {
  const int num_ranks = GetParam();
  RankTeam team(num_ranks, /*takes_turns=*/true);
  std::atomic<int> num_here{0};
  std::atomic<int> num_calls{0};
  for (int run = 0; run < 50; ++run) {
    team.Run(
        [&](int) {
          EXPECT_EQ(num_here.fetch_add(1), 0);
          std::this_thread::yield();
          num_here.fetch_sub(1);
          num_calls.fetch_add(1);
        },
        kManySeconds);
  }
  EXPECT_EQ(num_calls.load(), 50 * num_ranks);
}

INSTANTIATE_TEST_SUITE_P(Degrees, RankTeamTest, ::testing::Values(1, 2, 4));

TEST(RankTeamDeathTest, ARankThatDoesNotComeBackEndsTheProcessWithinFiveSeconds) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_DEATH(
      {
        RankTeam team(3);
        team.Run(
            [](int rank) {
              if (rank == 2) std::promise<void>().get_future().wait();
            },
            std::chrono::milliseconds(50));
      },
      "rank 2 has not come back within 50 ms");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

}  // namespace
}  // namespace lockstep::worker
