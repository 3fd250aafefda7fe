#include "kernels/attention/prefill_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "kernels/attention/paged_attention.h"

namespace lockstep::kernels {
namespace {

struct Planned {
  PrefillPlan plan;
  std::vector<PrefillTile> tiles;
};

Planned MakePlan(const PrefillPlanner& planner, const std::vector<AttentionChunk>& chunks) {
  int64_t num_tokens = 0;
  for (const AttentionChunk& chunk : chunks) num_tokens += chunk.num_tokens;
  Planned result;
  result.tiles.resize(
      static_cast<size_t>(planner.MaxTiles(num_tokens, static_cast<int64_t>(chunks.size()))));
  result.plan = planner.Plan(chunks, result.tiles);
  result.tiles.resize(static_cast<size_t>(result.plan.num_tiles));
  return result;
}

// The position behind the last row of a tile.
int64_t EndPosition(const AttentionChunk& chunk, const PrefillTile& tile, int64_t tile_rows,
                    int64_t group) {
  const int64_t end_row =
      std::min<int64_t>(int64_t{chunk.num_tokens} * group, (tile.index + int64_t{1}) * tile_rows);
  return chunk.first_position + (end_row - 1) / group + 1;
}

TEST(PrefillPlannerTest, TilesCoverEveryRowOnceAndTheLongestComeFirst) {
  std::mt19937 generator(1);
  for (int round = 0; round < 300; ++round) {
    const int64_t num_kv_heads = 1 + generator() % 8;
    const int64_t group = 1 + generator() % 16;
    const int64_t head_dim = generator() % 2 == 0 ? 128 : 96;
    const PrefillPlanner planner(num_kv_heads * group, num_kv_heads, head_dim,
                                 1 + generator() % 200);
    std::vector<AttentionChunk> chunks(generator() % 9);
    for (AttentionChunk& chunk : chunks) {
      chunk.num_tokens = generator() % (generator() % 4 == 0 ? 3000 : 70);
      chunk.first_position = generator() % 2 == 0 ? 0 : generator() % 9000;
    }
    const auto [plan, tiles] = MakePlan(planner, chunks);
    std::map<uint32_t, std::set<uint32_t>> indices;
    int64_t previous_end = INT64_MAX;
    for (const PrefillTile& tile : tiles) {
      ASSERT_LT(tile.chunk, chunks.size());
      EXPECT_TRUE(indices[tile.chunk].insert(tile.index).second) << "a tile comes twice";
      const int64_t end = EndPosition(chunks[tile.chunk], tile, plan.tile_rows, group);
      EXPECT_LE(end, previous_end);
      previous_end = end;
    }
    for (size_t i = 0; i < chunks.size(); ++i) {
      const int64_t rows = int64_t{chunks[i].num_tokens} * group;
      const auto num_tiles = static_cast<size_t>((rows + plan.tile_rows - 1) / plan.tile_rows);
      const std::set<uint32_t>& found = indices[static_cast<uint32_t>(i)];
      ASSERT_EQ(found.size(), num_tiles) << "chunk " << i;
      if (num_tiles > 0) {
        EXPECT_EQ(*found.rbegin(), num_tiles - 1);
      }
    }
  }
}

TEST(PrefillPlannerTest, LittleWorkTakesSmallTilesAndMuchWorkLargeOnes) {
  const PrefillPlanner planner(32, 8, 128, 132);
  EXPECT_EQ(MakePlan(planner, {{.num_tokens = 200}}).plan.tile_rows, kSmallPrefillTileRows);
  EXPECT_EQ(MakePlan(planner, {{.num_tokens = 16384}}).plan.tile_rows, kLargePrefillTileRows);
}

// paged_attention_cuda_test.cc relies on it for the kernels of large tiles.
TEST(PrefillPlannerTest, OneMultiprocessorTakesLargeTiles) {
  const std::vector<AttentionChunk> chunks = {
      {.num_tokens = 3000}, {.num_tokens = 100}, {.num_tokens = 40}, {.num_tokens = 17}};
  EXPECT_EQ(MakePlan(PrefillPlanner(2, 2, 64, 1), chunks).plan.tile_rows, kLargePrefillTileRows);
  EXPECT_EQ(MakePlan(PrefillPlanner(8, 2, 128, 1), chunks).plan.tile_rows, kLargePrefillTileRows);
}

TEST(PrefillPlannerTest, HeadDimsWithoutLargeTilesTakeSmallOnes) {
  for (const int64_t head_dim : {16, 32, 80, 96, 256}) {
    const PrefillPlanner planner(32, 8, head_dim, 132);
    EXPECT_EQ(MakePlan(planner, {{.num_tokens = 16384}}).plan.tile_rows, kSmallPrefillTileRows);
  }
}

TEST(PrefillPlannerTest, OnlyPartialResultsThatDoNotFitNeedScratch) {
  for (const int64_t head_dim : {16, 64, 128}) {
    EXPECT_EQ(PrefillPlanner(32, 8, head_dim, 132).ScratchElements(), 0);
  }
  // For each multiprocessor's 128 rows.
  EXPECT_EQ(PrefillPlanner(32, 8, 256, 132).ScratchElements(), 132 * 128 * 192);
}

TEST(PrefillPlannerTest, NothingToDoIsNoTile) {
  EXPECT_EQ(MakePlan(PrefillPlanner(32, 8, 128, 132), {}).plan.num_tiles, 0);
  EXPECT_EQ(MakePlan(PrefillPlanner(32, 8, 128, 132), {{.num_tokens = 0}}).plan.num_tiles, 0);
}

TEST(PrefillItemTest, BlocksTakeEveryItemOnce) {
  for (const int64_t num_blocks : {1, 2, 132}) {
    std::set<int64_t> items;
    for (int64_t round = 0; round < 5; ++round) {
      for (int64_t block = 0; block < num_blocks; ++block) {
        items.insert(PrefillItem(round, block, num_blocks));
      }
    }
    EXPECT_EQ(static_cast<int64_t>(items.size()), 5 * num_blocks);
    EXPECT_EQ(*items.rbegin(), 5 * num_blocks - 1);
  }
}

}  // namespace
}  // namespace lockstep::kernels
