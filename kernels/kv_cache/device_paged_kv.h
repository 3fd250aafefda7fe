#pragma once

#include <cstdint>

#include "kernels/kv_cache/paged_kv.h"

// The KV pool of one layer on a CUDA device, in the HND order: [num_blocks][num_kv_heads][K, then
// V][16 tokens x head_dim], head_dim a multiple of 16. All of one head of one block is contiguous,
// so that one bulk copy brings a block's keys and values to shared memory. Elements are bf16. They
// are swizzled, so that matrix instructions then read them there without bank conflicts. The dims
// are cut into panels of 64 (the rest into panels of 32 and 16). A panel is [16 tokens][its dims].
// Within a row, the 16-byte chunks are permuted by XOR with bits of the token, as the 128, 64 and
// 32-byte swizzles of the PTX ISA do (section "Asynchronous Warpgroup Level Matrix Shared Memory
// Layout").
//
// Or elements are codes (fp8_kv.h), head_dim a multiple of 32. Then a chunk has the 16 codes of
// dims 16 * chunk .., in the order 0, 8, 1, 9, .. 7, 15: the even bytes are what a matrix
// instruction takes of the first 8 dims, the odd bytes of the others. Chunks lie as those of half
// as many bf16 elements would. The scales of the 16 keys follow the values, then those of the
// values.
namespace lockstep::kernels {

inline constexpr int kKvChunkElements = 8;  // 16 bytes: the unit of the permutation

// Where chunk `chunk` (dims 8 * chunk ..) of token `token` (0 .. 15) lies, in chunks from the start
// of the keys, or of the values, of one head of one block.
[[gnu::always_inline]] constexpr int DeviceKvChunk(int token, int chunk, int head_dim) {
  const int num_chunks = head_dim / kKvChunkElements;
  int panel = chunk / 8 * 8;
  int width = 8;
  int swizzle = token % 8;
  // The first condition is known when a kernel is compiled. The second is not where lanes have
  // chunks of their own.
  if (num_chunks % 8 != 0 && num_chunks - panel < 8) {
    const int rest = num_chunks - panel;
    if (rest >= 4 && chunk - panel < 4) {
      width = 4;
      swizzle = token / 2 % 4;
    } else {
      panel += rest / 4 * 4;
      width = 2;
      swizzle = token / 4 % 2;
    }
  }
  return panel * kKvBlockTokens + token * width + ((chunk - panel) ^ swizzle);
}

// The same for one element.
[[gnu::always_inline]] constexpr int DeviceKvOffset(int token, int dim, int head_dim) {
  return DeviceKvChunk(token, dim / kKvChunkElements, head_dim) * kKvChunkElements +
         dim % kKvChunkElements;
}

inline constexpr int kKvChunkCodes = 16;

// Where the code of one element lies, in bytes from the start of the keys, or of the values.
[[gnu::always_inline]] constexpr int DeviceKvCodeOffset(int token, int dim, int head_dim) {
  return DeviceKvChunk(token, dim / kKvChunkCodes, head_dim / 2) * kKvChunkCodes + dim % 8 * 2 +
         dim / 8 % 2;
}

// Elements of one head of one block: its keys, then its values.
[[gnu::always_inline]] constexpr int64_t DeviceKvHeadElements(int64_t head_dim) {
  return 2 * kKvBlockTokens * head_dim;
}
[[gnu::always_inline]] constexpr int64_t DeviceKvHeadBytes(KvType type, int64_t head_dim) {
  return DeviceKvHeadElements(head_dim) * KvElementBytes(type) + KvScaleBytes(type);
}

[[gnu::always_inline]] constexpr int64_t DeviceKvHeadIndex(const PagedKv& kv, int64_t block,
                                                           int64_t kv_head) {
  return block * kv.num_kv_heads + kv_head;
}

// Where elements are bf16.
[[gnu::always_inline]] constexpr BFloat16* DeviceKeys(const PagedKv& kv, int64_t block,
                                                      int64_t kv_head) {
  return static_cast<BFloat16*>(kv.data) +
         DeviceKvHeadIndex(kv, block, kv_head) * DeviceKvHeadElements(kv.head_dim);
}
[[gnu::always_inline]] constexpr BFloat16* DeviceValues(const PagedKv& kv, int64_t block,
                                                        int64_t kv_head) {
  return DeviceKeys(kv, block, kv_head) + kKvBlockTokens * kv.head_dim;
}

// Where elements are codes: the codes of the keys, those of the values, the scales of both.
[[gnu::always_inline]] constexpr uint8_t* DeviceKeyCodes(const PagedKv& kv, int64_t block,
                                                         int64_t kv_head) {
  return static_cast<uint8_t*>(kv.data) +
         DeviceKvHeadIndex(kv, block, kv_head) * DeviceKvHeadBytes(KvType::kFp8, kv.head_dim);
}
[[gnu::always_inline]] constexpr uint8_t* DeviceValueCodes(const PagedKv& kv, int64_t block,
                                                           int64_t kv_head) {
  return DeviceKeyCodes(kv, block, kv_head) + kKvBlockTokens * kv.head_dim;
}
[[gnu::always_inline]] constexpr uint8_t* DeviceKeyScales(const PagedKv& kv, int64_t block,
                                                          int64_t kv_head) {
  return DeviceKeyCodes(kv, block, kv_head) + DeviceKvHeadElements(kv.head_dim);
}
[[gnu::always_inline]] constexpr uint8_t* DeviceValueScales(const PagedKv& kv, int64_t block,
                                                            int64_t kv_head) {
  return DeviceKeyScales(kv, block, kv_head) + kKvBlockTokens;
}

// Whether the CUDA kernels keep heads of this size as codes.
[[gnu::always_inline]] constexpr bool DeviceTakesKvCodes(int64_t head_dim) {
  return head_dim % 32 == 0;
}

}  // namespace lockstep::kernels
