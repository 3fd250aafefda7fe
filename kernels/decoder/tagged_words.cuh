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

// Reads kCount pairs of words at address(0), address(1), ..., null for none, and asks for all that
// have not come yet together, until they have. Then calls take(i, first, second), ascending.
template <int kCount, typename Address, typename Take>
__device__ __forceinline__ void LoadTaggedPairs(uint32_t tag, const Address& address,
                                                const Take& take) {
  ulonglong2 words[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) words[i] = make_ulonglong2(TaggedWord(0, tag - 1), 0);
  for (bool is_complete = false; !is_complete;) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint64_t* const from = address(i);
      if (from != nullptr && !HaveTag(words[i], tag)) words[i] = ptx::LoadRelaxed2(from);
    }
    is_complete = true;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      is_complete = is_complete && (address(i) == nullptr || HaveTag(words[i], tag));
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (address(i) == nullptr) continue;
    take(i, static_cast<uint32_t>(words[i].x), static_cast<uint32_t>(words[i].y));
  }
}

}  // namespace lockstep::kernels
