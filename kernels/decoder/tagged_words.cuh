#pragma once

#include <cstdint>

#include "kernels/core/ptx/memory.cuh"

// How blocks of one kernel hand results to each other. A word is 4 bytes of payload and a tag that
// says which use of the memory it belongs to. A reader loads the word until it has the expected
// tag. So a result makes one trip through the second-level cache, and no fence or barrier of the
// grid is needed. A word may be overwritten once all its readers are known to have finished.
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

// Call from a whole warp. Every lane reads the kCount pairs of words at from[0], from[1], ...;
// null: no pair. The warp repeats the loads of missing pairs until all lanes have all pairs. Then
// every lane calls take(i, first, second), with ascending i. If lanes went on one by one, the code
// after this call would also run for one lane after the other.
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
