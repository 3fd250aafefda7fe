// Attention that reads a window of the latest tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "kernels/attention/paged_attention.h"
#include "kernels/core/stream.h"
#include "tests/kernels/attention/attention_reference.h"
#include "tests/kernels/attention/paged_attention_problem.h"
#include "tests/kernels/core/instruction_sets.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

// Around the sizes of blocks (16), of tiles of keys (64), and of splits (here 64 and 128).
#ifdef LOCKSTEP_SANITIZED
constexpr int64_t kWindows[] = {17, 65};
#else
constexpr int64_t kWindows[] = {1, 2, 15, 16, 17, 32, 33, 63, 64, 65, 100, 128, 129, 512};
#endif

int64_t FirstKey(int64_t position, int64_t window) {
  return std::max<int64_t>(position - window + 1, 0);
}

// The table of a part that needs no key before `first_key`. The blocks before that were evicted,
// and their entries name no block of the pool.
std::vector<BlockId> TableFrom(const AttentionSequence& part, int64_t first_key) {
  const int64_t num_keys = part.first_position + part.num_tokens;
  const int64_t num_blocks = (num_keys + kKvBlockTokens - 1) / kKvBlockTokens;
  std::vector<BlockId> table(part.block_table, part.block_table + num_blocks);
  std::fill(table.begin(), table.begin() + first_key / kKvBlockTokens, BlockId{0x7FFFFFFF});
  return table;
}

class PagedAttentionWindowTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  Stream Alone() const { return {.instruction_set = GetParam()}; }
};

// Tiles of query rows hold one token or several, whose windows differ.
TEST_P(PagedAttentionWindowTest, IsCloseToTheReference) {
  const Shape shapes[] = {{1, 1, 16, 300}, {3, 1, 32, 300}, {6, 2, 16, 300}, {7, 1, 48, 300}};
  for (const Shape& shape : shapes) {
    Problem problem(shape, Distribution::kOutliers);
    for (const int64_t window : kWindows) {
      SCOPED_TRACE(::testing::Message() << shape.num_heads << " heads, window of " << window);
      const Reference reference = ComputeReference(problem, window);
      for (const int64_t split_keys : {int64_t{64}, int64_t{128}, kAttentionSplitKeys}) {
        const auto output =
            problem.Run(Alone(), {problem.Part(0, 0, shape.num_tokens)}, split_keys, window);
        EXPECT_TRUE(IsWithin(ToFloats(output), reference.values, reference.tolerance))
            << "borders every " << split_keys;
      }
    }
  }
}

// The reference would notice a window of one token more or less.
TEST_P(PagedAttentionWindowTest, TheReferenceTellsNeighbouringWindowsApart) {
  const Shape shape = {2, 1, 32, 200};
  Problem problem(shape, Distribution::kGaussian);
  for (const int64_t window : {2, 16, 33, 100}) {
    for (const int64_t wrong : {window - 1, window + 1}) {
      const Reference reference = ComputeReference(problem, wrong);
      const auto output =
          problem.Run(Alone(), {problem.Part(0, 0, shape.num_tokens)}, kAttentionSplitKeys, window);
      EXPECT_FALSE(IsWithin(ToFloats(output), reference.values, reference.tolerance))
          << window << " against " << wrong;
    }
  }
}

TEST_P(PagedAttentionWindowTest, ReachesAcrossTheBordersOfServing) {
  const Shape shape = {2, 1, 16, 2 * kAttentionSplitKeys + 200};
  Problem problem(shape, Distribution::kGaussian);
  const int64_t begin = shape.num_tokens - 240;
  const size_t first_element = static_cast<size_t>(begin * shape.num_heads * shape.head_dim);
  for (const int64_t window : {int64_t{100}, int64_t{512}, kAttentionSplitKeys + 1}) {
    const Reference reference = ComputeReference(problem, window, begin);
    const auto output = problem.Run(Alone(), {problem.Part(0, begin, shape.num_tokens)},
                                    kAttentionSplitKeys, window);
    EXPECT_TRUE(IsWithin(ToFloats(std::span(output).subspan(first_element)), reference.values,
                         reference.tolerance))
        << window;
  }
}

