#pragma once

#include <cstdint>

namespace lockstep::kernels::ptx {

// PTX ISA 9.0, "setmaxnreg": how many registers a thread has from here on, a multiple of 8. All
// warps of a warpgroup say the same; who takes waits until others have released.
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
__device__ __forceinline__ void ForgetOrigin(uint32_t& value) { asm volatile("" : "+r"(value)); }

// No instruction: the value is computed before the instructions that follow, although it is needed
// later.
template <typename T>
__device__ __forceinline__ void ComputeNow(T*& value) {
  asm volatile("" : "+l"(value));
}
__device__ __forceinline__ void ComputeNow(int& value) { asm volatile("" : "+r"(value)); }

// The value that all lanes of the warp have, and the compiler knows that they do. It computes the
// descriptors of matrix instructions once for the warp, but only where every loop and condition
// around them depends on such values alone. Otherwise it moves each descriptor from a register of
// the lanes, which costs more than a small product.
template <typename T>
__device__ __forceinline__ T WarpUniform(T value) {
  static_assert(sizeof(T) == sizeof(uint32_t));
  return static_cast<T>(__reduce_or_sync(0xFFFFFFFFu, static_cast<uint32_t>(value)));
}

}  // namespace lockstep::kernels::ptx
