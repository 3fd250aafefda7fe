#include "kernels/attention/paged_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/core/stream.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/core/instruction_sets.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Shape {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t num_tokens = 0;  // of every sequence
  int64_t num_sequences = 1;
};

// Sequences with random q, k and v, their k and v in a pool of shuffled blocks. Everything of the
// pool that no token occupies is NaN.
class Problem {
 public:
  Problem(const Shape& shape, Distribution distribution) : shape_(shape) {
    const int64_t total = shape.num_sequences * shape.num_tokens;
    query_ = RandomBFloat16s(Count(total * shape.num_heads * shape.head_dim), 1, distribution);
    keys_ = RandomBFloat16s(Count(total * shape.num_kv_heads * shape.head_dim), 2, distribution);
    values_ = RandomBFloat16s(Count(total * shape.num_kv_heads * shape.head_dim), 3, distribution);
    const int64_t blocks_per_sequence = (shape.num_tokens + kKvBlockTokens - 1) / kKvBlockTokens;
    const int64_t num_blocks = shape.num_sequences * blocks_per_sequence + 2;
    std::vector<BlockId> blocks(Count(num_blocks));
    std::iota(blocks.begin(), blocks.end(), BlockId{0});
    std::shuffle(blocks.begin(), blocks.end(), std::mt19937(4));
    for (int64_t i = 0; i < shape.num_sequences; ++i) {
      const auto begin = blocks.begin() + i * blocks_per_sequence;
      tables_.emplace_back(begin, begin + blocks_per_sequence);
    }
    pool_.resize(Count(num_blocks * KvBlockElements(shape.num_kv_heads, shape.head_dim)));
    Fill(shape.num_tokens);
  }

  const Shape& shape() const { return shape_; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)); }

  // The pool as it is when every sequence has this many tokens; the rest is NaN.
  void Fill(int64_t num_tokens) {
    std::fill(pool_.begin(), pool_.end(), ToBFloat16(kNaN));
    for (int64_t sequence = 0; sequence < shape_.num_sequences; ++sequence) {
      for (int64_t token = 0; token < num_tokens; ++token) WriteToken(sequence, token);
    }
  }

  AttentionSequence Part(int64_t sequence, int64_t begin, int64_t end) const {
    return {.first_token = sequence * shape_.num_tokens + begin,
            .num_tokens = end - begin,
            .first_position = begin,
            .block_table = tables_[Count(sequence)].data()};
  }

  // Runs the parts in one call. Returns all outputs; tokens that are in no part have NaN.
  std::vector<BFloat16> Run(const Stream& stream, const std::vector<AttentionSequence>& parts,
                            int64_t split_keys = kAttentionSplitKeys) {
    std::vector<BFloat16> output(query_.size(), ToBFloat16(kNaN));
    const int64_t stride = shape_.num_heads * shape_.head_dim;
    EXPECT_THAT(PagedAttention(stream, {.query = query_.data(),
                                        .query_stride = stride,
                                        .output = output.data(),
                                        .output_stride = stride,
                                        .kv = Kv(),
                                        .sequences = parts,
                                        .num_heads = shape_.num_heads,
                                        .scale = scale(),
                                        .split_keys = split_keys}),
                IsOk());
    return output;
  }

  PagedKv Kv() {
    return {.data = pool_.data(),
            .num_blocks = static_cast<int64_t>(
                pool_.size() / Count(KvBlockElements(shape_.num_kv_heads, shape_.head_dim))),
            .num_kv_heads = shape_.num_kv_heads,
            .head_dim = shape_.head_dim};
  }

  // One element of the operands; `token` counts over all sequences.
  double Query(int64_t token, int64_t head, int64_t dim) const {
    return At(query_, token, head, dim, shape_.num_heads);
  }
  double Key(int64_t token, int64_t kv_head, int64_t dim) const {
    return At(keys_, token, kv_head, dim, shape_.num_kv_heads);
  }
  double Value(int64_t token, int64_t kv_head, int64_t dim) const {
    return At(values_, token, kv_head, dim, shape_.num_kv_heads);
  }

 private:
  static size_t Count(int64_t count) { return static_cast<size_t>(count); }

  double At(const std::vector<BFloat16>& tensor, int64_t token, int64_t head, int64_t dim,
            int64_t num_heads) const {
    return ToFloat(tensor[Count((token * num_heads + head) * shape_.head_dim + dim)]);
  }

  void WriteToken(int64_t sequence, int64_t token) {
    const PagedKv kv = Kv();
    const BlockId block = tables_[Count(sequence)][Count(token / kKvBlockTokens)];
    const int64_t slot = token % kKvBlockTokens;
    const int64_t batch_token = sequence * shape_.num_tokens + token;
    for (int64_t head = 0; head < shape_.num_kv_heads; ++head) {
      for (int64_t dim = 0; dim < shape_.head_dim; ++dim) {
        const size_t from =
            Count((batch_token * shape_.num_kv_heads + head) * shape_.head_dim + dim);
        KeyBlock(kv, block, head)[KeyOffset(slot, dim)] = keys_[from];
        ValueBlock(kv, block, head)[ValueOffset(slot, dim, shape_.head_dim)] = values_[from];
      }
    }
  }

  Shape shape_;
  std::vector<BFloat16> query_;  // [sequences * tokens, num_heads, head_dim]
  std::vector<BFloat16> keys_;   // [sequences * tokens, num_kv_heads, head_dim]
  std::vector<BFloat16> values_;
  std::vector<std::vector<BlockId>> tables_;
  std::vector<BFloat16> pool_;
};

