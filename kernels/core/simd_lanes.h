#pragma once

#include <cstdint>

// What every vector type of simd.h has in common.
#define LOCKSTEP_INLINE [[gnu::always_inline]] inline

namespace lockstep::kernels::LOCKSTEP_ISA {

inline constexpr int kLanes = 16;

// Prefetches the cache line `ahead_bytes` after `from`. It need not exist.
LOCKSTEP_INLINE void Prefetch(const void* from, int64_t ahead_bytes) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<intptr_t>(from) + ahead_bytes));
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
