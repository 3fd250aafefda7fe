#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/attention/prefill_tiles.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/attention/paged_attention_cuda_problem.h"

namespace lockstep::kernels {
namespace {

using attention_test::PagedAttentionCudaTest;
using attention_test::Part;
using attention_test::Problem;
using attention_test::Row;
using attention_test::Shape;

// Every head_dim and every number of heads to a KV head at least once.
constexpr Shape kShapes[] = {
    {2, 2, 64},
    {4, 2, 80},
    {3, 1, 96},
    {8, 2, 128},
    {7, 1, 256},
    {16, 2, 128},
    {16, 1, 64},
    {16, 1, 256},
    {2, 1, 16},
    {9, 3, 32},
    {2, 2, 64, KvType::kFp8},
    {3, 1, 96, KvType::kFp8},
    {8, 2, 128, KvType::kFp8},
    {7, 1, 256, KvType::kFp8},
    {16, 2, 128, KvType::kFp8},
    {9, 3, 32, KvType::kFp8},
};

// A pool of codes gives what a pool of the elements gives that the codes stand for.
TEST_F(PagedAttentionCudaTest, CodesGiveTheBitsOfTheirElements) {
  for (const Shape& shape : kShapes) {
    if (shape.type != KvType::kFp8) continue;
    for (const Distribution distribution : {Distribution::kGaussian, Distribution::kOutliers}) {
      SCOPED_TRACE(::testing::Message() << shape.num_heads << " heads, " << shape.num_kv_heads
                                        << " KV heads of " << shape.head_dim);
      const std::vector<int64_t> lengths = {1090, 333, 17, 1};
      const Problem codes(shape, lengths, distribution);
      Problem elements({shape.num_heads, shape.num_kv_heads, shape.head_dim}, lengths,
                       distribution);
      elements.RoundToCodes();
      EXPECT_TRUE(IsSameBits(codes.PrefillAll(stream_), elements.PrefillAll(stream_)));
      std::vector<Row> rows;
      for (int64_t position = 0; position < 1090; position += 7) rows.push_back({0, position});
      rows.insert(rows.end(), {{-1, 0}, {1, 332}, {2, 16}, {2, 3}, {3, 0}});
      EXPECT_TRUE(IsSameBits(codes.Decode(stream_, rows), elements.Decode(stream_, rows)));
    }
  }
}

TEST_F(PagedAttentionCudaTest, IsCloseToTheReferenceForAnyHeadSizeAndGroup) {
  for (const Distribution distribution : {Distribution::kGaussian, Distribution::kOutliers}) {
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(::testing::Message() << shape.num_heads << " heads, " << shape.num_kv_heads
                                        << " KV heads of " << shape.head_dim);
      Problem problem(shape, {1, 700, 17, 64, 130}, distribution);
      const auto prefilled = problem.PrefillAll(stream_);
      std::vector<Row> rows;
      for (const int64_t position : {0, 1, 15, 16, 63, 64, 100, 127, 128, 511, 512, 699}) {
        rows.push_back({1, position});
      }
      rows.insert(rows.end(), {{-1, 0}, {0, 0}, {2, 16}, {3, 63}, {4, 128}, {-1, 0}, {4, 129}});
      const auto decoded = problem.Decode(stream_, rows);
      for (const Row& row : rows) {
        if (row.sequence < 0) continue;
        EXPECT_TRUE(problem.IsClose(prefilled, row)) << "prefill, position " << row.position;
        EXPECT_TRUE(problem.IsClose(decoded, row)) << "decode, position " << row.position;
      }
    }
  }
}

// From position 8,192 on splits are longer.
TEST_F(PagedAttentionCudaTest, IsCloseToTheReferenceAtLongContexts) {
  for (const Shape& shape : {Shape{8, 2, 128}, Shape{8, 2, 256}}) {
    SCOPED_TRACE(shape.head_dim);
    Problem problem(shape, {9300, 3001}, Distribution::kOutliers);
    const std::vector<Row> rows = {{0, 9299}, {0, 9216}, {0, 9215}, {0, 8192}, {0, 8191},
                                   {1, 3000}, {0, 4095}, {0, 2047}, {0, 2048}};
    const auto decoded = problem.Decode(stream_, rows);
    const auto prefilled = problem.PrefillAll(stream_);
    for (const Row& row : rows) {
      EXPECT_TRUE(problem.IsClose(decoded, row)) << row.position;
      EXPECT_TRUE(
          problem.IsSameAt(decoded, prefilled, {row.sequence, row.position, row.position + 1}))
          << row.position;
    }
  }
}

// Weights refer to a score that follows the largest one only when it falls far behind.
TEST_F(PagedAttentionCudaTest, ScoresMayRiseAndFallFromTileToTile) {
  for (const Shape& shape : {Shape{16, 1, 64}, Shape{4, 2, 80}, Shape{8, 2, 128}, Shape{7, 1, 256},
                             Shape{8, 2, 128, KvType::kFp8}}) {
    for (const float exponent : {-9.0f, -3.0f, 0.5f, 3.0f, 7.9f, 8.1f, 20.0f, 50.0f}) {
      SCOPED_TRACE(::testing::Message() << "heads of " << shape.head_dim << ", 2^" << exponent);
      Problem problem(shape, {1090, 200}, Distribution::kGaussian);
      problem.RaiseScores(exponent);
      const auto prefilled = problem.PrefillAll(stream_);
      const std::vector<Row> rows = {{0, 1089}, {0, 1000}, {0, 640}, {0, 127}, {0, 63}, {1, 199}};
      const auto decoded = problem.Decode(stream_, rows);
      for (const Row& row : rows) {
        EXPECT_TRUE(problem.IsClose(prefilled, row)) << row.position;
        EXPECT_TRUE(
            problem.IsSameAt(decoded, prefilled, {row.sequence, row.position, row.position + 1}))
            << row.position;
      }
    }
  }
}

// One chunk, many chunks of any size, each token as a decode row among others: the same bits.
TEST_F(PagedAttentionCudaTest, BitsDoNotDependOnTheSchedule) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(::testing::Message() << shape.num_heads << " heads, " << shape.num_kv_heads
                                      << " KV heads of " << shape.head_dim);
    Problem problem(shape, {1090, 333}, Distribution::kOutliers);
    const auto expected = problem.PrefillAll(stream_);
    EXPECT_TRUE(IsFinite(ToFloats(expected)));
    for (const int64_t sequence : {0, 1}) {
      const int64_t length = problem.length(sequence);
      for (const int64_t chunk : {1, 37, 64, 250}) {
        std::vector<Part> parts;
        for (int64_t begin = chunk == 1 ? length - 150 : 0; begin < length; begin += chunk) {
          parts.push_back({sequence, begin, std::min(begin + chunk, length)});
        }
        const auto chunked = problem.Prefill(stream_, parts);
        EXPECT_TRUE(problem.IsSameAt(chunked, expected, {sequence, parts.front().begin, length}))
            << "chunks of " << chunk;
      }
    }
    // Other numbers of blocks, and tiles of the other size.
    for (const int num_multiprocessors : {1, 7, 1000}) {
      CudaStream stream = stream_;
      stream.num_multiprocessors = num_multiprocessors;
      const auto replanned = problem.PrefillAll(stream);
      for (const int64_t sequence : {0, 1}) {
        EXPECT_TRUE(problem.IsSameAt(replanned, expected, {sequence, 0, problem.length(sequence)}))
            << num_multiprocessors << " multiprocessors";
      }
    }
    for (int64_t begin = 0; begin < 1090; begin += 1000) {
      std::vector<Row> rows;
      const int64_t end = std::min<int64_t>(begin + 1000, 1090);
      for (int64_t i = begin; i < end; ++i) rows.push_back({0, i});
      const auto decoded = problem.Decode(stream_, rows);
      EXPECT_TRUE(problem.IsSameAt(decoded, expected, {0, begin, end}));
    }
    // Other cuts of the rows into runs: whole rows, and rows in two to many parts.
    const std::vector<Row> mixed = {{0, 1089}, {1, 332},  {-1, 0}, {0, 500}, {1, 64},
                                    {0, 1023}, {0, 1024}, {1, 0},  {0, 767}};
    for (const int num_multiprocessors : {1, 2, 3, 7, 1000}) {
      CudaStream stream = stream_;
      stream.num_multiprocessors = num_multiprocessors;
      const auto decoded = problem.Decode(stream, mixed);
      for (const Row& row : mixed) {
        if (row.sequence < 0) continue;
        EXPECT_TRUE(
            problem.IsSameAt(decoded, expected, {row.sequence, row.position, row.position + 1}))
            << row.position << " on " << num_multiprocessors << " multiprocessors";
      }
    }
    for (const int64_t position : {0, 70, 127, 128, 300, 332}) {
      const auto alone = problem.Decode(stream_, {{1, position}});
      EXPECT_TRUE(problem.IsSameAt(alone, expected, {1, position, position + 1})) << position;
    }
  }
}

