#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "kernels/core/stream.h"
#include "kernels/kv_cache/device_paged_kv.h"
#include "kernels/kv_cache/fp8_kv.h"
#include "kernels/norm/rms_norm.h"
#include "kernels/rope/rope_table.h"
#include "kernels/rope/rotary_append.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/kv_cache/round_to_codes.h"
#include "tests/support/cuda_test.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

using ::lockstep::testing::CudaTest;
using ::lockstep::testing::DeviceArray;

constexpr int64_t kNumBlocks = 7;
constexpr uint32_t kNumPositions = 300;

size_t Size(int64_t count) { return static_cast<size_t>(count); }

struct Shape {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  bool q_norm = false;
  bool k_norm = false;
  KvType type = KvType::kBFloat16;
};

constexpr BFloat16 kUnwritten = {0xFFFF};

// A batch of QKV rows on the host, and what the op needs beside it. Every third token is padding.
class Problem {
 public:
  Problem(const Shape& shape, int64_t num_tokens)
      : shape_(shape),
        table_(MakeRopeTable(ComputeRopeFrequencies({}, static_cast<uint32_t>(shape.head_dim)),
                             kNumPositions)),
        q_norm_(RandomFloats(Size(shape.head_dim), 2)),
        k_norm_(RandomFloats(Size(shape.head_dim), 3)),
        qkv_(RandomBFloat16s(Size(num_tokens * RowElements()), 1, Distribution::kOutliers)) {
    for (int64_t i = 0; i < num_tokens; ++i) {
      const bool padding = i % 3 == 2;
      positions_.push_back(padding ? UINT32_MAX : static_cast<uint32_t>(i * 13 % kNumPositions));
      slots_.push_back(padding ? kNoKvSlot
                               : static_cast<uint64_t>(i * 5 % (kNumBlocks * kKvBlockTokens)));
    }
  }

  struct Result {
    std::vector<BFloat16> qkv;
    std::vector<BFloat16> keys;    // [num_blocks, 16, num_kv_heads, head_dim]
    std::vector<BFloat16> values;  // likewise; NaN where nothing was written
  };

  // The tokens begin .. end - 1 in one call.
  Result RunOnDevice(const CudaStream& stream, int64_t begin, int64_t end) const {
    const auto slice = [&](const auto& values, int64_t per_token) {
      return std::span(values).subspan(Size(begin * per_token), Size((end - begin) * per_token));
    };
    const DeviceArray<BFloat16> qkv(slice(qkv_, RowElements()));
    const DeviceArray<float> q_norm(q_norm_);
    const DeviceArray<float> k_norm(k_norm_);
    const DeviceArray<float> cos(table_.cos);
    const DeviceArray<float> sin(table_.sin);
    const DeviceArray<uint32_t> positions(slice(positions_, 1));
    const DeviceArray<uint64_t> slots(slice(slots_, 1));
    const DeviceArray<uint8_t> pool(
        Size(kNumBlocks * shape_.num_kv_heads * DeviceKvHeadBytes(shape_.type, shape_.head_dim)));
    RotaryAppendParams params = Params();
    params.qkv = qkv.data();
    params.q_norm_weight = shape_.q_norm ? q_norm.data() : nullptr;
    params.k_norm_weight = shape_.k_norm ? k_norm.data() : nullptr;
    params.cos = cos.data();
    params.sin = sin.data();
    params.positions = positions.data();
    params.kv_slots = slots.data();
    params.kv.data = pool.data();
    params.num_tokens = end - begin;
    EXPECT_THAT(RotaryAppend(stream, params), IsOk());
    Result result = {qkv.Read(), {}, {}};
    qkv.ExpectGuardsIntact();
    pool.ExpectGuardsIntact();
    std::vector<uint8_t> host_pool = pool.Read();
    params.kv.data = host_pool.data();
    ForEveryElement([&](int64_t block, int token, int64_t head, int dim) {
      if (shape_.type == KvType::kFp8) {
        const int offset = DeviceKvCodeOffset(token, dim, static_cast<int>(shape_.head_dim));
        const auto element = [&](const uint8_t* codes, const uint8_t* scales) {
          return scales[token] == 0xFF ? kUnwritten : KvElement(codes[offset], scales[token]);
        };
        result.keys.push_back(element(DeviceKeyCodes(params.kv, block, head),
                                      DeviceKeyScales(params.kv, block, head)));
        result.values.push_back(element(DeviceValueCodes(params.kv, block, head),
                                        DeviceValueScales(params.kv, block, head)));
        return;
      }
      const int offset = DeviceKvOffset(token, dim, static_cast<int>(shape_.head_dim));
      result.keys.push_back(DeviceKeys(params.kv, block, head)[offset]);
      result.values.push_back(DeviceValues(params.kv, block, head)[offset]);
    });
    return result;
  }

