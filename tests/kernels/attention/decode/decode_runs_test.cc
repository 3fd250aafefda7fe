#include "kernels/attention/decode/decode_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "kernels/attention/decode/decode_run_walk.h"

namespace lockstep::kernels {
namespace {

using ::testing::Each;
using ::testing::Eq;

// Strands of one kind, one behind the other.
class Strands {
 public:
  void Add(std::vector<int> rows, int first_split, int num_tiles) {
    rows_.push_back(std::move(rows));
    first_splits_.push_back(first_split);
    first_tiles_.push_back(first_tiles_.back() + num_tiles);
  }

  int size() const { return static_cast<int>(rows_.size()); }
  int num_tiles() const { return first_tiles_.back(); }
  const std::vector<int>& rows(int strand) const { return rows_[static_cast<size_t>(strand)]; }
  DecodeRuns Runs(const DecodePlan& plan) const {
    return DecodeRuns(first_tiles_.data(), first_splits_.data(), size(), plan);
  }

  // As a plan has them; `row` is the strand's own number. `folded_splits`: by row, of those that
  // begin with another strand; those of these strands are added.
  std::vector<DecodeStrand> Make(const DecodePlan& plan, std::map<int, int>& folded_splits) const {
    const DecodeRuns runs = Runs(plan);
    std::vector<DecodeStrand> strands;
    for (int strand = 0; strand < size(); ++strand) {
      const int num_splits = runs.NumSplits(strand);
      if (num_splits > 0) {
        for (const int row : rows(strand)) {
          folded_splits.emplace(row, runs.SplitsOfFirstRun(strand));
        }
      }
      strands.push_back({.row = strand,
                         .num_rows = num_splits == 0 ? 0 : static_cast<int>(rows(strand).size()),
                         .num_parts = 0,
                         .block_table = 0,
                         .num_keys = 0,
                         .first_split = first_splits_[static_cast<size_t>(strand)],
                         .num_splits = num_splits,
                         .folded_splits = folded_splits[rows(strand).front()]});
    }
    return strands;
  }

 private:
  std::vector<std::vector<int>> rows_;
  std::vector<int> first_tiles_ = {0};
  std::vector<int> first_splits_;
};

// Strands dealt out to the blocks of a KV head.
class DecodeRunsTest : public ::testing::Test {
 protected:
  struct Group {
    int num_rows = 0;
    int num_splits = 0;
  };
  struct Plans {
    DecodePlan shared;
    DecodePlan own;
  };

  // Rows of these many keys. The groups' rows come first, group by group.
  void SetRows(const std::vector<int>& num_keys, const std::vector<Group>& groups = {}) {
    num_keys_ = num_keys;
    shared_ = {};
    own_ = {};
    std::vector<int> shared_splits(num_keys.size(), 0);
    int next = 0;
    for (const Group& group : groups) {
      std::vector<int> rows(static_cast<size_t>(group.num_rows));
      std::iota(rows.begin(), rows.end(), next);
      next += group.num_rows;
      for (const int row : rows) shared_splits[static_cast<size_t>(row)] = group.num_splits;
      shared_.Add(rows, 0, FirstTileOfSplit(group.num_splits));
    }
    for (size_t row = 0; row < num_keys.size(); ++row) {
      const int num_tiles =
          (num_keys[row] + static_cast<int>(kKeyTile) - 1) / static_cast<int>(kKeyTile);
      own_.Add({static_cast<int>(row)}, shared_splits[row],
               num_tiles - FirstTileOfSplit(shared_splits[row]));
    }
  }

  Plans CutPlans(int max_runs) const {
    return {CutStrandPlan(shared_.num_tiles(), max_runs),
            CutStrandPlan(own_.num_tiles(), max_runs)};
  }
  Plans EvenPlans(int max_runs) const {
    const auto num_filled =
        std::count_if(num_keys_.begin(), num_keys_.end(), [](int keys) { return keys > 0; });
    return {EvenStrandPlan(std::max(shared_.size(), 1), max_runs),
            EvenStrandPlan(std::max(static_cast<int>(num_filled), 1), max_runs)};
  }

