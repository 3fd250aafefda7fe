#pragma once

#include <cstdint>

#include "kernels/core/ptx/memory.cuh"

// How blocks of one kernel hand results to each other: a word is 4 bytes of payload and a tag that
// says which use of the memory it belongs to. A reader asks until the tag is the one that it
// expects, so a result takes one way through the second-level cache, and nobody needs a fence or a
// barrier of the grid. A word may be written again once all its readers are known to be through.
namespace lockstep::kernels {

__device__ __forceinline__ uint64_t TaggedWord(uint32_t payload, uint32_t tag) {
  return static_cast<uint64_t>(tag) << 32 | payload;
}

__device__ __forceinline__ bool HaveTag(const ulonglong2& words, uint32_t tag) {
  return static_cast<uint32_t>(words.x >> 32) == tag && static_cast<uint32_t>(words.y >> 32) == tag;
}

__device__ __forceinline__ void StoreTagged(uint64_t* to, uint32_t payload, uint32_t tag) {
  ptx::StoreRelaxed(to, TaggedWord(payload, tag));
}
// Two neighbours, aligned to 16 bytes.
__device__ __forceinline__ void StoreTagged(uint64_t* to, uint32_t first, uint32_t second,
                                            uint32_t tag) {
  ptx::StoreRelaxed(to, make_ulonglong2(TaggedWord(first, tag), TaggedWord(second, tag)));
}

// By a whole warp. Every lane reads the kCount pairs of words at from[0], from[1], ..., null for
// none; the warp asks for all that have not come yet together, until they have. Then every lane
// calls take(i, first, second), ascending. Lanes that each went on by themselves would run what
// follows one after the other.
template <int kCount, typename Take>
__device__ __forceinline__ void LoadTaggedPairs(uint32_t tag, const uint64_t* const (&from)[kCount],
                                                const Take& take) {
  ulonglong2 words[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const uint64_t word = TaggedWord(0, from[i] == nullptr ? tag : tag - 1);
    words[i] = make_ulonglong2(word, word);
  }
  bool is_complete = false;
  do {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (!HaveTag(words[i], tag)) words[i] = ptx::LoadRelaxed2(from[i]);
    }
    is_complete = true;
#pragma unroll
    for (int i = 0; i < kCount; ++i) is_complete = is_complete && HaveTag(words[i], tag);
  } while (!__all_sync(0xFFFFFFFFu, is_complete));
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (from[i] == nullptr) continue;
    take(i, static_cast<uint32_t>(words[i].x), static_cast<uint32_t>(words[i].y));
  }
}

}  // namespace lockstep::kernels
