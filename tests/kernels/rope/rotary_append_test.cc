#include "kernels/rope/rotary_append.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "kernels/core/stream.h"
#include "kernels/kv_cache/fp8_kv.h"
#include "kernels/rope/rope_table.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/core/instruction_sets.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

constexpr BFloat16 kUnused = {0xFFFF};  // NaN
constexpr float kEps = 1e-6f;
constexpr int64_t kNumBlocks = 5;

struct Shape {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  bool qk_norm = false;
};

// A batch of QKV rows and a pool full of NaN that takes their keys and values.
struct Problem {
  Problem(const Shape& shape, int64_t num_tokens, KvType type = KvType::kBFloat16)
      : shape(shape),
        type(type),
        table(
            MakeRopeTable(ComputeRopeFrequencies({}, static_cast<uint32_t>(shape.head_dim)), 100)) {
    const int64_t heads = shape.num_heads + 2 * shape.num_kv_heads;
    qkv = RandomBFloat16s(static_cast<size_t>(num_tokens * heads * shape.head_dim), 1,
                          Distribution::kOutliers);
    q_norm = RandomFloats(static_cast<size_t>(shape.head_dim), 2);
    k_norm = RandomFloats(static_cast<size_t>(shape.head_dim), 3);
    for (int64_t i = 0; i < num_tokens; ++i) {
      positions.push_back(static_cast<uint32_t>(i * 13 % 100));
      slots.push_back(static_cast<uint64_t>(i * 7 % (kNumBlocks * kKvBlockTokens)));
    }
    const int64_t block_bytes = KvBlockBytes(type, shape.num_kv_heads, shape.head_dim);
    pool.resize(static_cast<size_t>(kNumBlocks * block_bytes) / sizeof(BFloat16), kUnused);
  }

  RotaryAppendParams Params() {
    return {.qkv = qkv.data(),
            .q_norm_weight = shape.qk_norm ? q_norm.data() : nullptr,
            .k_norm_weight = shape.qk_norm ? k_norm.data() : nullptr,
            .norm_eps = kEps,
            .cos = table.cos.data(),
            .sin = table.sin.data(),
            .positions = positions.data(),
            .kv_slots = slots.data(),
            .kv = Kv(),
            .num_heads = shape.num_heads,
            .num_tokens = static_cast<int64_t>(positions.size())};
  }

  PagedKv Kv() {
    return {.data = pool.data(),
            .num_blocks = kNumBlocks,
            .num_kv_heads = shape.num_kv_heads,
            .head_dim = shape.head_dim,
            .type = type};
  }

  // Elements of one head of one token; heads count q, then k, then v.
  std::span<const BFloat16> Head(const std::vector<BFloat16>& tensor, size_t token,
                                 int64_t head) const {
    const int64_t heads = shape.num_heads + 2 * shape.num_kv_heads;
    return std::span(tensor).subspan(
        static_cast<size_t>((static_cast<int64_t>(token) * heads + head) * shape.head_dim),
        static_cast<size_t>(shape.head_dim));
  }

  Shape shape;
  KvType type;
  RopeTable table;
  std::vector<BFloat16> qkv;
  std::vector<float> q_norm;
  std::vector<float> k_norm;
  std::vector<uint32_t> positions;
  std::vector<uint64_t> slots;
  std::vector<BFloat16> pool;  // bytes, if elements are codes
};

struct Rotated {
  std::vector<double> values;
  std::vector<double> tolerance;
};

// Norm and rotation of one head in fp64, with one rounding to bf16 allowed at the end.
Rotated Rotate(std::span<const BFloat16> head, std::span<const float> norm_weight,
               uint32_t position) {
  const size_t size = head.size();
  double inverse_rms = 1.0;
  if (!norm_weight.empty()) {
    double sum = 0.0;
    for (const BFloat16 value : head) sum += std::pow(ToFloat(value), 2.0);
    inverse_rms = 1.0 / std::sqrt(sum / static_cast<double>(size) + kEps);
  }
  const auto value = [&](size_t i) {
    return ToFloat(head[i]) * inverse_rms * (norm_weight.empty() ? 1.0 : norm_weight[i]);
  };
  Rotated result;
  for (size_t i = 0; i < size; ++i) {
    const size_t pair = i % (size / 2);
    const double angle =
        position / std::pow(10000.0, 2.0 * static_cast<double>(pair) / static_cast<double>(size));
    const double first = value(pair);
    const double second = value(pair + size / 2);
    result.values.push_back(i < size / 2 ? first * std::cos(angle) - second * std::sin(angle)
                                         : second * std::cos(angle) + first * std::sin(angle));
    result.tolerance.push_back(std::abs(result.values.back()) * 0x1p-8 +
                               (std::abs(first) + std::abs(second)) * 1e-5);
  }
  return result;
}

class RotaryAppendTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  Stream Alone() const { return {.instruction_set = GetParam()}; }
};

TEST_P(RotaryAppendTest, RotatesQAndKAndStoresKAndV) {
  const Shape shapes[] = {{3, 1, 64, false}, {4, 2, 80, true}, {2, 2, 6, true}, {8, 1, 128, false}};
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(shape.head_dim);
    Problem problem(shape, 11);
    const std::vector<BFloat16> input = problem.qkv;
    ASSERT_THAT(RotaryAppend(Alone(), problem.Params()), IsOk());
    const auto norm = [&](const std::vector<float>& weight) {
      return shape.qk_norm ? std::span<const float>(weight) : std::span<const float>();
    };
    for (size_t token = 0; token < problem.positions.size(); ++token) {
      const uint32_t position = problem.positions[token];
      for (int64_t head = 0; head < shape.num_heads; ++head) {
        const Rotated expected =
            Rotate(problem.Head(input, token, head), norm(problem.q_norm), position);
        EXPECT_TRUE(IsWithin(ToFloats(problem.Head(problem.qkv, token, head)), expected.values,
                             expected.tolerance));
      }
      const int64_t block = static_cast<int64_t>(problem.slots[token] / kKvBlockTokens);
      const int64_t slot = static_cast<int64_t>(problem.slots[token] % kKvBlockTokens);
      for (int64_t head = 0; head < shape.num_kv_heads; ++head) {
        std::vector<BFloat16> key;
        std::vector<BFloat16> value;
        for (int64_t dim = 0; dim < shape.head_dim; ++dim) {
          key.push_back(KeyBlock(problem.Kv(), block, head)[KeyOffset(slot, dim)]);
          value.push_back(
              ValueBlock(problem.Kv(), block, head)[ValueOffset(slot, dim, shape.head_dim)]);
        }
        const Rotated expected = Rotate(problem.Head(input, token, shape.num_heads + head),
                                        norm(problem.k_norm), position);
        EXPECT_TRUE(IsWithin(ToFloats(key), expected.values, expected.tolerance));
        EXPECT_TRUE(IsSameBits(
            value, problem.Head(input, token, shape.num_heads + shape.num_kv_heads + head)));
      }
    }
  }
}

TEST_P(RotaryAppendTest, WritesNothingElseIntoThePool) {
  Problem problem({2, 2, 24, false}, 1);
  problem.slots = {19};
  ASSERT_THAT(RotaryAppend(Alone(), problem.Params()), IsOk());
  size_t num_written = 0;
  for (const BFloat16 element : problem.pool) num_written += !std::isnan(ToFloat(element));
  EXPECT_EQ(num_written, 2u * 2u * 24u);
}

// Elements as codes, by a plain search for the scale.
struct Encoded {
  explicit Encoded(std::span<const BFloat16> elements) {
    double largest = 0.0;
    for (const BFloat16 element : elements) {
      const double magnitude = std::abs(ToFloat(element));
      if (!std::isfinite(magnitude)) largest = magnitude;
      if (magnitude > largest) largest = magnitude;
    }
    int exponent = -112;
    while (exponent < 7 && largest > std::ldexp(448.0, exponent)) ++exponent;
    scale = static_cast<uint8_t>(std::isfinite(largest) ? kKvScaleBias + exponent : 255);
    for (const BFloat16 element : elements) {
      const float quotient = std::ldexp(ToFloat(element), -exponent);
      codes.push_back(FloatToE4M3(std::clamp(quotient, -448.0f, 448.0f)));
    }
  }
  uint8_t scale = 0;
  std::vector<uint8_t> codes;
};

// The pool that RotaryAppend must leave if it left `elements` with bf16. Everything else is unused.
std::vector<BFloat16> EncodedPool(Problem elements) {
  Problem codes(elements.shape, 0, KvType::kFp8);
  const int64_t head_dim = elements.shape.head_dim;
  for (const uint64_t slot : elements.slots) {
    const int64_t block = static_cast<int64_t>(slot / kKvBlockTokens);
    const int64_t token = static_cast<int64_t>(slot % kKvBlockTokens);
    for (int64_t head = 0; head < elements.shape.num_kv_heads; ++head) {
      std::vector<BFloat16> key;
      std::vector<BFloat16> value;
      for (int64_t dim = 0; dim < head_dim; ++dim) {
        key.push_back(KeyBlock(elements.Kv(), block, head)[KeyOffset(token, dim)]);
        value.push_back(ValueBlock(elements.Kv(), block, head)[ValueOffset(token, dim, head_dim)]);
      }
      const Encoded encoded_key(key);
      const Encoded encoded_value(value);
      KeyScales(codes.Kv(), block, head)[token] = encoded_key.scale;
      ValueScales(codes.Kv(), block, head)[token] = encoded_value.scale;
      for (int64_t dim = 0; dim < head_dim; ++dim) {
        const auto i = static_cast<size_t>(dim);
        KeyCodes(codes.Kv(), block, head)[KeyOffset(token, dim)] = encoded_key.codes[i];
        ValueCodes(codes.Kv(), block, head)[ValueOffset(token, dim, head_dim)] =
            encoded_value.codes[i];
      }
    }
  }
  return codes.pool;
}