struct Reference {
  std::vector<double> values;
  std::vector<double> tolerance;
};

// One query row in fp64. The tolerance follows the roundings: head_dim products per score, a
// relative error of the weights of twice that, as many additions as keys, one rounding to bf16.
void AppendReferenceRow(const Problem& problem, int64_t token, int64_t head, Reference& reference) {
  const Shape& shape = problem.shape();
  const int64_t first_key = token / shape.num_tokens * shape.num_tokens;
  const int64_t kv_head = head / (shape.num_heads / shape.num_kv_heads);
  std::vector<double> scores;
  double score_error = 0.0;
  for (int64_t key = first_key; key <= token; ++key) {
    double score = 0.0;
    double magnitude = 0.0;
    for (int64_t dim = 0; dim < shape.head_dim; ++dim) {
      const double product = problem.Query(token, head, dim) * problem.Key(key, kv_head, dim);
      score += product;
      magnitude += std::abs(product);
    }
    scores.push_back(score * problem.scale());
    score_error = std::max(score_error, static_cast<double>(shape.head_dim + 2) * 0x1p-24 *
                                            magnitude * problem.scale());
  }
  const double max = *std::max_element(scores.begin(), scores.end());
  double sum = 0.0;
  for (double& score : scores) sum += score = std::exp(score - max);
  const double relative = 2.0 * score_error + static_cast<double>(scores.size() + 16) * 0x1p-23;
  for (int64_t dim = 0; dim < shape.head_dim; ++dim) {
    double value = 0.0;
    double magnitude = 0.0;
    for (size_t i = 0; i < scores.size(); ++i) {
      const double v = problem.Value(first_key + static_cast<int64_t>(i), kv_head, dim);
      value += scores[i] / sum * v;
      magnitude += scores[i] / sum * std::abs(v);
    }
    reference.values.push_back(value);
    reference.tolerance.push_back(std::abs(value) * 0x1p-8 + magnitude * relative * 1.01);
  }
}

Reference ComputeReference(const Problem& problem) {
  Reference reference;
  const Shape& shape = problem.shape();
  for (int64_t token = 0; token < shape.num_sequences * shape.num_tokens; ++token) {
    for (int64_t head = 0; head < shape.num_heads; ++head) {
      AppendReferenceRow(problem, token, head, reference);
    }
  }
  return reference;
}

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
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, PagedAttentionTest, EveryInstructionSet(),
                         InstructionSetTestName);

}  // namespace
}  // namespace lockstep::kernels
