#include <cuda.h>

#include <cstdint>

#include "kernels/core/ptx/memory.cuh"
#include "kernels/core/ptx/registers.cuh"
#include "kernels/core/ptx/tensor_copy.cuh"
#include "kernels/formats/fp8_activations/fp8_few_rows_consumer.cuh"
#include "kernels/formats/fp8_activations/fp8_few_rows_ring.cuh"
#include "kernels/formats/fp8_activations/fp8_task.h"

namespace lockstep::kernels {
namespace {

// One warp has the copy engine fill the ring, one or two warpgroups multiply what has arrived. A
// block owns neighbouring tiles of weight rows, and every weight is read once.
template <int kN>
__global__ void __launch_bounds__(2 * 128 + Fp8ProducerThreads(kN), 1)
    Fp8FewRowsKernel(const __grid_constant__ CUtensorMap input_map,
                     const __grid_constant__ CUtensorMap weight_map,
                     const __grid_constant__ Fp8Task task) {
  // Registers of a thread, where the producer is a warpgroup that gives away its own. Three
  // warpgroups have 168 each at their start.
  constexpr bool kMovesRegisters = Fp8ProducerThreads(kN) == 128;
  constexpr int kCopyRegisters = 40;
  constexpr int kMultiplyRegisters = 232;
  extern __shared__ uint8_t shared[];
  const Fp8FewRowsRing<kN> ring(task, ptx::SharedAddress(shared));
  // The same in all lanes, and known to be to the compiler.
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  const int num_consumer_warps = (static_cast<int>(blockDim.x) - Fp8ProducerThreads(kN)) / 32;
  const bool produces = warp == num_consumer_warps;
  const Fp8Walk begin = ring.Begin();
  Fp8Walk weight_walk = begin;
  if (produces) {
    if (ptx::ElectOneLane()) {
      ptx::PrefetchTensorMap(&weight_map);
      ptx::PrefetchTensorMap(&input_map);
      ring.Initialize(num_consumer_warps);
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
  if (warp < num_consumer_warps) {
    if constexpr (kMovesRegisters) ptx::TakeRegisters<kMultiplyRegisters>();
    Fp8FewRowsConsumer<kN>(task, ring, warp).Run();
    return;
  }
  if constexpr (kMovesRegisters) ptx::ReleaseRegisters<kCopyRegisters>();
  if (!produces) return;
  if (ptx::ElectOneLane()) ring.LoadScales();
  Fp8Walk input_walk = begin;
  for (int i = 0; i < task.num_stages && !ring.IsDone(input_walk); ++i) {
    if (ptx::ElectOneLane()) ring.LoadInput(&input_map, input_walk);
    ring.Advance(input_walk);
  }
  for (; !ring.IsDone(weight_walk); ring.Advance(weight_walk)) {
    ring.WaitUntilEmpty(weight_walk.slot);
    if (ptx::ElectOneLane()) {
      ring.LoadWeights(&weight_map, weight_walk);
      ring.LoadInput(&input_map, weight_walk);
    }
  }
}

}  // namespace

const void* FindFp8FewRowsKernel(int input_rows) {
  switch (input_rows) {
    case 8:
      return reinterpret_cast<const void*>(Fp8FewRowsKernel<8>);
    case 16:
      return reinterpret_cast<const void*>(Fp8FewRowsKernel<16>);
    case 32:
      return reinterpret_cast<const void*>(Fp8FewRowsKernel<32>);
    case 64:
      return reinterpret_cast<const void*>(Fp8FewRowsKernel<64>);
    case 128:
      return reinterpret_cast<const void*>(Fp8FewRowsKernel<128>);
    default:
      return nullptr;
  }
}

}  // namespace lockstep::kernels
