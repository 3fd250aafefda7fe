#include "kernels/gemm/tile/gemm_tiling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "kernels/gemm/tile/gemm_row_ranges.h"
#include "kernels/gemm/tile/gemm_task.h"

namespace lockstep::kernels {
namespace {

constexpr int kMultiprocessors = 132;
constexpr int64_t kMaxSharedBytes = 227 * 1024;

TEST(GemmTilingTest, EveryChoiceIsCompiledAndFits) {
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1, 8},
                             {49, 576},
                             {576, 576},
                             {1024, 2040},
                             {1024, 2048},
                             {1024, 3072},
                             {1024, 16384},
                             {1024, 28672},
                             {4096, 12288},
                             {24576, 4096},
                             {151936, 4096}}) {
    for (const bool gated : {false, true}) {
      for (const int64_t num_rows :
           {1, 2, 3, 8, 9, 16, 17, 32, 33, 64, 65, 100, 128, 129, 2048, 8192}) {
        SCOPED_TRACE(::testing::Message() << num_rows << " x " << n << " x " << k);
        const GemmTiling tiling = ChooseGemmTiling(
            {.n = n, .k = k, .num_rows = num_rows, .gated = gated}, kMultiprocessors);
        EXPECT_NE(
            FindGemmKernel(tiling, gated ? GemmEpilogue::kSwiGlu : GemmEpilogue::kPlain).function,
            nullptr);
        EXPECT_LE(GemmSharedBytes(tiling, num_rows), kMaxSharedBytes);
        EXPECT_GE(tiling.num_stages, 2);
        EXPECT_GE(GemmFetchedRows(tiling, num_rows),
                  std::min<int64_t>(num_rows, tiling.input_rows));
      }
    }
  }
}

// Its tilings are those of any plain product, so all of these must have it.
TEST(GemmTilingTest, EveryChoiceWithGeluIsCompiled) {
  for (const int64_t n : {2048, 3072, 4096}) {
    for (const int64_t num_rows : {1, 16}) {
      const GemmTiling tiling =
          ChooseGemmTiling({.n = n, .k = 768, .num_rows = num_rows}, kMultiprocessors);
      for (const GemmEpilogue epilogue : {GemmEpilogue::kGeluTanh, GemmEpilogue::kGeluErf}) {
        EXPECT_NE(FindGemmKernel(tiling, epilogue).function, nullptr) << n << ", " << num_rows;
      }
    }
  }
}

TEST(GemmTilingTest, FewRowsAreSwapped) {
  constexpr GemmProblem kPlain = {.n = 4096, .k = 4096};
  constexpr GemmProblem kGated = {.n = 24576, .k = 4096, .gated = true};
  struct Case {
    const char* product;
    GemmProblem problem;
    int64_t num_rows;
    GemmUnit unit;
    int input_rows;
  };
  for (auto& [product, problem, num_rows, unit, input_rows] : {
           Case{"one row", kPlain, 1, GemmUnit::kSwapped, 8},
           Case{"8 rows", kPlain, 8, GemmUnit::kSwapped, 8},
           Case{"9 rows", kPlain, 9, GemmUnit::kSwapped, 16},
           Case{"17 rows", kPlain, 17, GemmUnit::kWarpgroup, 64},
           Case{"gated, 8 rows", kGated, 8, GemmUnit::kSwapped, 8},
           Case{"gated, 17 rows", kGated, 17, GemmUnit::kSwapped, 32},
           Case{"gated, 32 rows", kGated, 32, GemmUnit::kSwapped, 32},
           Case{"gated, 33 rows", kGated, 33, GemmUnit::kWarpgroup, 64},
       }) {
    GemmProblem of = problem;
    of.num_rows = num_rows;
    const GemmTiling tiling = ChooseGemmTiling(of, kMultiprocessors);
    EXPECT_EQ(tiling.unit, unit) << product;
    EXPECT_EQ(tiling.input_rows, input_rows) << product;
  }
}

// A row that is held leaves room for more weights. Where k ends within a stage, what lies behind it
// must be zero, and only the ring's copies write zeros.
TEST(GemmTilingTest, ASingleRowOfWholeStagesIsHeld) {
  struct Case {
    const char* what;
    GemmProblem problem;
    int held_blocks;
  };
  for (const auto& [what, problem, held_blocks] : {
           Case{"one row", {.n = 4096, .k = 4096, .num_rows = 1}, 64},
           Case{"gated", {.n = 24576, .k = 4096, .num_rows = 1, .gated = true}, 64},
           Case{"two rows", {.n = 4096, .k = 4096, .num_rows = 2}, 0},
           Case{"k within a stage", {.n = 960, .k = 576, .num_rows = 1}, 0},
           Case{"k within a block", {.n = 960, .k = 1032, .num_rows = 1}, 0},
           Case{"a row that takes more than its share of a ring",
                {.n = 8192, .k = 28672, .num_rows = 1},
                0},
       }) {
    EXPECT_EQ(ChooseGemmTiling(problem, kMultiprocessors).held_input_blocks, held_blocks) << what;
  }
  const GemmProblem one = {.n = 6144, .k = 4096, .num_rows = 1};
  const GemmProblem two = {.n = 6144, .k = 4096, .num_rows = 2};
  EXPECT_GT(ChooseGemmTiling(one, kMultiprocessors).num_stages,
            ChooseGemmTiling(two, kMultiprocessors).num_stages);
}