// Three warpgroups with 64 rows each take turns. In the last tile of a prompt some have no rows.
TEST_F(PagedAttentionCudaTest, WarpgroupsWithoutRowsLetTheOthersPass) {
  for (const Shape& shape : {Shape{2, 2, 64}, Shape{8, 2, 128}, Shape{8, 2, 128, KvType::kFp8}}) {
    SCOPED_TRACE(shape.head_dim);
    Problem problem(shape, {3000, 100, 40, 17}, Distribution::kOutliers);
    const std::vector<Part> parts = {{0, 0, 3000}, {1, 0, 100}, {2, 0, 40}, {3, 0, 17}};
    CudaStream one_block = stream_;
    one_block.num_multiprocessors = 1;
    ASSERT_EQ(problem.MakePrefillCall(one_block, parts)->params.tile_rows, kLargePrefillTileRows);
    const auto large = problem.Prefill(one_block, parts);
    for (const auto& [sequence, begin, end] : parts) {
      EXPECT_TRUE(problem.IsClose(large, {sequence, end - 1}));
      const auto alone = problem.Prefill(stream_, {{sequence, begin, end}});
      EXPECT_TRUE(problem.IsSameAt(large, alone, {sequence, begin, end}));
    }
  }
}

// The pool holds the keys of a step and nothing beyond; every other byte is NaN.
TEST_F(PagedAttentionCudaTest, KeysThatDoNotExistYetChangeNothing) {
  for (const Shape& shape : {Shape{8, 2, 128}, Shape{3, 1, 80}, Shape{2, 2, 64}, Shape{8, 1, 256},
                             Shape{8, 2, 128, KvType::kFp8}, Shape{3, 1, 96, KvType::kFp8}}) {
    SCOPED_TRACE(shape.head_dim);
    Problem problem(shape, {600, 259}, Distribution::kGaussian);
    const auto expected = problem.PrefillAll(stream_);
    for (const int64_t tokens : {1, 5, 16, 60, 129, 257, 580}) {
      problem.Fill(tokens);
      const int64_t begin = std::max<int64_t>(tokens - 40, 0);
      std::vector<Part> parts = {{0, begin, tokens}, {0, 0, 0}};
      std::vector<Row> rows = {{0, tokens - 1}};
      if (tokens <= 259) {
        parts.push_back({1, tokens / 2, tokens});
        rows.push_back({1, tokens - 1});
      }
      const auto chunked = problem.Prefill(stream_, parts);
      for (const Part& part : parts) {
        EXPECT_TRUE(problem.IsSameAt(chunked, expected, part)) << tokens;
      }
      const auto decoded = problem.Decode(stream_, rows);
      for (const Row& row : rows) {
        EXPECT_TRUE(problem.IsSameAt(decoded, expected, {row.sequence, tokens - 1, tokens}))
            << tokens;
      }
    }
  }
}

