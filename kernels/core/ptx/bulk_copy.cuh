#pragma once

#include <cstdint>

#include "kernels/core/ptx/cache_policy.cuh"

// One function per instruction; PTX ISA 9.0, "cp.async.bulk" and what its users need beside it.
namespace lockstep::kernels::ptx {

// `num_bytes` (a multiple of 16) of consecutive global memory to shared memory, both aligned to 16,
// by the copy engine. The bytes count at `barrier`.
__device__ __forceinline__ void CopyBulk(uint32_t shared_address, const void* global,
                                         uint32_t num_bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address),
      "l"(global), "r"(num_bytes), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ void CopyBulk(uint32_t shared_address, const void* global,
                                         uint32_t num_bytes, uint32_t barrier, CachePolicy policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1], %2, [%3], %4;" ::"r"(shared_address),
      "l"(global), "r"(num_bytes), "r"(barrier), "l"(static_cast<uint64_t>(policy))
      : "memory");
}

// The copy engine and warpgroup matrix instructions that follow come after this thread's accesses
// to shared memory. They also come after what other threads wrote there before a barrier that this
// thread awaited.
__device__ __forceinline__ void FenceAsyncProxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Until `num_threads` threads of the block have come to barrier `id` (1 .. 15).
__device__ __forceinline__ void SyncThreads(int id, int num_threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(num_threads) : "memory");
}
// Arrives there and does not wait. It counts as one of the `num_threads`.
__device__ __forceinline__ void ArriveAtThreads(int id, int num_threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(num_threads) : "memory");
}
// Adds to global memory and returns the old value, with acquire and release semantics: a thread
// that reads the new value also sees all writes that this thread has seen, and this thread sees
// those of earlier adders.
__device__ __forceinline__ uint32_t AddAcquireRelease(uint32_t* global, uint32_t value) {
  uint32_t old;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(global), "r"(value)
               : "memory");
  return old;
}

}  // namespace lockstep::kernels::ptx
