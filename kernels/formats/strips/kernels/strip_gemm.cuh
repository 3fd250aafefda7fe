#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/core/ptx/memory.cuh"
#include "kernels/core/ptx/tensor_copy.cuh"
#include "kernels/formats/strips/kernels/strip_consumer.cuh"

namespace lockstep::kernels {

inline constexpr int kStripProducerThreads = 32;

// By one warp: the input of as many stages as the ring has.
template <int kInputRows, bool kHolds, typename Ring>
__device__ __forceinline__ void LoadFirstInput(const StripTask& task, const Ring& ring,
                                               const CUtensorMap* input_map) {
  if constexpr (kHolds) {
    if (ptx::ElectOneLane()) ring.LoadHeldInput();
  } else {
    StripWalk walk = ring.Begin();
    for (int i = 0; i < task.num_stages && !ring.IsDone(walk); ++i) {
      if (ptx::ElectOneLane()) ring.LoadInput(input_map, kInputRows, walk);
      ring.Advance(walk);
    }
  }
}

// By the warp that fills the ring.
template <int kInputRows, bool kHolds, typename Ring>
__device__ __forceinline__ void ProduceStages(const StripTask& task, const Ring& ring,
                                              const CUtensorMap* input_map) {
  // No kernel writes weights, so they need not wait for the kernel before this one.
  StripWalk walk = ring.Begin();
  for (int i = 0; i < task.num_stages && !ring.IsDone(walk); ++i) {
    if (ptx::ElectOneLane()) ring.LoadWeights(walk);
    ring.Advance(walk);
  }
  ptx::WaitForPredecessor();
  for (; !ring.IsDone(walk); ring.Advance(walk)) {
    ring.WaitUntilEmpty(walk.slot);
    if (ptx::ElectOneLane()) {
      ring.LoadWeights(walk);
      if constexpr (!kHolds) ring.LoadInput(input_map, kInputRows, walk);
    }
  }
}

// A thread block has some strips at a time and walks all of k with them. One warp has the copy
// engine fill a ring with packed codes and input rows; the others convert and multiply. One
// accumulator per output, k ascending in steps of 16: the canonical dot product (docs/numerics.md).
template <typename Codec, int kStrips, int kStageBlocks, int kInputRows, GemmEpilogue kEpilogue,
          bool kHolds>
__global__ void __launch_bounds__(kMaxTileWarps * 32 + kStripProducerThreads, 1)
    StripGemmKernel(const __grid_constant__ CUtensorMap input_map,
                    const __grid_constant__ StripTask task) {
  using Consumer = StripConsumer<Codec, kStrips, kStageBlocks, kInputRows, kEpilogue, kHolds>;
  extern __shared__ uint8_t shared[];
  const typename Consumer::Ring ring(task, ptx::SharedAddress(shared));
  // The same in all lanes, and known to be to the compiler.
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  const int num_consumers = static_cast<int>(blockDim.x) / 32 - 1;
  const bool produces = warp == num_consumers;
  if (produces) ring.Initialize(static_cast<int>(threadIdx.x) % 32, num_consumers);
  __syncthreads();
  ptx::AllowSuccessor();
  if (!produces) {
    if constexpr (!kHolds) {
      if (warp == 0 && ptx::ElectOneLane()) ptx::PrefetchTensorMap(&input_map);
    }
    ptx::WaitForPredecessor();
    // The input of the first stages is asked for beside their weights, not behind them.
    if (warp == 0) LoadFirstInput<kInputRows, kHolds>(task, ring, &input_map);
    if constexpr (kHolds) ring.WaitForHeldInput();
    Consumer(task, ring, warp).Run();
    return;
  }
  ProduceStages<kInputRows, kHolds>(task, ring, &input_map);
}

}  // namespace lockstep::kernels