TEST_F(PagedAttentionCudaTest, OverlappedLaunchesGiveTheSameBits) {
  Problem problem({8, 2, 128}, {900}, Distribution::kGaussian);
  const auto expected = problem.PrefillAll(stream_);
  stream_.overlap_launches = true;
  const std::vector<Row> rows = {{0, 899}, {-1, 0}, {0, 300}};
  for (int i = 0; i < 5; ++i) {
    const auto decoded = problem.Decode(stream_, rows);
    EXPECT_TRUE(problem.IsSameAt(decoded, expected, {0, 899, 900}));
    EXPECT_TRUE(problem.IsSameAt(decoded, expected, {0, 300, 301}));
  }
}

// One scratch serves all layers of a step. Their launches overlap.
TEST_F(PagedAttentionCudaTest, OverlappedPrefillsShareAScratch) {
  for (const Shape& shape : {Shape{8, 1, 256}, Shape{8, 2, 128}}) {
    SCOPED_TRACE(shape.head_dim);
    const Problem problem(shape, {900, 700}, Distribution::kOutliers);
    const auto expected = problem.PrefillAll(stream_);
    CudaStream overlapped = stream_;
    overlapped.overlap_launches = true;
    std::vector<Part> parts;
    std::vector<std::unique_ptr<Problem::PrefillCall>> calls;
    for (int i = 0; i < 6; ++i) {
      // Past several borders, so that closed partial results wait in the scratch.
      parts.push_back({i % 2, 50 * i, problem.length(i % 2)});
      calls.push_back(problem.MakePrefillCall(overlapped, {parts.back()}));
      calls.back()->params.scratch = calls.front()->params.scratch;
    }
    for (const auto& call : calls) {
      EXPECT_THAT(PagedPrefillAttention(overlapped, call->params), IsOk());
    }
    for (size_t i = 0; i < calls.size(); ++i) {
      EXPECT_TRUE(problem.IsSameAt(Problem::ReadOutputs(*calls[i]), expected, parts[i])) << i;
    }
  }
}

