#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/core/ptx/memory.cuh"
#include "kernels/core/ptx/tensor_copy.cuh"
#include "kernels/gemm/tile/gemm_consume.cuh"
#include "kernels/gemm/tile/gemm_ring_loads.cuh"
#include "kernels/gemm/tile/gemm_task.h"

namespace lockstep::kernels {

inline constexpr int kGemmProducerThreads = 32;

// Our GEMM for Hopper. A block owns some rows of the weights at a time and walks all of k with
// them: one warp has the copy engine fill a ring of stages with weights and input, the others, a
// Unit, multiply what has arrived. A tile is as narrow as the multiprocessors need to be evenly
// busy. One accumulator per output, k ascending in steps of 16: the canonical dot product
// (docs/numerics.md). Input rows that a tile lacks are not fetched when the tile is alone; the
// matrix units then read other bytes of shared memory for them, and the outputs of those rows are
// dropped.
template <typename Unit>
__global__ void __launch_bounds__(Unit::kWarps * 32 + kGemmProducerThreads, 1)
    GemmKernel(const __grid_constant__ CUtensorMap input_map,
               const __grid_constant__ CUtensorMap weight_map,
               const __grid_constant__ GemmTask task) {
  extern __shared__ uint8_t shared[];
  const typename Unit::Ring ring(task, ptx::SharedAddress(shared));
  // The same in all lanes, and known to be to the compiler.
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  const bool produces = warp == Unit::kWarps;
  constexpr bool kHoldsInput = Unit::Ring::kHoldsInput;
  const SlabWalk begin = ring.Begin();
  SlabWalk weight_walk = begin;
  if (produces) {
    if (ptx::ElectOneLane()) {
      ptx::PrefetchTensorMap(&weight_map);
      if constexpr (!kHoldsInput) ptx::PrefetchTensorMap(&input_map);
      ring.Initialize(Unit::kWarps);
    }
    __syncwarp();
    // No kernel writes weights, so they need not wait for the kernel before this one.
    for (int i = 0; i < task.num_stages && !ring.IsDone(weight_walk); ++i) {
      if (ptx::ElectOneLane()) ring.LoadWeights(&weight_map, weight_walk);
      ring.Advance(weight_walk);
    }
  }
  __syncthreads();
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
  if (!produces) {
    if constexpr (kHoldsInput) ring.WaitForHeldInput();
    ConsumeTiles(task, ring, Unit(task, ring, warp));
    return;
  }
  if constexpr (kHoldsInput) {
    if (ptx::ElectOneLane()) ring.LoadHeldInput();
  } else {
    SlabWalk input_walk = begin;
    for (int i = 0; i < task.num_stages && !ring.IsDone(input_walk); ++i) {
      if (ptx::ElectOneLane()) ring.LoadInput(&input_map, input_walk);
      ring.Advance(input_walk);
    }
  }
  for (; !ring.IsDone(weight_walk); ring.Advance(weight_walk)) {
    ring.WaitUntilEmpty(weight_walk.slot);
    if (ptx::ElectOneLane()) {
      ring.LoadWeights(&weight_map, weight_walk);
      if constexpr (!kHoldsInput) ring.LoadInput(&input_map, weight_walk);
    }
  }
}

}  // namespace lockstep::kernels
