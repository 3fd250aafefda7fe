#include "kernels/attention/decode_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace lockstep::kernels {
namespace {

using ::testing::Each;
using ::testing::Eq;

// Rows of these many keys, dealt out to `num_runs` blocks.
class DecodeRunsTest : public ::testing::Test {
 protected:
  void SetRows(const std::vector<int>& num_keys) {
    first_tiles_ = {0};
    for (const int keys : num_keys) {
      first_tiles_.push_back(first_tiles_.back() +
                             (keys + static_cast<int>(kKeyTile) - 1) / static_cast<int>(kKeyTile));
    }
  }
  int NumRows() const { return static_cast<int>(first_tiles_.size()) - 1; }
  DecodeRuns Runs(const DecodePlan& plan) const {
    return DecodeRuns(first_tiles_.data(), NumRows(), plan);
  }
  std::vector<int> RunTiles(const DecodePlan& plan) const {
    std::vector<int> tiles;
    const DecodeRuns runs = Runs(plan);
    for (int run = 0; run < plan.num_runs; ++run) {
      tiles.push_back(runs.Tiles(runs.Cut(run + 1)) - runs.Tiles(runs.Cut(run)));
    }
    return tiles;
  }
  static std::vector<DecodeSplit> Walk(const DecodeRuns& runs, int run) {
    std::vector<DecodeSplit> splits;
    for (DecodeRunWalk walk(runs, run); walk.Split().num_parts != 0; walk.Advance()) {
      splits.push_back(walk.Split());
    }
    return splits;
  }

  // Every split of every row is in one run, and the parts of a row are what its splits say.
  void ExpectCovered(const DecodePlan& plan) const {
    const DecodeRuns runs = Runs(plan);
    std::map<std::pair<int, int>, DecodeSplit> seen;
    for (int run = 0; run < plan.num_runs; ++run) {
      int num_open = 0;
      for (const DecodeSplit& split : Walk(runs, run)) {
        EXPECT_TRUE(seen.emplace(std::pair(split.row, split.split), split).second)
            << "row " << split.row << " split " << split.split << " twice";
        num_open += split.opens;
        EXPECT_EQ(num_open, 1) << "a part of row " << split.row << " opens within another";
        num_open -= split.closes;
      }
      EXPECT_EQ(num_open, 0);
    }
    for (int row = 0; row < NumRows(); ++row) {
      const int num_splits = runs.NumSplits(row);
      int num_parts = 0;
      for (int split = 0; split < num_splits; ++split) {
        const auto found = seen.find({row, split});
        ASSERT_NE(found, seen.end()) << "row " << row << " split " << split;
        const DecodeSplit& at = found->second;
        const bool in_first = split < at.first_splits;
        EXPECT_EQ(at.opens, split == 0 || !in_first);
        EXPECT_EQ(at.closes, split + 1 == at.first_splits || !in_first);
        EXPECT_EQ(at.first_splits, seen.at({row, 0}).first_splits);
        EXPECT_EQ(at.num_parts, seen.at({row, 0}).num_parts);
        num_parts += at.closes;
      }
      if (num_splits > 0) {
        EXPECT_EQ(num_parts, seen.at({row, 0}).num_parts) << "row " << row;
      }
      seen.erase(seen.lower_bound({row, 0}), seen.lower_bound({row + 1, 0}));
    }
    EXPECT_TRUE(seen.empty());
  }

