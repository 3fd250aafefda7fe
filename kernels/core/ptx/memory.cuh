#pragma once

#include <cstdint>

// One function per instruction; PTX ISA 9.0, "Data movement" and "Asynchronous copy".
namespace lockstep::kernels::ptx {

__device__ __forceinline__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Loads from shared memory, in the order of the program among themselves and beside barriers and
// matrix instructions.
__device__ __forceinline__ uint32_t LoadShared8(uint32_t shared_address) {
  uint32_t value;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(value) : "r"(shared_address));
  return value;
}
__device__ __forceinline__ uint32_t LoadShared16(uint32_t shared_address) {
  uint32_t value;
  asm volatile(
      "{\n"
      ".reg .b16 low;\n"
      "ld.shared.b16 low, [%1];\n"
      "cvt.u32.u16 %0, low;\n"
      "}"
      : "=r"(value)
      : "r"(shared_address));
  return value;
}
__device__ __forceinline__ uint32_t LoadShared32(uint32_t shared_address) {
  uint32_t value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(shared_address));
  return value;
}
__device__ __forceinline__ uint2 LoadShared64(uint32_t shared_address) {
  uint2 value;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
               : "=r"(value.x), "=r"(value.y)
               : "r"(shared_address));
  return value;
}
__device__ __forceinline__ uint4 LoadShared128(uint32_t shared_address) {
  uint4 value;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(shared_address));
  return value;
}
__device__ __forceinline__ void StoreShared32(uint32_t shared_address, uint32_t value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared_address), "r"(value) : "memory");
}
__device__ __forceinline__ void StoreShared128(uint32_t shared_address, uint4 value) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared_address), "r"(value.x),
               "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
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

// Accesses to global memory that other blocks make at the same time: 8 bytes are whole, nothing is
// ordered.
__device__ __forceinline__ void StoreRelaxed(uint64_t* global, uint64_t value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(global), "l"(value) : "memory");
}
__device__ __forceinline__ void StoreRelaxed(uint64_t* global, ulonglong2 values) {
  asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(global), "l"(values.x),
               "l"(values.y)
               : "memory");
}
__device__ __forceinline__ ulonglong2 LoadRelaxed2(const uint64_t* global) {
  ulonglong2 values;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(values.x), "=l"(values.y)
               : "l"(global)
               : "memory");
  return values;
}

// The same, where other devices access the memory too.
__device__ __forceinline__ void StoreRelaxedSystem(uint64_t* global, ulonglong2 values) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(global), "l"(values.x),
               "l"(values.y)
               : "memory");
}
__device__ __forceinline__ ulonglong2 LoadRelaxedSystem2(const uint64_t* global) {
  ulonglong2 values;
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(values.x), "=l"(values.y)
               : "l"(global)
               : "memory");
  return values;
}
// A thread of any device that acquires the stored value also sees what was written before it.
__device__ __forceinline__ void StoreReleaseSystem(uint64_t* global, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(global), "l"(value) : "memory");
}
__device__ __forceinline__ uint64_t LoadAcquireSystem(const uint64_t* global) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(global) : "memory");
  return value;
}

// The 128 bytes around an address, as far as the second-level cache.
__device__ __forceinline__ void PrefetchToL2(const void* global) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(global));
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