  // Of the runs of the rows' own strands.
  std::vector<int> RunTiles(const DecodePlan& plan) const {
    std::vector<int> tiles;
    const DecodeRuns runs = own_.Runs(plan);
    for (int run = 0; run < plan.num_runs; ++run) {
      tiles.push_back(runs.Tiles(runs.Cut(run + 1)) - runs.Tiles(runs.Cut(run)));
    }
    return tiles;
  }

  struct Seen {
    std::vector<int> rows;
    int split;
    int part;
    bool opens;
    bool closes;
    bool is_whole;  // its strand is not cut
  };
  std::vector<Seen> Walk(const Plans& plans, int run) const {
    std::map<int, int> folded_splits;
    const std::vector<DecodeStrand> shared_strands = shared_.Make(plans.shared, folded_splits);
    const std::vector<DecodeStrand> own_strands = own_.Make(plans.own, folded_splits);
    const DecodeRuns shared_runs = shared_.Runs(plans.shared);
    const DecodeRuns own_runs = own_.Runs(plans.own);
    std::vector<Seen> seen;
    DecodeRunWalk walk({shared_strands.data(), shared_runs.Cut(run), shared_runs.Cut(run + 1)},
                       {own_strands.data(), own_runs.Cut(run), own_runs.Cut(run + 1)});
    for (; !walk.AtEnd(); walk.Advance()) {
      const DecodeStrand& strand = walk.Strand();
      const bool is_shared = strand.num_rows > 1;
      if (is_shared && !seen.empty()) {
        EXPECT_GT(seen.back().rows.size(), 1u) << "shared strands come first";
      }
      seen.push_back({(is_shared ? shared_ : own_).rows(strand.row), walk.Split(), walk.Part(),
                      walk.OpensPart(), walk.ClosesPart(),
                      strand.folded_splits == strand.num_splits});
    }
    return seen;
  }

  // Every split of every row is in one run, and its parts, counted from 0, are what the splits say.
  void ExpectCovered(const Plans& plans) const {
    std::map<std::pair<int, int>, Seen> seen;  // by row and split
    for (int run = 0; run < std::max(plans.shared.num_runs, plans.own.num_runs); ++run) {
      int num_open = 0;
      for (const Seen& split : Walk(plans, run)) {
        for (const int row : split.rows) {
          EXPECT_TRUE(seen.emplace(std::pair(row, split.split), split).second)
              << "row " << row << " split " << split.split << " twice";
        }
        num_open += split.opens;
        EXPECT_EQ(num_open, 1) << "a part opens within another";
        num_open -= split.closes;
      }
      EXPECT_EQ(num_open, 0);
    }
    for (int row = 0; row < static_cast<int>(num_keys_.size()); ++row) {
      const int num_splits =
          static_cast<int>(NumAttentionSplits(num_keys_[static_cast<size_t>(row)]));
      int part = -1;
      bool closed = true;
      for (int split = 0; split < num_splits; ++split) {
        const auto found = seen.find({row, split});
        ASSERT_NE(found, seen.end()) << "row " << row << " split " << split;
        const Seen& at = found->second;
        EXPECT_EQ(at.opens, closed);
        EXPECT_TRUE(at.part == 0 || at.closes) << "a part that is not the first has one split";
        part += at.opens;
        EXPECT_EQ(at.part, part);
        closed = at.closes;
      }
      seen.erase(seen.lower_bound({row, 0}), seen.lower_bound({row + 1, 0}));
    }
    EXPECT_TRUE(seen.empty());
  }

