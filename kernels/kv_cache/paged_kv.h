#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/core/bfloat16.h"
#include "kernels/kv_cache/kv_type.h"

namespace lockstep::kernels {

inline constexpr int kKvBlockTokens = 16;

// K and V of one layer on the CPU; device_paged_kv.h describes the order on a CUDA device.
// [num_blocks][num_kv_heads][key block, value block]. A key block is [head_dim / 2][16 tokens][2]:
// pairs of dims for all tokens of the block, so that a vector holds 16 keys and a score needs no
// sum across lanes. A value block is [16 tokens][value stride], its rows padded to 16 elements.
// Elements are bf16, or codes: then the scales of the 16 keys and of the 16 values follow, a byte
// each (fp8_kv.h). Unused tokens and padding may hold anything, NaN included; nothing that is read
// from them reaches a result.
struct PagedKv {
  void* data = nullptr;
  int64_t num_blocks = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;  // even
  KvType type = KvType::kBFloat16;
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
// Bytes of the scales of one head of one block.
[[gnu::always_inline]] constexpr int64_t KvScaleBytes(KvType type) {
  return type == KvType::kFp8 ? 2 * kKvBlockTokens : 0;
}
// Bytes of one head of one block, and of one block.
[[gnu::always_inline]] inline int64_t KvHeadBytes(KvType type, int64_t head_dim) {
  return KvHeadElements(head_dim) * KvElementBytes(type) + KvScaleBytes(type);
}
[[gnu::always_inline]] inline int64_t KvBlockBytes(KvType type, int64_t num_kv_heads,
                                                   int64_t head_dim) {
  return num_kv_heads * KvHeadBytes(type, head_dim);
}

// One head of one block, of any type.
[[gnu::always_inline]] inline std::byte* KvHead(const PagedKv& kv, int64_t block, int64_t kv_head) {
  return static_cast<std::byte*>(kv.data) +
         (block * kv.num_kv_heads + kv_head) * KvHeadBytes(kv.type, kv.head_dim);
}

// The same where elements are bf16.
[[gnu::always_inline]] inline BFloat16* KeyBlock(const PagedKv& kv, int64_t block,
                                                 int64_t kv_head) {
  return reinterpret_cast<BFloat16*>(KvHead(kv, block, kv_head));
}
[[gnu::always_inline]] inline BFloat16* ValueBlock(const PagedKv& kv, int64_t block,
                                                   int64_t kv_head) {
  return KeyBlock(kv, block, kv_head) + kKvBlockTokens * kv.head_dim;
}

// Where they are codes: uint8_t.
[[gnu::always_inline]] inline uint8_t* KeyCodes(const PagedKv& kv, int64_t block, int64_t kv_head) {
  return reinterpret_cast<uint8_t*>(KvHead(kv, block, kv_head));
}
[[gnu::always_inline]] inline uint8_t* ValueCodes(const PagedKv& kv, int64_t block,
                                                  int64_t kv_head) {
  return KeyCodes(kv, block, kv_head) + kKvBlockTokens * kv.head_dim;
}
[[gnu::always_inline]] inline uint8_t* KeyScales(const PagedKv& kv, int64_t block,
                                                 int64_t kv_head) {
  return KeyCodes(kv, block, kv_head) + KvHeadElements(kv.head_dim);
}
[[gnu::always_inline]] inline uint8_t* ValueScales(const PagedKv& kv, int64_t block,
                                                   int64_t kv_head) {
  return KeyScales(kv, block, kv_head) + kKvBlockTokens;
}

// Where element `dim` of token `token_in_block` lies in a key block and in a value block, in
// elements.
[[gnu::always_inline]] inline int64_t KeyOffset(int64_t token_in_block, int64_t dim) {
  return (dim / 2 * kKvBlockTokens + token_in_block) * 2 + dim % 2;
}
[[gnu::always_inline]] inline int64_t ValueOffset(int64_t token_in_block, int64_t dim,
                                                  int64_t head_dim) {
  return token_in_block * ValueStride(head_dim) + dim;
}

}  // namespace lockstep::kernels
