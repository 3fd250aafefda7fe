// Decode rows that share keys, and the plan that says which do.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/attention/decode/decode_plan.cuh"
#include "kernels/attention/paged_attention_cuda.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/attention/paged_attention_cuda_problem.h"

namespace lockstep::kernels {
namespace {

using attention_test::PagedAttentionCudaTest;
using attention_test::Part;
using attention_test::Problem;
using attention_test::Row;
using attention_test::Shape;
using attention_test::SharedPrefix;

// The last row of each of the first `num_sequences` sequences.
std::vector<Row> LastRows(const Problem& problem, int64_t num_sequences) {
  std::vector<Row> rows;
  for (int64_t sequence = 0; sequence < num_sequences; ++sequence) {
    rows.push_back({sequence, problem.length(sequence) - 1});
  }
  return rows;
}

// Rows that read their first keys together give what each gives alone, however many they are,
// however much they have in common, and wherever their runs are cut.
TEST_F(PagedAttentionCudaTest, RowsWithACommonPrefixGiveTheSameBits) {
  constexpr Shape kGroups[] = {{2, 2, 64},
                               {9, 3, 64},
                               {8, 2, 128},
                               {7, 1, 256},
                               {16, 2, 128},
                               {16, 1, 64},
                               {4, 2, 80},
                               {2, 1, 16},
                               {8, 2, 128, KvType::kFp8},
                               {9, 3, 64, KvType::kFp8}};
  for (const Shape& shape : kGroups) {
    SCOPED_TRACE(::testing::Message() << shape.num_heads << " heads, " << shape.num_kv_heads
                                      << " KV heads of " << shape.head_dim);
    // Seven that share 2,048 tokens and two of them 400 more; three that share 640; two that share
    // too little; two alone.
    std::vector<SharedPrefix> prefixes;
    for (int64_t i = 1; i < 7; ++i) prefixes.push_back({i, 0, 2048});
    prefixes.push_back({6, 5, 2448});
    prefixes.push_back({8, 7, 640});
    prefixes.push_back({9, 7, 640});
    prefixes.push_back({11, 10, 112});
    Problem problem(shape,
                    {2049, 2100, 2240, 2305, 2561, 2500, 2600, 641, 700, 1500, 300, 129, 900, 64},
                    Distribution::kOutliers, prefixes);
    std::vector<Row> rows;
    for (int64_t sequence = 0; sequence < 14; ++sequence) {
      rows.push_back({sequence, problem.length(sequence) - 1});
    }
    std::shuffle(rows.begin(), rows.end(), std::mt19937(8));
    rows.insert(rows.begin() + 5, {-1, 0});
    std::vector<Part> parts;
    for (const Row& row : rows) {
      if (row.sequence >= 0) parts.push_back({row.sequence, row.position, row.position + 1});
    }
    const auto expected = problem.Prefill(stream_, parts);
    for (const Row& row : {Row{0, 2048}, Row{6, 2599}, Row{9, 1499}}) {
      EXPECT_TRUE(problem.IsClose(expected, row)) << "sequence " << row.sequence;
    }
    for (const int num_multiprocessors : {1, 2, 3, 7, 40, 132, 1000}) {
      CudaStream stream = stream_;
      stream.num_multiprocessors = num_multiprocessors;
      const auto decoded = problem.Decode(stream, rows);
      for (const Part& part : parts) {
        EXPECT_TRUE(problem.IsSameAt(decoded, expected, part))
            << "sequence " << part.sequence << " on " << num_multiprocessors << " multiprocessors";
      }
    }
    for (const Part& part : parts) {
      const auto alone = problem.Decode(stream_, {{part.sequence, part.begin}});
      EXPECT_TRUE(problem.IsSameAt(alone, expected, part)) << "sequence " << part.sequence;
    }
  }
}

// What the planner makes of rows is seen in the plan alone: it changes no result.
TEST_F(PagedAttentionCudaTest, RowsWithACommonPrefixArePlannedTogether) {
  const Shape shape = {8, 2, 128};
  std::vector<SharedPrefix> prefixes;
  for (int64_t i = 1; i < 6; ++i) prefixes.push_back({i, 0, 2048});
  prefixes.push_back({7, 6, 768});
  prefixes.push_back({9, 8, 112});  // less than a split
  Problem problem(shape, {2049, 2500, 2500, 2500, 2500, 2500, 900, 900, 900, 900},
                  Distribution::kGaussian, prefixes);
  const std::vector<Row> rows = LastRows(problem, 10);
  const auto call = problem.MakeDecodeCall(rows.size());
  problem.SetRows(rows, *call);
  EXPECT_THAT(PlanPagedDecode(stream_, call->params), IsOk());
  EXPECT_THAT(PagedDecodeAttention(stream_, call->params), IsOk());
  problem.ReadOutputs(*call);
  std::vector<int32_t> plan = call->plan.Read();
  const DecodePlanMemory memory(plan.data(), static_cast<int>(rows.size()),
                                MaxDecodeRuns(stream_, call->params));
  // Four heads share a KV head, so four rows at most share a product: of the six of a prefix four
  // and two. All have the 10 splits of 2,048 keys in common. Of 768 keys 5 splits are whole.
  const auto shape_of = [](const DecodeStrand& strand) {
    return std::tuple(strand.num_rows, strand.first_split, strand.num_splits);
  };
  EXPECT_EQ(shape_of(memory.shared_strands[0]), std::tuple(4, 0, 10));
  EXPECT_EQ(shape_of(memory.shared_strands[1]), std::tuple(2, 0, 10));
  EXPECT_EQ(shape_of(memory.shared_strands[2]), std::tuple(2, 0, 5));
  for (const int row : {0, 5}) {
    EXPECT_EQ(shape_of(memory.own_strands[row]), std::tuple(1, 10, 1));
  }
  EXPECT_EQ(shape_of(memory.own_strands[6]), std::tuple(1, 5, 1));
  EXPECT_EQ(shape_of(memory.own_strands[8]), std::tuple(1, 0, 6));
  EXPECT_EQ(shape_of(memory.own_strands[9]), std::tuple(1, 0, 6));
}

// Each block reads where it begins, with the numbers of the blocks of its first keys.
TEST_F(PagedAttentionCudaTest, ThePlanSaysWhereEveryBlockBegins) {
  const Shape shape = {8, 2, 128};
  const std::vector<int64_t> lengths = {592, 40, 592, 3000};
  Problem problem(shape, lengths, Distribution::kGaussian, {});
  const std::vector<Row> rows = LastRows(problem, 4);
  const auto call = problem.MakeDecodeCall(rows.size());
  problem.SetRows(rows, *call);
  EXPECT_THAT(PlanPagedDecode(stream_, call->params), IsOk());
  problem.ReadOutputs(*call);
  std::vector<int32_t> plan = call->plan.Read();
  const int max_runs = MaxDecodeRuns(stream_, call->params);
  const DecodePlanMemory memory(plan.data(), static_cast<int>(rows.size()), max_runs);
  const std::vector<BlockId> tables = call->tables.Read();
  std::set<std::pair<int, int>> begins;  // row and split
  for (int run = 0; run < max_runs; ++run) {
    const DecodeStart& start = memory.starts[run];
    if (start.walk.AtEnd()) continue;
    const DecodeStrand& strand = start.walk.Strand();
    EXPECT_TRUE(begins.emplace(strand.row, start.walk.Split()).second);
    const SplitKeys keys = KeysOf(start.walk);
    EXPECT_LE(keys.end, lengths[static_cast<size_t>(strand.row)]);
    for (int page = 0; page < std::min(keys.NumPages(), kPagesOfWarp); ++page) {
      const int64_t place =
          strand.block_table * call->params.block_table_stride + keys.FirstPage() + page;
      EXPECT_EQ(start.pages[page], tables[static_cast<size_t>(place)])
          << "run " << run << " page " << page;
    }
  }
  // Of 4 rows with 5, 1, 5 and 12 splits. A run ends with row 1, so no run begins there.
  EXPECT_EQ(begins.size(), 22u);
  for (const int row : {0, 2, 3}) EXPECT_TRUE(begins.contains({row, 0})) << "row " << row;
}

}  // namespace
}  // namespace lockstep::kernels
