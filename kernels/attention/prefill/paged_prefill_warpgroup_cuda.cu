#include <algorithm>

#include "kernels/attention/paged_attention_cuda.h"
#include "kernels/attention/prefill/prefill_copier.cuh"
#include "kernels/attention/prefill/prefill_group_output.cuh"
#include "kernels/attention/prefill/prefill_group_steps.cuh"
#include "kernels/core/ptx/registers.cuh"

// Prefill for head_dims of whole 64-dim panels, in the manner of arXiv 2407.08608. Blocks are
// persistent: each takes tiles of query rows from the planned list. One warpgroup copies queries,
// keys and values; two or three compute, 64 rows each. A computing warpgroup issues two products
// together: the scores of the next key tile, and the weighted values of this one. It computes the
// softmax of the next tile while the values are still being multiplied. The kernel for other
// head_dims gives the same bits.
namespace lockstep::kernels {
namespace {

template <int kHeadDim, int kGroups, KvType kType>
__global__ __launch_bounds__(
    (PrefillBlock<kHeadDim, kGroups>::kThreads),
    1) void WarpgroupPrefillKernel(const __grid_constant__ PrefillArguments arguments) {
  using B = PrefillBlock<kHeadDim, kGroups>;
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t address = ptx::SharedAddress(shared);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < B::kKeyStages; ++stage) {
      ptx::InitBarrier(address + B::kKeysFull + 8 * stage, kCopyWarps);
      ptx::InitBarrier(address + B::kKeysEmpty + 8 * stage, B::kComputeWarps);
    }
    for (int stage = 0; stage < B::kValueStages; ++stage) {
      ptx::InitBarrier(address + B::kValuesFull + 8 * stage, kCopyWarps);
      ptx::InitBarrier(address + B::kValuesEmpty + 8 * stage, B::kComputeWarps);
    }
    for (int i = 0; i < B::kQueryStages * kGroups; ++i) {
      ptx::InitBarrier(address + B::kQueriesFull + 8 * i, B::kQueryArrivals);
      ptx::InitBarrier(address + B::kQueriesEmpty + 8 * i, kGroupThreads / 32);
    }
    for (int group = 0; group < kGroups; ++group) {
      ptx::InitBarrier(address + B::kTurn + 8 * group, kGroupThreads / 32);
    }
    ptx::FenceBarrierInit();
  }
  __syncthreads();
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
  // The same for all lanes, and the compiler knows it.
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x / 32), 0);
  const int lane = threadIdx.x % 32;
  if (warp >= B::kComputeWarps) {
    ptx::ReleaseRegisters<B::kCopyRegisters>();
    PrefillCopier<kHeadDim, kGroups, kType>(arguments, shared, warp - B::kComputeWarps, lane).Run();
  } else {
    ptx::TakeRegisters<B::kComputeRegisters>();
    PrefillGroup<kHeadDim, kGroups>(arguments, shared, warp, lane).Run();
  }
}

template <int kHeadDim, int kGroups, KvType kType>
absl::Status LaunchKernelOf(const CudaStream& stream, const PagedPrefillAttentionParams& params) {
  using B = PrefillBlock<kHeadDim, kGroups>;
  const PrefillArguments arguments = MakePrefillArguments(params);
  const int num_blocks = std::min(arguments.num_items, stream.num_multiprocessors);
  return LaunchPrefillKernel(
      stream, WarpgroupPrefillKernel<kHeadDim, kGroups, kType>, arguments,
      {.num_threads = B::kThreads, .num_blocks = num_blocks, .shared_bytes = B::kBytes});
}

template <int kHeadDim, int kGroups>
absl::Status LaunchKernel(const CudaStream& stream, const PagedPrefillAttentionParams& params) {
  return params.kv.type == KvType::kFp8
             ? LaunchKernelOf<kHeadDim, kGroups, KvType::kFp8>(stream, params)
             : LaunchKernelOf<kHeadDim, kGroups, KvType::kBFloat16>(stream, params);
}

template <int kHeadDim>
absl::Status LaunchHeadDim(const CudaStream& stream, const PagedPrefillAttentionParams& params) {
  return params.tile_rows == kSmallPrefillTileRows ? LaunchKernel<kHeadDim, 2>(stream, params)
                                                   : LaunchKernel<kHeadDim, 3>(stream, params);
}
static_assert(kSmallPrefillTileRows == 2 * kGroupRows && kLargePrefillTileRows == 3 * kGroupRows);

}  // namespace

absl::Status LaunchWarpgroupPrefill(const CudaStream& stream,
                                    const PagedPrefillAttentionParams& params) {
  if (params.kv.head_dim == 256) return LaunchKernel<256, 2>(stream, params);
  return params.kv.head_dim == 64 ? LaunchHeadDim<64>(stream, params)
                                  : LaunchHeadDim<128>(stream, params);
}

}  // namespace lockstep::kernels