TEST_P(RotaryAppendTest, StoresCodesOfWhatItWouldStoreAsElements) {
  const Shape shapes[] = {{3, 1, 64, false},  {4, 2, 80, true}, {2, 2, 6, true},
                          {8, 1, 128, false}, {2, 2, 24, true}, {1, 1, 512, false}};
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(shape.head_dim);
    for (const float factor : {1.0f, 0x1p-126f, 0x1p-60f, 0x1p10f, 0x1p20f}) {
      Problem elements(shape, 37);
      for (BFloat16& element : elements.qkv) element = ToBFloat16(ToFloat(element) * factor);
      Problem codes(shape, 37, KvType::kFp8);
      codes.qkv = elements.qkv;
      ASSERT_THAT(RotaryAppend(Alone(), elements.Params()), IsOk());
      ASSERT_THAT(RotaryAppend(Alone(), codes.Params()), IsOk());
      EXPECT_TRUE(IsSameBits(codes.qkv, elements.qkv));
      EXPECT_TRUE(IsSameBits(codes.pool, EncodedPool(elements))) << factor;
    }
  }
}

TEST_P(RotaryAppendTest, MarksKeysAndValuesThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    Problem problem({1, 1, 16, false}, 3, KvType::kFp8);
    problem.qkv[16 + 5] = ToBFloat16(bad);           // key of token 0
    problem.qkv[48 + 2 * 16 + 3] = ToBFloat16(bad);  // value of token 1
    ASSERT_THAT(RotaryAppend(Alone(), problem.Params()), IsOk());
    const auto scales = [&](uint64_t slot) {
      const auto block = static_cast<int64_t>(slot / kKvBlockTokens);
      return std::pair<uint32_t, uint32_t>(
          KeyScales(problem.Kv(), block, 0)[slot % kKvBlockTokens],
          ValueScales(problem.Kv(), block, 0)[slot % kKvBlockTokens]);
    };
    EXPECT_EQ(scales(problem.slots[0]).first, kNotFiniteKvScale);
    EXPECT_LE(scales(problem.slots[0]).second, kMaxKvScale);
    EXPECT_LE(scales(problem.slots[1]).first, kMaxKvScale);
    EXPECT_EQ(scales(problem.slots[1]).second, kNotFiniteKvScale);
    EXPECT_LE(scales(problem.slots[2]).first, kMaxKvScale);
    EXPECT_LE(scales(problem.slots[2]).second, kMaxKvScale);
  }
}

TEST_P(RotaryAppendTest, BitsDoNotDependOnBatchThreadsOrInstructionSet) {
  for (const bool qk_norm : {false, true}) {
    const Shape shape = {3, 1, 40, qk_norm};
    Problem expected(shape, 30);
    ASSERT_THAT(RotaryAppend(Stream{}, expected.Params()), IsOk());
    ThreadPool threads(3);
    Problem together(shape, 30);
    ASSERT_THAT(
        RotaryAppend({.threads = &threads, .instruction_set = GetParam()}, together.Params()),
        IsOk());
    EXPECT_TRUE(IsSameBits(together.qkv, expected.qkv));
    EXPECT_TRUE(IsSameBits(together.pool, expected.pool));
    Problem one_by_one(shape, 30);
    for (int64_t token = 29; token >= 0; --token) {
      RotaryAppendParams params = one_by_one.Params();
      params.qkv += token * 5 * 40;
      params.positions += token;
      params.kv_slots += token;
      params.num_tokens = 1;
      ASSERT_THAT(RotaryAppend(Alone(), params), IsOk());
    }
    EXPECT_TRUE(IsSameBits(one_by_one.qkv, expected.qkv));
    EXPECT_TRUE(IsSameBits(one_by_one.pool, expected.pool));
  }
}

TEST_P(RotaryAppendTest, RefusesHeadSizesItCannotTake) {
  for (const int64_t head_dim : {7, 514}) {
    Problem problem({1, 1, 8, false}, 1);
    RotaryAppendParams params = problem.Params();
    params.kv.head_dim = head_dim;
    EXPECT_THAT(RotaryAppend(Alone(), params),
                HasError(absl::StatusCode::kInvalidArgument,
                         ::testing::HasSubstr(std::to_string(head_dim))));
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, RotaryAppendTest, EveryInstructionSet(),
                         InstructionSetTestName);

}  // namespace
}  // namespace lockstep::kernels
