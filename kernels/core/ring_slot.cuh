#pragma once

#include <cstdint>

namespace lockstep::kernels {

// A stage of a ring in shared memory, and the phase of the stage's barriers (ptx::WaitBarrier).
struct RingSlot {
  int stage = 0;
  uint32_t phase = 0;

  __device__ __forceinline__ void Advance(int num_stages) {
    if (++stage == num_stages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

}  // namespace lockstep::kernels