  // The CPU op with bf16, token by token; it knows no padding.
  Result RunOnHost() const {
    Result result = {qkv_, {}, {}};
    std::vector<BFloat16> pool(
        Size(kNumBlocks * KvBlockElements(shape_.num_kv_heads, shape_.head_dim)), kUnwritten);
    RotaryAppendParams params = Params();
    params.kv.type = KvType::kBFloat16;
    params.q_norm_weight = shape_.q_norm ? q_norm_.data() : nullptr;
    params.k_norm_weight = shape_.k_norm ? k_norm_.data() : nullptr;
    params.cos = table_.cos.data();
    params.sin = table_.sin.data();
    params.kv.data = pool.data();
    params.num_tokens = 1;
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i] == kNoKvSlot) continue;
      params.qkv = result.qkv.data() + i * Size(RowElements());
      params.positions = &positions_[i];
      params.kv_slots = &slots_[i];
      EXPECT_THAT(RotaryAppend(Stream{}, params), IsOk());
    }
    ForEveryElement([&](int64_t block, int token, int64_t head, int dim) {
      result.keys.push_back(KeyBlock(params.kv, block, head)[KeyOffset(token, dim)]);
      result.values.push_back(
          ValueBlock(params.kv, block, head)[ValueOffset(token, dim, shape_.head_dim)]);
    });
    if (shape_.type == KvType::kFp8) {
      for (std::vector<BFloat16>* const tensor : {&result.keys, &result.values}) {
        for (size_t begin = 0; begin < tensor->size(); begin += Size(shape_.head_dim)) {
          if ((*tensor)[begin].bits == kUnwritten.bits) continue;
          RoundHeadToCodes(std::span(*tensor).subspan(begin, Size(shape_.head_dim)));
        }
      }
    }
    return result;
  }

  int64_t RowElements() const {
    return (shape_.num_heads + 2 * shape_.num_kv_heads) * shape_.head_dim;
  }
  RotaryAppendParams Params() const {
    return {.norm_eps = 1e-6f,
            .kv = {.num_blocks = kNumBlocks,
                   .num_kv_heads = shape_.num_kv_heads,
                   .head_dim = shape_.head_dim,
                   .type = shape_.type},
            .num_heads = shape_.num_heads};
  }

 private:
  template <typename Visit>
  void ForEveryElement(const Visit& visit) const {
    for (int64_t block = 0; block < kNumBlocks; ++block) {
      for (int token = 0; token < kKvBlockTokens; ++token) {
        for (int64_t head = 0; head < shape_.num_kv_heads; ++head) {
          for (int dim = 0; dim < shape_.head_dim; ++dim) visit(block, token, head, dim);
        }
      }
    }
  }

  Shape shape_;
  RopeTable table_;
  std::vector<float> q_norm_;
  std::vector<float> k_norm_;
  std::vector<BFloat16> qkv_;
  std::vector<uint32_t> positions_;
  std::vector<uint64_t> slots_;
};

class RotaryAppendCudaTest : public CudaTest {};

// Both follow the same tree and the same roundings.
TEST_F(RotaryAppendCudaTest, EqualsTheCpuBitForBit) {
  for (const int64_t head_dim : {16, 32, 64, 80, 96, 112, 128, 256}) {
    for (const Shape& shape :
         {Shape{3, 1, head_dim}, Shape{4, 2, head_dim, true, true},
          Shape{9, 3, head_dim, true, true}, Shape{6, 2, head_dim, true, false},
          Shape{6, 2, head_dim, false, true}, Shape{9, 3, head_dim, true, true, KvType::kFp8},
          Shape{4, 2, head_dim, false, false, KvType::kFp8}}) {
      if (shape.type == KvType::kFp8 && !DeviceTakesKvCodes(head_dim)) continue;
      SCOPED_TRACE(::testing::Message()
                   << head_dim << ", " << shape.num_heads << " heads with norm " << shape.q_norm);
      const Problem problem(shape, 20);
      const Problem::Result expected = problem.RunOnHost();
      // On few multiprocessors a warp takes several heads, or all of a token.
      for (const int num_multiprocessors : {stream_.num_multiprocessors, 4, 3, 1}) {
        CudaStream stream = stream_;
        stream.num_multiprocessors = num_multiprocessors;
        const Problem::Result actual = problem.RunOnDevice(stream, 0, 20);
        EXPECT_TRUE(IsSameBits(actual.qkv, expected.qkv)) << num_multiprocessors;
        EXPECT_TRUE(IsSameBits(actual.keys, expected.keys)) << num_multiprocessors;
        EXPECT_TRUE(IsSameBits(actual.values, expected.values)) << num_multiprocessors;
      }
    }
  }
}

