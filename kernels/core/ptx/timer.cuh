#pragma once

#include <cstdint>

namespace lockstep::kernels::ptx {

// Nanoseconds of the device's global timer, the same for all multiprocessors; it advances in steps
// of up to a microsecond (PTX ISA 9.0, "Special Registers").
__device__ __forceinline__ uint64_t GlobalTimerNs() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

}  // namespace lockstep::kernels::ptx
