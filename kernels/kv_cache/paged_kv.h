#pragma once

#include <cstdint>

#include "kernels/core/bfloat16.h"

namespace lockstep::kernels {

inline constexpr int kKvBlockTokens = 16;

// K and V of one layer on the CPU; device_paged_kv.h describes the order on a CUDA device.
// [num_blocks][num_kv_heads][key block, value block] bf16.
// A key block is [head_dim / 2][16 tokens][2]: pairs of dims for all tokens of the block, so that a
// vector holds 16 keys and a score needs no sum across lanes. A value block is
// [16 tokens][value stride], its rows padded to 16 elements. Unused tokens and padding may hold
// anything, NaN included; nothing that is read from them reaches a result.
struct PagedKv {
  BFloat16* data = nullptr;
  int64_t num_blocks = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;  // even
};

[[gnu::always_inline]] inline int64_t ValueStride(int64_t head_dim) {
  return (head_dim + 15) / 16 * 16;
}

// Elements of one head of one block, and of one block.
[[gnu::always_inline]] inline int64_t KvHeadElements(int64_t head_dim) {
  return kKvBlockTokens * (head_dim + ValueStride(head_dim));
}
[[gnu::always_inline]] inline int64_t KvBlockElements(int64_t num_kv_heads, int64_t head_dim) {
  return num_kv_heads * KvHeadElements(head_dim);
}

[[gnu::always_inline]] inline BFloat16* KeyBlock(const PagedKv& kv, int64_t block,
                                                 int64_t kv_head) {
  return kv.data + (block * kv.num_kv_heads + kv_head) * KvHeadElements(kv.head_dim);
}
[[gnu::always_inline]] inline BFloat16* ValueBlock(const PagedKv& kv, int64_t block,
                                                   int64_t kv_head) {
  return KeyBlock(kv, block, kv_head) + kKvBlockTokens * kv.head_dim;
}

// Where element `dim` of token `token_in_block` lies in a key block and in a value block.
[[gnu::always_inline]] inline int64_t KeyOffset(int64_t token_in_block, int64_t dim) {
  return (dim / 2 * kKvBlockTokens + token_in_block) * 2 + dim % 2;
}
[[gnu::always_inline]] inline int64_t ValueOffset(int64_t token_in_block, int64_t dim,
                                                  int64_t head_dim) {
  return token_in_block * ValueStride(head_dim) + dim;
}

}  // namespace lockstep::kernels