TEST_F(RotaryAppendCudaTest, BitsDoNotDependOnTheBatch) {
  stream_.overlap_launches = true;
  for (const KvType type : {KvType::kBFloat16, KvType::kFp8}) {
    const Problem problem({8, 2, 128, true, true, type}, 20);
    const Problem::Result together = problem.RunOnDevice(stream_, 0, 20);
    for (int64_t token = 0; token < 20; ++token) {
      const Problem::Result alone = problem.RunOnDevice(stream_, token, token + 1);
      EXPECT_TRUE(IsSameBits(alone.qkv, std::span(together.qkv)
                                            .subspan(Size(token * problem.RowElements()),
                                                     Size(problem.RowElements()))));
      for (size_t i = 0; i < alone.keys.size(); ++i) {
        if (alone.keys[i].bits == kUnwritten.bits) continue;
        EXPECT_EQ(alone.keys[i].bits, together.keys[i].bits);
        EXPECT_EQ(alone.values[i].bits, together.values[i].bits);
      }
    }
  }
}

// A norm writes the heads, and lets the rotation start before it has done so.
TEST_F(RotaryAppendCudaTest, WaitsForTheKernelThatWritesTheHeads) {
  constexpr int64_t kHeads = 32, kKvHeads = 8, kHeadDim = 128;
  constexpr int64_t kRow = (kHeads + 2 * kKvHeads) * kHeadDim;
  const RopeTable table = MakeRopeTable(ComputeRopeFrequencies({}, kHeadDim), kNumPositions);
  const DeviceArray<float> cos(table.cos), sin(table.sin), weight(RandomFloats(Size(kRow), 4));
  for (const int64_t num_tokens : {40, 1500}) {  // by both kernels
    const DeviceArray<BFloat16> input(
        RandomBFloat16s(Size(num_tokens * kRow), 5, Distribution::kGaussian));
    std::vector<uint32_t> positions;
    std::vector<uint64_t> slots;
    for (int64_t i = 0; i < num_tokens; ++i) {
      positions.push_back(static_cast<uint32_t>(i % kNumPositions));
      slots.push_back(static_cast<uint64_t>(i));
    }
    const DeviceArray<uint32_t> device_positions(positions);
    const DeviceArray<uint64_t> device_slots(slots);
    const int64_t num_blocks = num_tokens / kKvBlockTokens + 1;
    const auto run = [&](bool overlap) {
      CudaStream stream = stream_;
      stream.overlap_launches = overlap;
      const DeviceArray<BFloat16> qkv(Size(num_tokens * kRow));
      const DeviceArray<BFloat16> pool(
          Size(num_blocks * kKvHeads * DeviceKvHeadElements(kHeadDim)));
      EXPECT_THAT(RmsNorm(stream, {.input = input.data(),
                                   .weight = weight.data(),
                                   .output = qkv.data(),
                                   .num_rows = num_tokens,
                                   .size = kRow,
                                   .eps = 1e-6f}),
                  IsOk());
      EXPECT_THAT(RotaryAppend(stream, {.qkv = qkv.data(),
                                        .cos = cos.data(),
                                        .sin = sin.data(),
                                        .positions = device_positions.data(),
                                        .kv_slots = device_slots.data(),
                                        .kv = {.data = pool.data(),
                                               .num_blocks = num_blocks,
                                               .num_kv_heads = kKvHeads,
                                               .head_dim = kHeadDim},
                                        .num_heads = kHeads,
                                        .num_tokens = num_tokens}),
                  IsOk());
      std::vector<BFloat16> heads = qkv.Read();
      const std::vector<BFloat16> appended = pool.Read();
      heads.insert(heads.end(), appended.begin(), appended.end());
      return heads;
    };
    const std::vector<BFloat16> expected = run(/*overlap=*/false);
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(IsSameBits(run(/*overlap=*/true), expected));
  }
}

TEST_F(RotaryAppendCudaTest, RefusesHeadSizesItCannotTake) {
  for (const int64_t head_dim : {72, 272}) {
    RotaryAppendParams params = Problem({1, 1, 16}, 1).Params();
    params.kv.head_dim = head_dim;
    EXPECT_THAT(RotaryAppend(stream_, params),
                HasError(absl::StatusCode::kInvalidArgument,
                         ::testing::HasSubstr(std::to_string(head_dim))));
  }
}

TEST_F(RotaryAppendCudaTest, RefusesCodesOfHeadsThatAreNoMultipleOf32) {
  EXPECT_THAT(RotaryAppend(stream_, Problem({1, 1, 80, false, false, KvType::kFp8}, 1).Params()),
              HasError(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("80")));
}

TEST_F(RotaryAppendCudaTest, RefusesWhatIsNotAlignedTo16Bytes) {
  const DeviceArray<float> floats(std::vector<float>(64));
  for (const auto member :
       {&RotaryAppendParams::cos, &RotaryAppendParams::sin, &RotaryAppendParams::q_norm_weight,
        &RotaryAppendParams::k_norm_weight}) {
    RotaryAppendParams params = Problem({1, 1, 16}, 1).Params();
    params.num_tokens = 1;
    params.*member = floats.data() + 1;
    EXPECT_THAT(RotaryAppend(stream_, params),
                HasError(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("16 bytes")));
  }
}

}  // namespace
}  // namespace lockstep::kernels
