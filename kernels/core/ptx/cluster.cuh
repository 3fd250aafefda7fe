#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/core/ptx/cache_policy.cuh"

// PTX ISA 9.0, "Cluster of cooperative thread arrays": blocks that run at the same time and reach
// each other's shared memory.
namespace lockstep::kernels::ptx {

__device__ __forceinline__ uint32_t BlockRankInCluster() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Until all threads of the cluster are here. They then see what the others wrote to shared memory.
__device__ __forceinline__ void SyncCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The box of a matrix that begins at (row, column).
struct TensorBox {
  const CUtensorMap* map;
  int column;
  int row;
};

// Copies the box to every block of the cluster in `block_mask`, at the same place of its shared
// memory. The bytes count at its own `barrier`.
__device__ __forceinline__ void CopyTensorBoxToBlocks(uint32_t shared_address, const TensorBox& box,
                                                      uint32_t barrier, uint16_t block_mask,
                                                      CachePolicy policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;" ::"r"(
          shared_address),
      "l"(box.map), "r"(box.column), "r"(box.row), "r"(barrier), "h"(block_mask),
      "l"(static_cast<uint64_t>(policy))
      : "memory");
}

// Arrives, if `condition` holds, at the mbarrier that lies in block `rank` where `barrier` lies in
// this one. No branch, as in ArriveIf. It orders this thread's reads, but not its writes: a release
// to the cluster costs a fence of all memory.
__device__ __forceinline__ void ArriveAtBlockIf(uint32_t barrier, uint32_t rank, bool condition) {
  asm volatile(
      "{\n"
      ".reg .pred arrives;\n"
      ".reg .b32 remote;\n"
      "setp.ne.b32 arrives, %2, 0;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "@arrives mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(barrier),
      "r"(rank), "r"(static_cast<int>(condition))
      : "memory");
}

}  // namespace lockstep::kernels::ptx
