#include <cuda.h>

#include <cstdint>

#include "kernels/core/ptx/cluster.cuh"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/core/ptx/registers.cuh"
#include "kernels/core/ptx/tensor_copy.cuh"
#include "kernels/formats/fp8_activations/fp8_many_rows_consumer.cuh"
#include "kernels/formats/fp8_activations/fp8_many_rows_ring.cuh"
#include "kernels/formats/fp8_activations/fp8_task.h"

namespace lockstep::kernels {
namespace {

// Two warpgroups multiply, and one warp of a third has the copy engine fill the ring. Blocks stay
// and take tiles in turn.
template <int kHalves, bool kChannelScales, int kCluster>
__global__ void __launch_bounds__(kFp8ManyRowsThreads, 1)
    Fp8ManyRowsKernel(const __grid_constant__ CUtensorMap input_map,
                      const __grid_constant__ CUtensorMap weight_map,
                      const __grid_constant__ Fp8Task task) {
  // Registers of a thread. Together they are what the block has at its start, 168 for each.
  constexpr int kCopyRegisters = 40;
  constexpr int kMultiplyRegisters = 232;
  using Consumer = Fp8ManyRowsConsumer<kHalves, kChannelScales, kCluster>;
  extern __shared__ uint8_t shared[];
  const typename Consumer::Ring ring(task, ptx::SharedAddress(shared));
  // The same in all lanes, and known to be to the compiler.
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp == Consumer::Ring::kConsumerWarps && ptx::ElectOneLane()) {
    ptx::PrefetchTensorMap(&weight_map);
    ptx::PrefetchTensorMap(&input_map);
    ring.Initialize();
  }
  __syncwarp();
  if constexpr (kCluster == 1) {
    __syncthreads();
  } else {
    ptx::SyncCluster();
  }
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
  if (warp < Consumer::Ring::kConsumerWarps) {
    ptx::TakeRegisters<kMultiplyRegisters>();
    Consumer(task, ring, warp / 4).Run();
  } else {
    ptx::ReleaseRegisters<kCopyRegisters>();
    if (warp == Consumer::Ring::kConsumerWarps) {
      RingSlot slot;
      for (int tile = ring.FirstTile(); ring.IsTile(tile); tile = ring.NextTile(tile)) {
        const Fp8TileOrigin origin = ring.Origin(tile);
        for (int block = 0; block < task.num_blocks; ++block) {
          ring.WaitUntilEmpty(slot);
          if (ptx::ElectOneLane()) ring.Load(&input_map, &weight_map, origin, block, slot.stage);
          ring.Advance(slot);
        }
      }
    }
  }
  // The other block may still arrive at barriers of this one and copy to its memory.
  if constexpr (kCluster > 1) {
    __syncwarp();
    ptx::SyncCluster();
  }
}

template <int kHalves, int kCluster>
const void* OfLayout(Fp8ScaleLayout layout) {
  return layout == Fp8ScaleLayout::kChannel
             ? reinterpret_cast<const void*>(Fp8ManyRowsKernel<kHalves, true, kCluster>)
             : reinterpret_cast<const void*>(Fp8ManyRowsKernel<kHalves, false, kCluster>);
}

}  // namespace

const void* FindFp8ManyRowsKernel(int input_rows, Fp8ScaleLayout layout, int cluster_blocks) {
  if (input_rows == 128 && cluster_blocks == 1) return OfLayout<1, 1>(layout);
  if (input_rows == 256 && cluster_blocks == 1) return OfLayout<2, 1>(layout);
  if (input_rows == 256 && cluster_blocks == 2) return OfLayout<2, 2>(layout);
  return nullptr;
}

}  // namespace lockstep::kernels
