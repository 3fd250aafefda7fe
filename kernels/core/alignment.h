#pragma once

#include <cstdint>

namespace lockstep::kernels {

// Null is aligned to everything.
inline bool IsAligned(const void* pointer, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

}  // namespace lockstep::kernels
