#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <span>

#include "common/ids.h"
#include "kernels/core/bfloat16.h"
#include "kernels/core/stream.h"
#include "kernels/kv_cache/paged_kv.h"

namespace lockstep::kernels {

// Keys that one online-softmax step folds in, aligned to position 0.
inline constexpr int64_t kKeyTile = 64;
// Partial results are closed at every multiple of this position (docs/numerics.md, point 2).
inline constexpr int64_t kAttentionSplitKeys = 1024;

// Consecutive tokens of one sequence. Their own keys and values are in the pool already.
struct AttentionSequence {
  int64_t first_token = 0;  // row of `query` and `output`
  int64_t num_tokens = 0;
  int64_t first_position = 0;
  const BlockId* block_table = nullptr;  // covers positions 0 .. first_position + num_tokens - 1
};

// Causal softmax attention over a paged KV pool, for decode rows and prefill chunks alike: a token
// at position p attends to keys 0 .. p, in an order that depends on p alone.
struct PagedAttentionParams {
  const BFloat16* query = nullptr;  // [num_tokens, num_heads, head_dim]
  int64_t query_stride = 0;         // elements between tokens
  BFloat16* output = nullptr;       // [num_tokens, num_heads, head_dim]
  int64_t output_stride = 0;
  PagedKv kv;
  std::span<const AttentionSequence> sequences;
  int64_t num_heads = 0;                     // a multiple of kv.num_kv_heads
  float scale = 1.0f;                        // on query times key
  int64_t split_keys = kAttentionSplitKeys;  // a multiple of kKeyTile
};

// INVALID_ARGUMENT for an odd head_dim or one above 512, or heads that no KV head serves.
absl::Status PagedAttention(const Stream& stream, const PagedAttentionParams& params);

}  // namespace lockstep::kernels
