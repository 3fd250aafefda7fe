#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "kernels/attention/paged_attention.h"
#include "kernels/core/stream.h"
#include "kernels/kv_cache/fp8_kv.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/kv_cache/round_to_codes.h"
#include "tests/support/tensor_compare.h"

// Random sequences in a paged pool.
namespace lockstep::kernels {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Shape {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t num_tokens = 0;  // of every sequence
  int64_t num_sequences = 1;
};

// Sequences with random q, k and v, their k and v in a pool of shuffled blocks. Everything of the
// pool that no token occupies is NaN: its bytes are 0xFF.
class Problem {
 public:
  Problem(const Shape& shape, Distribution distribution, KvType type = KvType::kBFloat16)
      : shape_(shape), type_(type) {
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
    pool_.resize(Count(num_blocks * KvBlockBytes(type, shape.num_kv_heads, shape.head_dim)));
    Fill(shape.num_tokens);
  }

  // Multiplies the key of each token by a power of two, and its value by another one.
  void SpreadMagnitudes(int min_exponent, int max_exponent) {
    const int range = max_exponent - min_exponent + 1;
    const int64_t token_elements = shape_.num_kv_heads * shape_.head_dim;
    for (size_t i = 0; i < keys_.size(); ++i) {
      const int token = static_cast<int>(static_cast<int64_t>(i) / token_elements);
      keys_[i] = ToBFloat16(std::ldexp(ToFloat(keys_[i]), min_exponent + token * 7 % range));
      values_[i] = ToBFloat16(std::ldexp(ToFloat(values_[i]), min_exponent + token * 11 % range));
    }
    Fill(shape_.num_tokens);
  }

  // Rounds keys and values to codes, and back.
  void RoundToCodes() {
    RoundHeadsToCodes(keys_, Count(shape_.head_dim));
    RoundHeadsToCodes(values_, Count(shape_.head_dim));
    Fill(shape_.num_tokens);
  }

  // Makes the first element of a token's key, or of its value, infinite.
  void MakeInfinite(int64_t token, bool of_value) {
    std::vector<BFloat16>& tensor = of_value ? values_ : keys_;
    tensor[Count(token * shape_.num_kv_heads * shape_.head_dim)] =
        ToBFloat16(-std::numeric_limits<float>::infinity());
    Fill(shape_.num_tokens);
  }

  const Shape& shape() const { return shape_; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)); }

  // The pool as it is when every sequence has this many tokens, and those before `first_token` were
  // evicted; the rest is NaN.
  void Fill(int64_t num_tokens, int64_t first_token = 0) {
    std::fill(pool_.begin(), pool_.end(), std::byte{0xFF});
    for (int64_t sequence = 0; sequence < shape_.num_sequences; ++sequence) {
      for (int64_t token = first_token; token < num_tokens; ++token) WriteToken(sequence, token);
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
                            int64_t split_keys = kAttentionSplitKeys, int64_t window_tokens = 0) {
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
                                        .split_keys = split_keys,
                                        .window_tokens = window_tokens}),
                IsOk());
    return output;
  }

  PagedKv Kv() {
    return {.data = pool_.data(),
            .num_blocks = static_cast<int64_t>(pool_.size()) /
                          KvBlockBytes(type_, shape_.num_kv_heads, shape_.head_dim),
            .num_kv_heads = shape_.num_kv_heads,
            .head_dim = shape_.head_dim,
            .type = type_};
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
      const size_t from = Count((batch_token * shape_.num_kv_heads + head) * shape_.head_dim);
      const std::span key = std::span(keys_).subspan(from, Count(shape_.head_dim));
      const std::span value = std::span(values_).subspan(from, Count(shape_.head_dim));
      const uint32_t key_scale = KvScaleOfHead(key);
      const uint32_t value_scale = KvScaleOfHead(value);
      if (type_ == KvType::kFp8) {
        KeyScales(kv, block, head)[slot] = static_cast<uint8_t>(key_scale);
        ValueScales(kv, block, head)[slot] = static_cast<uint8_t>(value_scale);
      }
      for (int64_t dim = 0; dim < shape_.head_dim; ++dim) {
        const int64_t key_offset = KeyOffset(slot, dim);
        const int64_t value_offset = ValueOffset(slot, dim, shape_.head_dim);
        if (type_ == KvType::kFp8) {
          KeyCodes(kv, block, head)[key_offset] = KvCode(key[Count(dim)], key_scale);
          ValueCodes(kv, block, head)[value_offset] = KvCode(value[Count(dim)], value_scale);
        } else {
          KeyBlock(kv, block, head)[key_offset] = key[Count(dim)];
          ValueBlock(kv, block, head)[value_offset] = value[Count(dim)];
        }
      }
    }
  }

  Shape shape_;
  KvType type_;
  std::vector<BFloat16> query_;  // [sequences * tokens, num_heads, head_dim]
  std::vector<BFloat16> keys_;   // [sequences * tokens, num_kv_heads, head_dim]
  std::vector<BFloat16> values_;
  std::vector<std::vector<BlockId>> tables_;
  std::vector<std::byte> pool_;
};

}  // namespace lockstep::kernels