  std::vector<int> first_tiles_;
};

TEST_F(DecodeRunsTest, SplitsInTilesAreThoseOfTheContract) {
  for (int tile = 0; tile < 40'000; ++tile) {
    ASSERT_EQ(SplitOfTile(tile), NumAttentionSplits(tile * kKeyTile + 1) - 1) << tile;
    ASSERT_EQ(SplitOfTile(tile), NumAttentionSplits((tile + 1) * kKeyTile) - 1) << tile;
  }
  for (int split = 0; split < 2'000; ++split) {
    ASSERT_EQ(FirstTileOfSplit(split) * kKeyTile, AttentionSplitBegin(split)) << split;
  }
}

TEST_F(DecodeRunsTest, AnyRowsAreCoveredByAnyNumberOfRuns) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<int> num_keys(1 + random() % 40);
    for (int& keys : num_keys) {
      keys =
          random() % 4 == 0 ? 0 : static_cast<int>(random() % (random() % 5 == 0 ? 20'000 : 900));
    }
    SetRows(num_keys);
    const int num_filled = static_cast<int>(
        std::count_if(num_keys.begin(), num_keys.end(), [](int keys) { return keys > 0; }));
    const int max_runs = 1 + static_cast<int>(random() % 40);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ExpectCovered(CutRowPlan(first_tiles_.back(), max_runs));
    ExpectCovered(WholeRowPlan(std::max(num_filled, 1), max_runs));
    if (HasFailure()) break;
  }
}

TEST_F(DecodeRunsTest, EqualRowsAreKeptWhole) {
  SetRows(std::vector<int>(128, 2048));
  const DecodePlan plan = WholeRowPlan(128, 33);
  EXPECT_THAT(RunTiles(plan), Each(Eq(4 * 32)));
  EXPECT_GE(MaxWholeRowTiles(first_tiles_.back(), 33), 4 * 32);
  for (const DecodeSplit& split : Walk(Runs(plan), 7)) EXPECT_EQ(split.num_parts, 1);
}

TEST_F(DecodeRunsTest, WholeRowsThatLeaveBlocksIdleAreTooLong) {
  SetRows(std::vector<int>(40, 2048));  // 33 runs: 20 of two rows
  EXPECT_THAT(RunTiles(WholeRowPlan(40, 33)), Each(Eq(2 * 32)));
  EXPECT_LT(MaxWholeRowTiles(first_tiles_.back(), 33), 2 * 32);
}

TEST_F(DecodeRunsTest, CutRunsAreAsEqualAsSplitsAllow) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<int> num_keys(64);
    for (int& keys : num_keys) keys = 1 + static_cast<int>(random() % 1500);
    SetRows(num_keys);
    const DecodePlan plan = CutRowPlan(first_tiles_.back(), 33);
    const int mean = first_tiles_.back() / 33;
    // A border is at most half a split of 256 keys from where the cut would lie.
    for (const int tiles : RunTiles(plan)) EXPECT_NEAR(tiles, mean, 1 + 2 * (2 + plan.slack_tiles));
  }
}

TEST_F(DecodeRunsTest, OneLongRowGivesEverySplitABlock) {
  SetRows({8192});
  const DecodeRuns runs = Runs(CutRowPlan(first_tiles_.back(), 33));
  const int num_splits = runs.NumSplits(0);
  ASSERT_EQ(num_splits, 22);
  for (int run = 0; run < 33; ++run) {
    const auto splits = Walk(runs, run);
    int tiles = 0;
    for (const DecodeSplit& split : splits) {
      tiles += static_cast<int>(
          (AttentionSplitBegin(split.split + 1) - AttentionSplitBegin(split.split)) / kKeyTile);
    }
    EXPECT_LE(tiles, 8);  // the longest split alone
  }
}

// What was cut comes first, so that its parts are all there when the last run ends.
TEST_F(DecodeRunsTest, CutRowsComeBeforeWholeOnes) {
  SetRows(std::vector<int>(50, 640));
  const DecodeRuns runs = Runs(CutRowPlan(first_tiles_.back(), 12));
  for (int run = 0; run < 12; ++run) {
    bool whole_seen = false;
    for (const DecodeSplit& split : Walk(runs, run)) {
      whole_seen |= split.num_parts == 1;
      EXPECT_TRUE(!whole_seen || split.num_parts == 1);
    }
  }
}

TEST_F(DecodeRunsTest, RowsWithoutKeysTakeNoWork) {
  SetRows({0, 0, 0});
  EXPECT_TRUE(Walk(Runs(WholeRowPlan(1, 4)), 0).empty());
  EXPECT_THAT(RunTiles(CutRowPlan(0, 4)), Each(Eq(0)));
}

}  // namespace
}  // namespace lockstep::kernels
