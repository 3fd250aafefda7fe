#pragma once

#include <cstdint>

// One function per instruction; PTX ISA 9.0, "Data movement" and "Asynchronous copy".
namespace lockstep::kernels::ptx {

__device__ __forceinline__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// 16 bytes from global to shared memory, asynchronously, past L1. With `valid` false the 16 bytes
// become zero and nothing is read.
__device__ __forceinline__ void CopyAsync16(uint32_t shared_address, const void* global,
                                            bool valid = true) {
  const int num_bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address),
               "l"(global), "r"(num_bytes)
               : "memory");
}

__device__ __forceinline__ void CopyAsyncCommit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Until at most kPending of this thread's groups are under way.
template <int kPending>
__device__ __forceinline__ void CopyAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Programmatic dependent launch. Before the wait a kernel may only touch what no kernel before it
// in the stream writes; without a predecessor that allows it, the wait returns at once.
__device__ __forceinline__ void WaitForPredecessor() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
// Lets the next kernel start once every block has said so or ended.
__device__ __forceinline__ void AllowSuccessor() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace lockstep::kernels::ptx