// The products around the MLP of Qwen3-0.6B: one's weights come while the other still multiplies.
TEST(GemmTilingTest, ShortNeighboursShareAMultiprocessor) {
  constexpr int64_t kReservedBytes = 1024;  // by each block, besides what it asks for
  const GemmProblem input = {.n = 6144, .k = 1024, .num_rows = 8, .gated = true};
  const GemmProblem output = {.n = 1024, .k = 3072, .num_rows = 8};
  int64_t bytes = 0;
  for (const GemmProblem& problem : {input, output}) {
    bytes += kReservedBytes +
             GemmSharedBytes(ChooseGemmTiling(problem, kMultiprocessors), problem.num_rows);
  }
  EXPECT_LE(bytes, kMaxSharedBytes + kReservedBytes);
}

// Beside the product of attention's output there is room for a block of attention. Not with one
// row, where attention leaves most multiprocessors free.
TEST(GemmTilingTest, AttentionsOutputLeavesRoomExceptForOneRow) {
  constexpr int64_t kAttentionBytes = 105'008;  // heads of 128 dims, four for each KV head
  constexpr int64_t kReservedBytes = 1024;      // by each block, besides what it asks for
  constexpr int64_t kMultiprocessorBytes = 228 * 1024;
  const auto bytes = [](int64_t num_rows) {
    return GemmSharedBytes(
        ChooseGemmTiling({.n = 4096, .k = 4096, .num_rows = num_rows}, kMultiprocessors), num_rows);
  };
  EXPECT_GT(bytes(1), int64_t{160} * 1024);
  EXPECT_LT(bytes(1), int64_t{180} * 1024);  // attention waits behind what this product asks for
  EXPECT_LE(bytes(8) + kAttentionBytes + 2 * kReservedBytes, kMultiprocessorBytes);
}

// A rank's share of a product: in tiles of 64 rows most multiprocessors would be idle.
TEST(GemmTilingTest, NarrowProductsHaveNarrowTiles) {
  for (const auto& [n, height] : {std::pair<int64_t, int>{2048, 16}, {3072, 32}}) {
    for (const int64_t num_rows : {1, 16}) {
      const GemmTiling tiling =
          ChooseGemmTiling({.n = n, .k = 4096, .num_rows = num_rows}, kMultiprocessors);
      EXPECT_EQ(tiling.weight_rows, height);
    }
  }
}

TEST(GemmTilingTest, EveryCandidateIsCompiledFitsAndIsNamedOnce) {
  for (const bool gated : {false, true}) {
    for (const int64_t num_rows : {65, 128, 640, 1152, 8192}) {
      SCOPED_TRACE(::testing::Message() << num_rows << " rows, gated " << gated);
      const GemmProblem problem = {.n = 4096, .k = 4096, .num_rows = num_rows, .gated = gated};
      std::set<std::pair<int, int>> seen;
      for (const GemmTiling& tiling : CandidateGemmTilings(problem, kMultiprocessors, 100)) {
        EXPECT_NE(
            FindGemmKernel(tiling, gated ? GemmEpilogue::kSwiGlu : GemmEpilogue::kPlain).function,
            nullptr)
            << tiling.weight_rows << " x " << tiling.input_rows;
        EXPECT_LE(GemmSharedBytes(tiling, num_rows), kMaxSharedBytes);
        EXPECT_TRUE(seen.emplace(tiling.weight_rows, tiling.input_rows).second);
      }
      EXPECT_GE(seen.size(), 10u);
      EXPECT_EQ(CandidateGemmTilings(problem, kMultiprocessors, 3).size(), 3u);
    }
  }
}

// 1,152 rows of 4,096 outputs are 132 tiles of 192 x 192: one for each multiprocessor.
TEST(GemmTilingTest, AWholeWaveIsAmongTheFirstCandidates) {
  const std::vector<GemmTiling> candidates =
      CandidateGemmTilings({.n = 4096, .k = 4096, .num_rows = 1152}, kMultiprocessors, 3);
  EXPECT_TRUE(std::any_of(candidates.begin(), candidates.end(), [](const GemmTiling& tiling) {
    return tiling.weight_rows == 192 && tiling.input_rows == 192;
  }));
}

TEST(GemmRowRangesTest, RangesFollowOneAnotherAndHoldTheirRows) {
  int64_t last_end = kMaxUnplannedRows;
  for (int64_t num_rows = kMaxUnplannedRows + 1; num_rows <= 10'000; ++num_rows) {
    const int64_t begin = GemmRangeBegin(num_rows);
    const int64_t end = GemmRangeEnd(num_rows);
    ASSERT_LE(begin, num_rows);
    ASSERT_GE(end, num_rows);
    ASSERT_EQ(GemmRangeEnd(end), end);
    ASSERT_EQ(begin % 2, 1) << "the plans of a range are checked with an odd number of rows";
    if (num_rows > last_end) {
      ASSERT_EQ(begin, last_end + 1);
      ASSERT_LE(end, 2 * last_end);
      last_end = end;
    }
    ASSERT_EQ(end, last_end) << num_rows;
  }
}

TEST(GemmTilingTest, ASingleRowFillsTheMultiprocessorsInWholeWaves) {
  // Weight rows of the busiest multiprocessor, at most 4 % above an even share.
  for (const int64_t n : {4096, 6144, 24576, 151936}) {
    const GemmTiling tiling =
        ChooseGemmTiling({.n = n, .k = 4096, .num_rows = 1}, kMultiprocessors);
    const int64_t tiles = (n + tiling.weight_rows - 1) / tiling.weight_rows;
    const int64_t waves = (tiles + kMultiprocessors - 1) / kMultiprocessors;
    EXPECT_LE(static_cast<double>(waves * tiling.weight_rows * kMultiprocessors),
              1.04 * static_cast<double>(n))
        << "n = " << n << " in tiles of " << tiling.weight_rows;
  }
}

}  // namespace
}  // namespace lockstep::kernels
