#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/attention/paged_attention.h"
#include "kernels/kv_cache/device_paged_kv.h"
#include "kernels/kv_cache/fp8_kv.h"
#include "tests/support/cuda_test.h"
#include "tests/support/tensor_compare.h"

// Sequences for the tests of attention on CUDA.
namespace lockstep::kernels::attention_test {

using ::lockstep::testing::DeviceArray;

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

inline size_t Size(int64_t count) { return static_cast<size_t>(count); }

struct Shape {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  KvType type = KvType::kBFloat16;
};

// One token, as a decode row.
struct Row {
  int64_t sequence = -1;  // -1: padding
  int64_t position = 0;
};

// `sequence` begins with the first tokens of `of`, a sequence with a smaller number, in the same
// blocks.
struct SharedPrefix {
  int64_t sequence = 0;
  int64_t of = 0;
  int64_t num_tokens = 0;  // a multiple of kKvBlockTokens
};

struct Part {
  int64_t sequence = 0;
  int64_t begin = 0;  // positions; begin = end: padding
  int64_t end = 0;
};

// Sequences with random q, k and v and a pool of shuffled blocks; everything of the pool that no
// token occupies is NaN. Tokens count over all sequences. If the pool has codes, k and v are what
// codes stand for.
class Problem {
 public:
  Problem(const Shape& shape, std::vector<int64_t> lengths, Distribution distribution,
          const std::vector<SharedPrefix>& prefixes = {});

  const Shape& shape() const { return shape_; }
  int64_t length(int64_t sequence) const { return lengths_[Size(sequence)]; }
  int64_t RowElements() const { return shape_.num_heads * shape_.head_dim; }
  int64_t Token(int64_t sequence, int64_t position) const {
    return first_tokens_[Size(sequence)] + position;
  }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)); }

  // Gives the weights of each tile of keys another 2^exponent beside those of the tile before.
  void RaiseScores(float exponent);

  // Makes k and v what codes stand for, in a pool of bf16 too.
  void RoundToCodes();

  // The pool as it is when no sequence has more than this many tokens.
  void Fill(int64_t max_tokens);

  // The inputs, outputs and scratch space of one decode call.
  struct DecodeCall {
    std::vector<Row> rows;
    DeviceArray<BFloat16> query;
    DeviceArray<BFloat16> output;
    DeviceArray<uint32_t> positions;
    DeviceArray<BlockId> tables;
    DeviceArray<int32_t> plan;
    DeviceArray<float> partials;
    DeviceArray<uint32_t> arrivals;
    PagedDecodeAttentionParams params;
  };

  std::unique_ptr<DecodeCall> MakeDecodeCall(size_t num_rows) const;

  void SetRows(const std::vector<Row>& rows, DecodeCall& call) const;

  // Outputs of the rows' tokens, by token; NaN for all others.
  std::vector<BFloat16> ReadOutputs(const DecodeCall& call) const;

  // Each row for itself, and then with others where they have keys in common: the same bits.
  std::vector<BFloat16> Decode(const CudaStream& stream, const std::vector<Row>& rows) const;

  // The inputs, output and scratch space of one prefill call.
  struct PrefillCall {
    DeviceArray<AttentionChunk> chunks;
    DeviceArray<PrefillTile> tiles;
    DeviceArray<BlockId> tables;
    DeviceArray<BFloat16> output;
    DeviceArray<float> scratch;
    PagedPrefillAttentionParams params;
  };

  std::unique_ptr<PrefillCall> MakePrefillCall(const CudaStream& stream,
                                               const std::vector<Part>& parts) const;

  // By token; NaN for tokens that are in no part.
  static std::vector<BFloat16> ReadOutputs(const PrefillCall& call);

  std::vector<BFloat16> Prefill(const CudaStream& stream, const std::vector<Part>& parts) const;

  std::vector<BFloat16> PrefillAll(const CudaStream& stream) const;

  ::testing::AssertionResult IsSameAt(const std::vector<BFloat16>& actual,
                                      const std::vector<BFloat16>& expected,
                                      const Part& part) const;

  // The token's row of `output` against fp64.
  ::testing::AssertionResult IsClose(const std::vector<BFloat16>& output, const Row& row) const;

 private:
  void Share(const SharedPrefix& prefix);
  static int64_t Blocks(int64_t length) { return (length + kKvBlockTokens - 1) / kKvBlockTokens; }
  PagedKv Kv() const;
  int64_t HeadBytes() const;
  void FillWhole();

  void WriteToken(int64_t sequence, int64_t position);

  Shape shape_;
  std::vector<int64_t> lengths_;
  std::vector<int64_t> first_tokens_;
  int64_t num_tokens_ = 0;
  int64_t max_blocks_ = 0;
  std::vector<BFloat16> query_;  // [num_tokens, num_heads, head_dim]
  std::vector<BFloat16> keys_;   // [num_tokens, num_kv_heads, head_dim]
  std::vector<BFloat16> values_;
  std::vector<BlockId> tables_;  // [sequences, max_blocks]
  std::vector<uint8_t> pool_;
  std::unique_ptr<DeviceArray<uint8_t>> device_pool_;
  std::unique_ptr<DeviceArray<BFloat16>> device_query_;
};

class PagedAttentionCudaTest : public ::lockstep::testing::CudaTest {};

}  // namespace lockstep::kernels::attention_test
