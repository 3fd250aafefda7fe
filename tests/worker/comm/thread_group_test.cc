#include "worker/comm/thread_group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/runtime/named_thread.h"

namespace lockstep::worker {
namespace {

using kernels::BFloat16;

constexpr std::chrono::seconds kLong{60};

// Runs body(rank) on a thread for each rank.
void RunRanks(int degree, const std::function<void(int)>& body) {
  std::vector<NamedThread> threads;
  for (int rank = 0; rank < degree; ++rank) {
    threads.emplace_back("rank", [&body, rank] { body(rank); });
  }
}

struct Shape {
  int64_t num_rows;
  int64_t columns_of_rank;
};

// What element (row, column) of the matrix of exchange `round` holds: other bits each time.
BFloat16 Value(uint64_t round, int64_t row, int64_t column) {
  const uint64_t index = static_cast<uint64_t>(row * 4099 + column);
  return {.bits = static_cast<uint16_t>((round * 0x9E3779B97F4A7C15u + index * 40503u) >> 7)};
}

// A thread that is now and then late, sometimes by so much that the others fall asleep.
class Delays {
 public:
  explicit Delays(uint32_t seed) : random_(seed) {}
  void Maybe() {
    const uint32_t draw = random_() % 1000;
    if (draw < 4) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
      while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    }
    if (draw % 20 != 0) return;
    for (uint32_t turns = random_() % 10; turns > 0; --turns) std::this_thread::yield();
  }

 private:
  std::mt19937 random_;
};

class ThreadGroupTest : public ::testing::TestWithParam<int> {};

TEST_P(ThreadGroupTest, EveryRankHasTheColumnsOfAllHoweverLateTheyCome) {
  const int degree = GetParam();
  constexpr uint64_t kRounds = 1'500;  // each costs time slices where others are busy
  constexpr std::array<Shape, 3> kShapes = {Shape{1, 8}, Shape{3, 5}, Shape{2, 33}};
  ThreadGroup group(degree, kLong);
  // Of every rank, and there until all are done: others read them after the last call, too.
  std::vector<std::array<std::vector<BFloat16>, 2>> columns(static_cast<size_t>(degree));
  std::vector<uint64_t> num_wrong(static_cast<size_t>(degree), 0);
  RunRanks(degree, [&](int rank) {
    Delays delays(static_cast<uint32_t>(rank));
    std::vector<BFloat16> output;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const auto [num_rows, share] = kShapes[round % kShapes.size()];
      const int64_t num_columns = share * degree;
      std::vector<BFloat16>& mine = columns[static_cast<size_t>(rank)][round % 2];
      mine.resize(2 * 33 * 4);  // the same memory for every shape
      for (int64_t row = 0; row < num_rows; ++row) {
        for (int64_t i = 0; i < share; ++i) {
          mine[static_cast<size_t>(row * share + i)] = Value(round, row, rank * share + i);
        }
      }
      output.assign(static_cast<size_t>(num_rows * num_columns), BFloat16{.bits = 0xFFFF});
      delays.Maybe();
      group.AllGather(rank, {.columns = mine.data(),
                             .output = output.data(),
                             .num_rows = num_rows,
                             .num_columns = num_columns});
      for (int64_t row = 0; row < num_rows; ++row) {
        for (int64_t column = 0; column < num_columns; ++column) {
          const BFloat16 got = output[static_cast<size_t>(row * num_columns + column)];
          num_wrong[static_cast<size_t>(rank)] += got.bits != Value(round, row, column).bits;
        }
      }
    }
  });
  for (const uint64_t count : num_wrong) EXPECT_EQ(count, 0u);
}

INSTANTIATE_TEST_SUITE_P(Degrees, ThreadGroupTest, ::testing::Values(1, 2, 3, 4));

// The rest of the group cannot know what the lost rank would have sent.
TEST(ThreadGroupDeathTest, ARankThatHangsEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const BFloat16 columns[2] = {};
  BFloat16 output[4] = {};
  EXPECT_DEATH(
      {
        ThreadGroup group(2, std::chrono::milliseconds(50));
        group.AllGather(0, {.columns = columns, .output = output, .num_rows = 1, .num_columns = 4});
      },
      "rank 0 has waited 50 ms for rank 1 in exchange 0");
}

TEST(ThreadGroupDeathTest, RanksThatDisagreeEndTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        ThreadGroup group(2, kLong);
        RunRanks(2, [&](int rank) {
          const std::vector<BFloat16> columns(8);
          std::vector<BFloat16> output(16);
          group.AllGather(rank, {.columns = columns.data(),
                                 .output = output.data(),
                                 .num_rows = rank + 1,
                                 .num_columns = 4});
        });
      },
      "rank . has \\[., 4\\], rank . has \\[., 4\\]");
}

// Without turns a fast rank would overwrite what a slow one still reads.
TEST(ThreadGroupDeathTest, ColumnsThatDoNotTakeTurnsEndTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const BFloat16 columns[2] = {};
  BFloat16 output[2] = {};
  const AllGatherParams params = {
      .columns = columns, .output = output, .num_rows = 1, .num_columns = 2};
  EXPECT_DEATH(
      {
        ThreadGroup group(1, kLong);
        group.AllGather(0, params);
        group.AllGather(0, params);
      },
      "columns of call 1 lie where those of the call before lie");
}

}  // namespace
}  // namespace lockstep::worker