TEST_P(PagedAttentionWindowTest, AWindowOfTheWholeTextChangesNoBit) {
  const Shape shape = {6, 2, 48, 201};
  Problem problem(shape, Distribution::kGaussian);
  const std::vector<AttentionSequence> whole = {problem.Part(0, 0, shape.num_tokens)};
  const auto without = problem.Run(Alone(), whole, 64);
  for (const int64_t window : {201, 202, 100'000}) {
    EXPECT_TRUE(IsSameBits(problem.Run(Alone(), whole, 64, window), without)) << window;
  }
  const auto shorter = problem.Run(Alone(), whole, 64, 200);
  const size_t last_token = without.size() - static_cast<size_t>(shape.num_heads * shape.head_dim);
  EXPECT_TRUE(
      IsSameBits(std::span(shorter).first(last_token), std::span(without).first(last_token)));
  EXPECT_FALSE(IsSameBits(shorter, without));
}

// Where the cut is that a chunk of `num_tokens` ends at: `chunk` tokens, or a random number.
int64_t NextEnd(int64_t begin, int64_t chunk, int64_t num_tokens, std::mt19937& generator) {
  const int64_t step = chunk > 0 ? chunk : std::uniform_int_distribution<int64_t>(1, 70)(generator);
  return std::min(begin + step, num_tokens);
}

// Whole texts, single tokens and random chunks, with other batch mates and several threads: the
// same bits. What lies before the window of a chunk's first token is gone: its blocks hold NaN, and
// the table names no block of the pool.
TEST_P(PagedAttentionWindowTest, BitsDependOnNeitherScheduleNorEviction) {
  const Shape shape = {6, 2, 32, 333, 2};
  Problem problem(shape, Distribution::kGaussian);
  ThreadPool threads(3);
  const Stream team = {.threads = &threads, .instruction_set = GetParam()};
  const size_t token_elements = static_cast<size_t>(shape.num_heads * shape.head_dim);
  std::mt19937 generator(7);
  for (const int64_t window : kWindows) {
    for (const int64_t split_keys : {int64_t{64}, kAttentionSplitKeys}) {
      problem.Fill(shape.num_tokens);
      const std::vector<BFloat16> expected = problem.Run(
          Alone(), {problem.Part(0, 0, 333), problem.Part(1, 0, 333)}, split_keys, window);
      ASSERT_TRUE(IsFinite(ToFloats(expected)));
      for (const int64_t chunk : {1, 0, 67}) {
        int64_t end = 0;
        for (int64_t begin = 0; begin < shape.num_tokens; begin = end) {
          end = NextEnd(begin, chunk, shape.num_tokens, generator);
          const int64_t first_key = FirstKey(begin, window);
          problem.Fill(end, first_key);
          std::vector<AttentionSequence> parts = {problem.Part(1, begin, end),
                                                  problem.Part(0, begin, end)};
          const std::vector<BlockId> tables[] = {TableFrom(parts[0], first_key),
                                                 TableFrom(parts[1], first_key)};
          for (size_t i = 0; i < parts.size(); ++i) parts[i].block_table = tables[i].data();
          if (begin % 3 == 1) parts.pop_back();
          const auto output =
              problem.Run(begin % 2 == 0 ? team : Alone(), parts, split_keys, window);
          for (const AttentionSequence& part : parts) {
            const size_t first = static_cast<size_t>(part.first_token) * token_elements;
            const size_t count = static_cast<size_t>(part.num_tokens) * token_elements;
            ASSERT_TRUE(IsSameBits(std::span(output).subspan(first, count),
                                   std::span(expected).subspan(first, count)))
                << "window of " << window << ", tokens " << begin << " to " << end
                << ", borders every " << split_keys;
          }
        }
      }
    }
  }
}

// Tiles and borders are where they are without a window, aligned to position 0. So a text that lost
// its beginning gives the same bits, if the lost part ends at a border.
TEST_P(PagedAttentionWindowTest, TilesAndBordersStayWhereTheyAre) {
  const Shape shape = {8, 2, 64, 1200};
  constexpr int64_t kSplitKeys = 128;
  constexpr int64_t kWindow = 100;
  Problem problem(shape, Distribution::kGaussian);
  const auto expected =
      problem.Run(Alone(), {problem.Part(0, 0, shape.num_tokens)}, kSplitKeys, kWindow);
  const auto tail_from = [&](int64_t begin, int64_t lost) {
    AttentionSequence part = problem.Part(0, begin, shape.num_tokens);
    part.first_position -= lost;
    part.block_table += lost / kKvBlockTokens;
    const auto output = problem.Run(Alone(), {part}, kSplitKeys, kWindow);
    const size_t first = static_cast<size_t>(begin * shape.num_heads * shape.head_dim);
    return IsSameBits(std::span(output).subspan(first), std::span(expected).subspan(first));
  };
  EXPECT_TRUE(tail_from(256 + kWindow - 1, 256));
  EXPECT_FALSE(tail_from(256 + kWindow - 1, 16)) << "the tiles are cut elsewhere";
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, PagedAttentionWindowTest, EveryInstructionSet(),
                         InstructionSetTestName);

}  // namespace
}  // namespace lockstep::kernels
