#include "kernels/attention/paged_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/core/stream.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/attention/attention_reference.h"
#include "tests/kernels/attention/paged_attention_problem.h"
#include "tests/kernels/core/instruction_sets.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

class PagedAttentionTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  Stream Alone() const { return {.instruction_set = GetParam()}; }
};

TEST_P(PagedAttentionTest, IsCloseToTheReferenceForAnyHeadSizeAndGroup) {
  const Shape shapes[] = {{4, 4, 64, 33},   {3, 1, 64, 70},  {2, 1, 80, 40},  {4, 1, 96, 35},
                          {16, 1, 128, 20}, {7, 1, 256, 18}, {10, 2, 16, 90}, {2, 2, 2, 20},
                          {5, 5, 22, 70},   {12, 4, 30, 17}};
  for (const Distribution distribution : {Distribution::kGaussian, Distribution::kOutliers}) {
    for (const Shape& shape : shapes) {
      SCOPED_TRACE(::testing::Message() << shape.num_heads << " heads, " << shape.num_kv_heads
                                        << " KV heads of " << shape.head_dim);
      Problem problem(shape, distribution);
      const Reference reference = ComputeReference(problem);
      const auto output = problem.Run(Alone(), {problem.Part(0, 0, shape.num_tokens)});
      EXPECT_TRUE(IsWithin(ToFloats(output), reference.values, reference.tolerance));
    }
  }
}

TEST_P(PagedAttentionTest, SplitsChangeTheRoundingButNotTheResult) {
  Problem problem({.num_heads = 2, .num_kv_heads = 1, .head_dim = 32, .num_tokens = 333},
                  Distribution::kOutliers);
  const Reference reference = ComputeReference(problem);
  const std::vector<AttentionSequence> whole = {problem.Part(0, 0, 333)};
  const auto unsplit = problem.Run(Alone(), whole);
  for (const int64_t split_keys : {64, 128, 192, 320}) {
    const auto output = problem.Run(Alone(), whole, split_keys);
    EXPECT_TRUE(IsWithin(ToFloats(output), reference.values, reference.tolerance)) << split_keys;
    // Rows before the first border know nothing of it.
    const size_t before = static_cast<size_t>(split_keys * 2 * 32);
    EXPECT_TRUE(IsSameBits(std::span(output).first(before), std::span(unsplit).first(before)));
  }
}

// Chunks, single tokens, any order of the parts, batch mates, several threads: the same bits. The
// pool is filled as far as the chunk needs, NaN beyond.
TEST_P(PagedAttentionTest, BitsDoNotDependOnTheSchedule) {
  for (const int64_t split_keys : {int64_t{64}, int64_t{128}, kAttentionSplitKeys}) {
    const Shape shape = {6, 2, 48, 201, 3};
    Problem problem(shape, Distribution::kOutliers);
    std::vector<AttentionSequence> whole;
    for (int64_t i = 0; i < 3; ++i) whole.push_back(problem.Part(i, 0, shape.num_tokens));
    const std::vector<BFloat16> expected = problem.Run(Alone(), whole, split_keys);
    EXPECT_TRUE(IsFinite(ToFloats(expected)));
    const size_t token_elements = static_cast<size_t>(shape.num_heads * shape.head_dim);

    ThreadPool threads(3);
    const Stream team = {.threads = &threads, .instruction_set = GetParam()};
    for (const int64_t chunk : {1, 5, 16, 64, 67}) {
      for (int64_t begin = 0; begin < shape.num_tokens; begin += chunk) {
        const int64_t end = std::min(begin + chunk, shape.num_tokens);
        problem.Fill(end);
        std::vector<AttentionSequence> parts;
        for (const int64_t i : {2, 0, 1}) parts.push_back(problem.Part(i, begin, end));
        if (begin % 3 == 1) parts.pop_back();
        const auto output = problem.Run(begin % 2 == 0 ? team : Alone(), parts, split_keys);
        for (const AttentionSequence& part : parts) {
          const size_t first = static_cast<size_t>(part.first_token) * token_elements;
          const size_t count = static_cast<size_t>(part.num_tokens) * token_elements;
          ASSERT_TRUE(IsSameBits(std::span(output).subspan(first, count),
                                 std::span(expected).subspan(first, count)))
              << "chunk of " << chunk << " at " << begin << ", borders every " << split_keys;
        }
      }
    }
  }
}

// A later token of the same chunk may be anything: earlier rows never touch it.
TEST_P(PagedAttentionTest, LaterTokensOfAChunkNeverReachEarlierRows) {
  const Shape shape = {3, 1, 64, 40};
  Problem problem(shape, Distribution::kGaussian);
  const auto expected = problem.Run(Alone(), {problem.Part(0, 0, 40)});
  for (const int64_t poisoned : {1, 17, 33, 39}) {
    problem.Fill(poisoned);  // NaN from here on
    const auto output = problem.Run(Alone(), {problem.Part(0, 0, 40)});
    const size_t clean = static_cast<size_t>(poisoned * 3 * 64);
    EXPECT_TRUE(IsSameBits(std::span(output).first(clean), std::span(expected).first(clean)));
    EXPECT_TRUE(std::isnan(ToFloat(output[clean])));
  }
}

TEST_P(PagedAttentionTest, RefusesShapesItCannotTake) {
  Problem problem({.num_heads = 2, .num_kv_heads = 2, .head_dim = 8, .num_tokens = 1},
                  Distribution::kGaussian);
  const auto status_with = [&](auto change) {
    const std::vector<AttentionSequence> parts = {problem.Part(0, 0, 1)};
    std::vector<BFloat16> output(16);
    PagedAttentionParams params = {.query = output.data(),
                                   .query_stride = 16,
                                   .output = output.data(),
                                   .output_stride = 16,
                                   .kv = problem.Kv(),
                                   .sequences = parts,
                                   .num_heads = 2};
    change(params);
    return PagedAttention(Alone(), params);
  };
  using ::testing::HasSubstr;
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(status_with([](auto& params) { params.kv.head_dim = 7; }),
              HasError(kInvalid, HasSubstr("7")));
  EXPECT_THAT(status_with([](auto& params) { params.kv.head_dim = 514; }),
              HasError(kInvalid, HasSubstr("514")));
  EXPECT_THAT(status_with([](auto& params) { params.num_heads = 3; }),
              HasError(kInvalid, HasSubstr("3 heads")));
  EXPECT_THAT(status_with([](auto& params) { params.split_keys = 100; }),
              HasError(kInvalid, HasSubstr("100")));
  EXPECT_THAT(status_with([](auto& params) { params.window_tokens = -1; }),
              HasError(kInvalid, HasSubstr("window_tokens must not be negative, got -1")));
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, PagedAttentionTest, EveryInstructionSet(),
                         InstructionSetTestName);

}  // namespace
}  // namespace lockstep::kernels