// What a graph bucket does: the same launch, other rows, more or fewer keys, padding.
TEST_F(PagedAttentionCudaTest, AReplayedGraphFollowsWhatTheDeviceHolds) {
  Problem problem({8, 2, 128}, {900, 40}, Distribution::kGaussian);
  const auto expected = problem.PrefillAll(stream_);
  const auto call = problem.MakeDecodeCall(4);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_.handle, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_THAT(PlanPagedDecode(stream_, call->params), IsOk());
  EXPECT_THAT(PagedDecodeAttention(stream_, call->params), IsOk());
  ASSERT_EQ(cudaStreamEndCapture(stream_.handle, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  const std::vector<std::vector<Row>> steps = {{{0, 5}, {-1, 0}, {-1, 0}, {-1, 0}},
                                               {{0, 899}, {0, 700}, {1, 39}, {0, 512}},
                                               {{-1, 0}, {-1, 0}, {-1, 0}, {-1, 0}},
                                               {{1, 0}, {-1, 0}, {0, 128}, {0, 127}}};
  for (const std::vector<Row>& rows : steps) {
    problem.SetRows(rows, *call);
    ASSERT_EQ(cudaGraphLaunch(executable, stream_.handle), cudaSuccess);
    const auto decoded = problem.ReadOutputs(*call);
    for (const Row& row : rows) {
      if (row.sequence < 0) continue;
      EXPECT_TRUE(
          problem.IsSameAt(decoded, expected, {row.sequence, row.position, row.position + 1}));
    }
  }
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(PagedAttentionCudaTest, RefusesShapesItCannotTake) {
  using ::testing::HasSubstr;
  const auto status_with = [&](auto change) {
    PagedDecodeAttentionParams params = {.query_stride = 128,
                                         .output_stride = 128,
                                         .kv = {.num_kv_heads = 1, .head_dim = 64},
                                         .num_heads = 2,
                                         .num_rows = 1,
                                         .max_keys = 10};
    change(params);
    const absl::Status planned = PlanPagedDecode(stream_, params);
    EXPECT_EQ(planned, PagedDecodeAttention(stream_, params));
    return planned;
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(status_with([](auto& params) { params.kv.head_dim = 72; }),
              HasError(kInvalid, HasSubstr("72")));
  EXPECT_THAT(status_with([](auto& params) {
                params.kv.head_dim = 80;
                params.kv.type = KvType::kFp8;
              }),
              HasError(kInvalid, HasSubstr("256 for keys and values in FP8, got 80")));
  EXPECT_THAT(status_with([](auto& params) { params.num_heads = 17; }),
              HasError(kInvalid, HasSubstr("17")));
  EXPECT_THAT(status_with([](auto& params) { params.scale = 0.0f; }),
              HasError(kInvalid, HasSubstr("scale")));
  EXPECT_THAT(status_with([](auto& params) { params.query_stride = 12; }),
              HasError(kInvalid, HasSubstr("12")));
  EXPECT_THAT(status_with([](auto& params) { params.num_rows = 1025; }),
              HasError(kInvalid, HasSubstr("1025")));
  EXPECT_THAT(status_with([](auto& params) { params.max_keys = 0; }),
              HasError(kInvalid, HasSubstr("max_keys")));
  EXPECT_THAT(PagedPrefillAttention(stream_, {.query_stride = 256,
                                              .output_stride = 256,
                                              .kv = {.num_kv_heads = 1, .head_dim = 256},
                                              .num_heads = 1,
                                              .num_tiles = 1}),
              HasError(kInvalid, HasSubstr("scratch")));
  const auto tiles_of = [&](int64_t tile_rows, int64_t head_dim) {
    return PagedPrefillAttention(stream_, {.query_stride = 128,
                                           .output_stride = 128,
                                           .kv = {.num_kv_heads = 1, .head_dim = head_dim},
                                           .num_heads = 1,
                                           .tile_rows = tile_rows});
  };
  EXPECT_EQ(tiles_of(kLargePrefillTileRows, 128), absl::OkStatus()) << "there are no tiles";
  EXPECT_THAT(tiles_of(64, 128), HasError(kInvalid, HasSubstr("tiles of 64 rows")));
  EXPECT_THAT(tiles_of(kLargePrefillTileRows, 80), HasError(kInvalid, HasSubstr("head_dim 80")));
}

}  // namespace
}  // namespace lockstep::kernels
