#pragma once

#include <cstdint>

// PTX ISA 9.0, "setmaxnreg": how many registers a thread has from here on, a multiple of 8. All
// warps of a warpgroup say the same; who takes waits until others have released.
namespace lockstep::kernels::ptx {

template <int kCount>
__device__ __forceinline__ void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void ReleaseRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

// No instruction: the compiler no longer knows where the value came from, and computes anew what
// depends on it.
template <typename T>
__device__ __forceinline__ void ForgetOrigin(T*& pointer) {
  asm volatile("" : "+l"(pointer));
}
__device__ __forceinline__ void ForgetOrigin(uint32_t& value) { asm volatile("" : "+r"(value)); }

}  // namespace lockstep::kernels::ptx
