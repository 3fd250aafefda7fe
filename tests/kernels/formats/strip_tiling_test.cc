#include "kernels/formats/strips/strip_tiling.h"

#include <gtest/gtest.h>

namespace lockstep::kernels {
namespace {

constexpr int64_t kShapes[][2] = {{6144, 4096}, {4096, 4096},   {24576, 4096}, {4096, 12288},
                                  {960, 576},   {151936, 4096}, {1024, 3072},  {48, 128}};

TEST(StripTilingTest, EveryTilingFitsAMultiprocessor) {
  for (const StripCodec codec :
       {StripCodec::kInt4Group128, StripCodec::kInt4Group32Zeros, StripCodec::kInt8Group32,
        StripCodec::kFp8Group128, StripCodec::kQ4_K, StripCodec::kQ6_K, StripCodec::kMxfp4,
        StripCodec::kNvfp4}) {
    for (const auto& [n, k] : kShapes) {
      for (const int64_t num_rows : {1, 2, 8, 9, 16, 17, 32, 33, 64, 65, 128, 1000}) {
        for (const int multiprocessors : {1, 78, 132}) {
          const StripProblem problem = {.codec = codec, .n = n, .k = k, .num_rows = num_rows};
          const StripTiling tiling = ChooseStripTiling(problem, multiprocessors);
          EXPECT_LE(StripSharedBytes(problem, tiling), kMaxStripSharedBytes)
              << n << " x " << k << ", " << num_rows << " rows";
          EXPECT_GE(tiling.num_stages, 2);
          EXPECT_LE(tiling.warps(), kMaxTileWarps);
          EXPECT_EQ(tiling.holds_input, num_rows == 1 && k % 512 == 0);
          EXPECT_LE(tiling.input_rows,
                    tiling.strips == 1 ? kMaxNarrowInputRows : kMaxStripInputRows);
        }
      }
    }
  }
}

TEST(StripTilingTest, StagesAreLongWhereTheInputLeavesRoom) {
  EXPECT_EQ(StripStageBlocks(4096, 8), 4);
  EXPECT_EQ(StripStageBlocks(4096, 32), 2);
  EXPECT_EQ(StripStageBlocks(4096, 64), 1);
  EXPECT_EQ(StripStageBlocks(4864, 16), 4);
  EXPECT_EQ(StripStageBlocks(576, 8), 1);
  EXPECT_EQ(StripStageBlocks(768, 32), 2);
}

struct Choice {
  StripCodec codec;
  int64_t n;
  int64_t k;
  bool gated;
  int64_t num_rows;
  int bands;
  int strips;
  int input_rows;
};

// What sweeps on an H200 found to be the fastest, or within a few per cent of it.
TEST(StripTilingTest, ShapesOf8BGetWhatWasFastest) {
  constexpr StripCodec kInt4 = StripCodec::kInt4Group128;
  constexpr StripCodec kFp8 = StripCodec::kFp8Group128;
  constexpr StripCodec kQ4 = StripCodec::kQ4_K;
  constexpr StripCodec kQ6 = StripCodec::kQ6_K;
  const Choice choices[] = {
      {kInt4, 6144, 4096, false, 1, 2, 2, 8},    {kInt4, 4096, 4096, false, 1, 2, 2, 8},
      {kInt4, 24576, 4096, true, 1, 6, 2, 8},    {kInt4, 4096, 12288, false, 1, 1, 1, 8},
      {kInt4, 4096, 4096, false, 32, 2, 2, 16},  {kInt4, 24576, 4096, true, 32, 6, 2, 32},
      {kInt4, 4096, 12288, false, 32, 2, 2, 16}, {kInt4, 24576, 4096, true, 64, 6, 2, 64},
      {kFp8, 6144, 4096, false, 1, 2, 2, 8},     {kFp8, 4096, 4096, false, 1, 1, 1, 8},
      {kFp8, 4096, 12288, false, 1, 1, 1, 8},    {kFp8, 24576, 4096, true, 32, 6, 2, 32},
      {kFp8, 24576, 4096, true, 64, 6, 2, 64},   {kQ6, 4096, 12288, false, 1, 1, 1, 8},
      {kQ6, 4096, 12288, false, 32, 1, 1, 32},   {kQ6, 24576, 4096, true, 1, 6, 2, 8},
      {kQ6, 151936, 4096, false, 1, 4, 2, 8},    {kQ4, 151936, 4096, false, 1, 4, 2, 8},
  };
  for (const Choice& c : choices) {
    SCOPED_TRACE(::testing::Message() << StripCodecName(c.codec) << ", " << c.n << " x " << c.k
                                      << ", " << c.num_rows << " rows");
    const StripTiling tiling = ChooseStripTiling(
        {.codec = c.codec, .n = c.n, .k = c.k, .num_rows = c.num_rows, .gated = c.gated}, 132);
    EXPECT_EQ(tiling.bands, c.bands);
    EXPECT_EQ(tiling.strips, c.strips);
    EXPECT_EQ(tiling.input_rows, c.input_rows);
  }
}

}  // namespace
}  // namespace lockstep::kernels
