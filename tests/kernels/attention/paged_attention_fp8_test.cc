#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "kernels/attention/paged_attention.h"
#include "kernels/core/stream.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/attention/paged_attention_problem.h"
#include "tests/kernels/core/instruction_sets.h"
#include "tests/support/tensor_compare.h"

// Attention over codes has the bits of attention over bf16 elements that were rounded to codes.
namespace lockstep::kernels {
namespace {

class PagedAttentionFp8Test : public ::testing::TestWithParam<InstructionSet> {
 protected:
  Stream Alone() const { return {.instruction_set = GetParam()}; }
};

std::vector<AttentionSequence> AllSequences(const Problem& problem) {
  std::vector<AttentionSequence> parts;
  for (int64_t i = 0; i < problem.shape().num_sequences; ++i) {
    parts.push_back(problem.Part(i, 0, problem.shape().num_tokens));
  }
  return parts;
}

TEST_P(PagedAttentionFp8Test, HasTheBitsOfRoundedElementsForAnyHeadSizeAndGroup) {
  const Shape shapes[] = {{4, 4, 64, 33},     {3, 1, 64, 70},  {2, 1, 80, 40}, {4, 1, 96, 35},
                          {16, 1, 128, 20},   {7, 1, 256, 18}, {2, 2, 2, 20},  {5, 5, 22, 70},
                          {12, 4, 30, 17},    {4, 2, 24, 90},  {1, 1, 512, 9}, {8, 2, 128, 50, 2},
                          {6, 2, 48, 200, 3}, {2, 2, 16, 64}};
  for (const Distribution distribution : {Distribution::kGaussian, Distribution::kOutliers}) {
    for (const Shape& shape : shapes) {
      Problem codes(shape, distribution, KvType::kFp8);
      Problem elements(shape, distribution);
      elements.RoundToCodes();
      for (const int64_t split_keys : {int64_t{64}, kAttentionSplitKeys}) {
        for (const int64_t window : {0, 1, 5, 16, 50}) {
          const auto expected = elements.Run(Alone(), AllSequences(elements), split_keys, window);
          const auto output = codes.Run(Alone(), AllSequences(codes), split_keys, window);
          EXPECT_TRUE(IsFinite(ToFloats(expected)));
          EXPECT_TRUE(IsSameBits(output, expected))
              << shape.num_heads << " heads, " << shape.num_kv_heads << " KV heads of "
              << shape.head_dim << ", window of " << window;
        }
      }
    }
  }
}

// From scales at their smallest, with elements that have no code, to the largest ones.
TEST_P(PagedAttentionFp8Test, HasTheBitsOfRoundedElementsForAnyScale) {
  const Shape shape = {4, 2, 40, 300};
  for (const auto& [min, max] : {std::pair(-127, 13), std::pair(-30, 3), std::pair(-127, -100)}) {
    Problem codes(shape, Distribution::kGaussian, KvType::kFp8);
    Problem elements(shape, Distribution::kGaussian);
    codes.SpreadMagnitudes(min, max);
    elements.SpreadMagnitudes(min, max);
    elements.RoundToCodes();
    const auto expected = elements.Run(Alone(), AllSequences(elements));
    EXPECT_TRUE(IsFinite(ToFloats(expected)));
    EXPECT_TRUE(IsSameBits(codes.Run(Alone(), AllSequences(codes)), expected)) << min;
  }
}

// The pool is filled as far as a chunk needs. Beyond, and before the window, all bytes are 0xFF:
// the code of NaN, and the scale of what is not finite.
TEST_P(PagedAttentionFp8Test, BitsDoNotDependOnTheScheduleOrOnUnusedTokens) {
  const Shape shape = {6, 2, 48, 201, 2};
  const size_t token_elements = static_cast<size_t>(shape.num_heads * shape.head_dim);
  ThreadPool threads(3);
  const Stream team = {.threads = &threads, .instruction_set = GetParam()};
  for (const int64_t window : {0, 37}) {
    Problem problem(shape, Distribution::kOutliers, KvType::kFp8);
    const auto expected = problem.Run(Alone(), AllSequences(problem), 128, window);
    for (const int64_t chunk : {1, 5, 16, 67}) {
      for (int64_t begin = 0; begin < shape.num_tokens; begin += chunk) {
        const int64_t end = std::min(begin + chunk, shape.num_tokens);
        problem.Fill(end, window == 0 ? 0 : std::max<int64_t>(0, begin - window + 1));
        const std::vector<AttentionSequence> parts = {problem.Part(1, begin, end),
                                                      problem.Part(0, begin, end)};
        const auto output = problem.Run(begin % 2 == 0 ? team : Alone(), parts, 128, window);
        for (const AttentionSequence& part : parts) {
          const size_t first = static_cast<size_t>(part.first_token) * token_elements;
          const size_t count = static_cast<size_t>(part.num_tokens) * token_elements;
          ASSERT_TRUE(IsSameBits(std::span(output).subspan(first, count),
                                 std::span(expected).subspan(first, count)))
              << "window of " << window << ", tokens " << begin << " to " << end;
        }
      }
    }
  }
}

TEST_P(PagedAttentionFp8Test, ATokenThatIsNotFiniteReachesEveryLaterRowAndNoEarlierOne) {
  const Shape shape = {3, 1, 64, 40};
  Problem clean(shape, Distribution::kGaussian, KvType::kFp8);
  const auto expected = clean.Run(Alone(), AllSequences(clean));
  for (const bool of_value : {false, true}) {
    for (const int64_t token : {0, 17, 33}) {
      Problem problem(shape, Distribution::kGaussian, KvType::kFp8);
      problem.MakeInfinite(token, of_value);
      const auto output = problem.Run(Alone(), AllSequences(problem));
      const size_t before = static_cast<size_t>(token * 3 * 64);
      EXPECT_TRUE(IsSameBits(std::span(output).first(before), std::span(expected).first(before)));
      for (size_t i = before; i < output.size(); ++i) {
        ASSERT_FALSE(std::isfinite(ToFloat(output[i]))) << token << " " << of_value << " " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, PagedAttentionFp8Test, EveryInstructionSet(),
                         InstructionSetTestName);

}  // namespace
}  // namespace lockstep::kernels
