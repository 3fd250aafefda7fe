#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/core/ptx/memory.cuh"
#include "kernels/formats/strips/strip_codec.h"

// What the codecs of strips share: where a block lies, and what a lane reads of its groups.
namespace lockstep::kernels {

// Steps of 16 columns that are converted at once: half a block.
inline constexpr int kHalfSteps = 4;
using StripPairs = uint32_t[kHalfSteps][2];

// What lies behind the blocks of a matrix, and how many rows that has (strip_matrix.h).
struct StripRowTable {
  const uint8_t* data;
  int64_t num_rows;
};
struct NoRow {
  __device__ __forceinline__ static NoRow Load(const StripRowTable&, int64_t) { return {}; }
};

__device__ __forceinline__ __nv_bfloat162 AsPair(uint32_t word) {
  return *reinterpret_cast<const __nv_bfloat162*>(&word);
}
__device__ __forceinline__ uint32_t AsWord(__nv_bfloat162 pair) {
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// Where a block lies.
struct SharedBytes {
  uint32_t address;
  __device__ __forceinline__ uint32_t Load16(int at) const {
    return ptx::LoadShared16(address + at);
  }
  __device__ __forceinline__ uint32_t Load32(int at) const {
    return ptx::LoadShared32(address + at);
  }
  __device__ __forceinline__ uint2 Load64(int at) const { return ptx::LoadShared64(address + at); }
  __device__ __forceinline__ uint4 Load128(int at) const {
    return ptx::LoadShared128(address + at);
  }
};
struct GlobalBytes {
  const uint8_t* data;
  __device__ __forceinline__ uint32_t Load16(int at) const {
    return *reinterpret_cast<const uint16_t*>(data + at);
  }
  __device__ __forceinline__ uint32_t Load32(int at) const {
    return *reinterpret_cast<const uint32_t*>(data + at);
  }
  __device__ __forceinline__ uint2 Load64(int at) const {
    return *reinterpret_cast<const uint2*>(data + at);
  }
  __device__ __forceinline__ uint4 Load128(int at) const {
    return *reinterpret_cast<const uint4*>(data + at);
  }
};

// What a lane has of the groups of a block: 2 bytes of each for its row.
template <int kGroups>
struct GroupValues {
  uint32_t of_group[kGroups];

  template <typename Bytes>
  __device__ __forceinline__ static GroupValues Load(const Bytes& bytes, int at, int lane) {
    GroupValues loaded;
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      loaded.of_group[i] = bytes.Load16(at + (i * kStripRows + lane / 4) * 2);
    }
    return loaded;
  }
  // The value of a step's group.
  __device__ __forceinline__ uint32_t At(int step) const {
    return of_group[step * kGroups / (kStripBlockColumns / 16)];
  }
};
__device__ __forceinline__ uint32_t Twice(uint32_t value) { return __byte_perm(value, 0, 0x1010); }

}  // namespace lockstep::kernels
