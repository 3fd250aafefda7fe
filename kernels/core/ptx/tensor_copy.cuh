#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/core/ptx/cache_policy.cuh"

// One function per instruction; PTX ISA 9.0, "cp.async.bulk.tensor": a box of a matrix that a
// tensor map describes, copied by the copy engine. Elements outside the matrix arrive as zero and
// count as bytes all the same.
namespace lockstep::kernels::ptx {

// True in one lane of a warp that has all its lanes here. Instructions of the copy engine take
// their operands from registers that a warp shares: behind this test the compiler need not search
// for lanes.
__device__ __forceinline__ bool ElectOneLane() {
  uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred elected;\n"
      "elect.sync _|elected, 0xFFFFFFFF;\n"
      "selp.b32 %0, 1, 0, elected;\n"
      "}"
      : "=r"(elected));
  return elected != 0;
}

__device__ __forceinline__ void PrefetchTensorMap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Copies the box of a matrix that begins at (row, column) to shared memory. Its bytes count at
// `barrier`.
__device__ __forceinline__ void CopyTensorBox(uint32_t shared_address, const CUtensorMap* map,
                                              int column, int row, uint32_t barrier,
                                              CachePolicy policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address),
      "l"(map), "r"(column), "r"(row), "r"(barrier), "l"(static_cast<uint64_t>(policy))
      : "memory");
}

// The box of a tensor of three to five dimensions; coordinates ascend from the dimension without a
// stride.
__device__ __forceinline__ void CopyTensorBox(uint32_t shared_address, const CUtensorMap* map,
                                              int first, int second, int third, uint32_t barrier,
                                              CachePolicy policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared_address),
      "l"(map), "r"(first), "r"(second), "r"(third), "r"(barrier),
      "l"(static_cast<uint64_t>(policy))
      : "memory");
}

__device__ __forceinline__ void CopyTensorBox(uint32_t shared_address, const CUtensorMap* map,
                                              int first, int second, int third, int fourth,
                                              uint32_t barrier, CachePolicy policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(shared_address),
      "l"(map), "r"(first), "r"(second), "r"(third), "r"(fourth), "r"(barrier),
      "l"(static_cast<uint64_t>(policy))
      : "memory");
}

__device__ __forceinline__ void CopyTensorBox(uint32_t shared_address, const CUtensorMap* map,
                                              int first, int second, int third, int fourth,
                                              int fifth, uint32_t barrier, CachePolicy policy) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8;" ::"r"(shared_address),
      "l"(map), "r"(first), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(barrier),
      "l"(static_cast<uint64_t>(policy))
      : "memory");
}

}  // namespace lockstep::kernels::ptx
