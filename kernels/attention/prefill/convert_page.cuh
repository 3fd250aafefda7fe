#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention/prefill/prefill_block.cuh"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/kv_cache/kv_codes.cuh"

// How a warp of the prefill kernel makes bf16 keys and values of codes.
namespace lockstep::kernels {

// The codes of a page's keys, or of its values, and their scales, in device memory.
struct PageCodes {
  const uint8_t* codes;
  const uint8_t* scales;
  int num_tokens;  // the others become zero
};

// Writes the elements to shared memory, in the order that bulk copies of a bf16 page give. Panels
// are `panel_stride` bytes apart. A lane has at most kMostAtOnce chunks under way.
template <int kHeadDim, int kMostAtOnce>
__device__ __forceinline__ void ConvertPage(const PageCodes& page, uint32_t target,
                                            int panel_stride, int lane) {
  constexpr int kRowChunks = kHeadDim / kKvChunkCodes;
  constexpr int kLaneChunks = kKvBlockTokens * kRowChunks / 32;
  constexpr int kBatch = std::min(kLaneChunks, kMostAtOnce);
  static_assert(kLaneChunks % kBatch == 0);
#pragma unroll
  for (int first = 0; first < kLaneChunks; first += kBatch) {
    uint4 words[kBatch];
    uint32_t multipliers[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int index = (first + i) * 32 + lane;
      const int token = index / kRowChunks;
      words[i] = make_uint4(0, 0, 0, 0);
      multipliers[i] = 0;
      if (token < page.num_tokens) {
        const int from = DeviceKvChunk(token, index % kRowChunks, kHeadDim / 2);
        words[i] = __ldcg(reinterpret_cast<const uint4*>(page.codes) + from);
        multipliers[i] = KvMultiplier(__ldcg(page.scales + token)) * 0x10001u;
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int index = (first + i) * 32 + lane;
      const int token = index / kRowChunks;
      const int chunk = index % kRowChunks * 2;  // of 8 elements
      const uint32_t row = target + chunk / 8 * panel_stride + token * kPanelDims * 2;
      const uint32_t m = multipliers[i];
      const uint4& w = words[i];
      ptx::StoreShared128(row + ((chunk ^ token) % 8) * 16,
                          make_uint4(EvenKvElements(w.x, m), EvenKvElements(w.y, m),
                                     EvenKvElements(w.z, m), EvenKvElements(w.w, m)));
      ptx::StoreShared128(row + (((chunk + 1) ^ token) % 8) * 16,
                          make_uint4(OddKvElements(w.x, m), OddKvElements(w.y, m),
                                     OddKvElements(w.z, m), OddKvElements(w.w, m)));
    }
  }
}

}  // namespace lockstep::kernels