  std::vector<int> num_keys_;
  Strands shared_;
  Strands own_;
};

TEST_F(DecodeRunsTest, SplitsInTilesAreThoseOfTheContract) {
  for (int tile = 0; tile < 40'000; ++tile) {
    ASSERT_EQ(SplitOfTile(tile), NumAttentionSplits(tile * kKeyTile + 1) - 1) << tile;
    ASSERT_EQ(SplitOfTile(tile), NumAttentionSplits((tile + 1) * kKeyTile) - 1) << tile;
  }
  for (int num_keys = 1; num_keys < 20'000; ++num_keys) {
    ASSERT_EQ(LastSplit(num_keys), NumAttentionSplits(num_keys) - 1) << num_keys;
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
    const int max_runs = 1 + static_cast<int>(random() % 40);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ExpectCovered(CutPlans(max_runs));
    ExpectCovered(EvenPlans(max_runs));
    if (HasFailure()) break;
  }
}

TEST_F(DecodeRunsTest, RowsWithACommonPrefixAreCoveredByAnyNumberOfRuns) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<int> num_keys;
    std::vector<Group> groups;
    for (int i = static_cast<int>(random() % 6); i >= 0; --i) {
      const Group group = {.num_rows = 2 + static_cast<int>(random() % 15),
                           .num_splits = 1 + static_cast<int>(random() % 14)};
      groups.push_back(group);
      for (int row = 0; row < group.num_rows; ++row) {
        num_keys.push_back(static_cast<int>(AttentionSplitBegin(group.num_splits)) + 1 +
                           static_cast<int>(random() % (random() % 5 == 0 ? 9'000 : 300)));
      }
    }
    for (int i = static_cast<int>(random() % 20); i > 0; --i) {
      num_keys.push_back(static_cast<int>(random() % 1'500));
    }
    SetRows(num_keys, groups);
    const int max_runs = 1 + static_cast<int>(random() % 60);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ExpectCovered(CutPlans(max_runs));
    ExpectCovered(EvenPlans(max_runs));
    if (HasFailure()) break;
  }
}

TEST_F(DecodeRunsTest, EqualRowsAreKeptWhole) {
  SetRows(std::vector<int>(128, 2048));
  const Plans plans = EvenPlans(33);
  EXPECT_THAT(RunTiles(plans.own), Each(Eq(4 * 32)));
  EXPECT_GE(MaxEvenStrandTiles(own_.num_tiles(), 33), 4 * 32);
  for (const Seen& split : Walk(plans, 7)) EXPECT_TRUE(split.is_whole);
}

TEST_F(DecodeRunsTest, WholeRowsThatLeaveBlocksIdleAreTooLong) {
  SetRows(std::vector<int>(40, 2048));  // 33 runs: 20 of two rows
  EXPECT_THAT(RunTiles(EvenPlans(33).own), Each(Eq(2 * 32)));
  EXPECT_LT(MaxEvenStrandTiles(own_.num_tiles(), 33), 2 * 32);
}

TEST_F(DecodeRunsTest, CutRunsAreAsEqualAsSplitsAllow) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<int> num_keys(64);
    for (int& keys : num_keys) keys = 1 + static_cast<int>(random() % 1500);
    SetRows(num_keys);
    const DecodePlan plan = CutPlans(33).own;
    const int mean = own_.num_tiles() / 33;
    // A border is at most half a split of 256 keys from where the cut would lie.
    for (const int tiles : RunTiles(plan)) EXPECT_NEAR(tiles, mean, 1 + 2 * (2 + plan.slack_tiles));
  }
}

TEST_F(DecodeRunsTest, OneLongRowGivesEverySplitABlock) {
  SetRows({8192});
  const Plans plans = CutPlans(33);
  ASSERT_EQ(own_.Runs(plans.own).NumSplits(0), 22);
  for (const int tiles : RunTiles(plans.own)) EXPECT_LE(tiles, 8);  // the longest split alone
}

// What was cut comes first, so that its parts are all there when the last run ends.
TEST_F(DecodeRunsTest, CutStrandsComeBeforeWholeOnes) {
  SetRows(std::vector<int>(50, 640));
  const Plans plans = CutPlans(12);
  for (int run = 0; run < 12; ++run) {
    bool whole_seen = false;
    for (const Seen& split : Walk(plans, run)) {
      whole_seen |= split.is_whole;
      EXPECT_TRUE(!whole_seen || split.is_whole);
    }
  }
}

TEST_F(DecodeRunsTest, RowsWithoutKeysTakeNoWork) {
  SetRows({0, 0, 0});
  EXPECT_TRUE(Walk(EvenPlans(4), 0).empty());
  EXPECT_THAT(RunTiles(CutPlans(4).own), Each(Eq(0)));
}

}  // namespace
}  // namespace lockstep::kernels
