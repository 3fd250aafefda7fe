#include <algorithm>

#include "kernels/attention/attend_item.cuh"
#include "kernels/attention/paged_attention_cuda.h"
#include "kernels/core/ptx/mbarrier.cuh"
#include "kernels/device/launch.cuh"

// Decode: a work item is one split of one row for one KV head, with the query heads of its group as
// the rows of a 16-row tile. As many blocks as the device holds take items from a counter; one warp
// of a block keeps a ring of key tiles filled, across items, and four compute: they share QK by
// keys (a page of 16 each) and PV by columns. One more warp counts the splits of a row that have
// arrived; the block that finishes the last one folds them all. Which block takes which item
// changes no bit.
namespace lockstep::kernels {
namespace {

constexpr int kFoldBatch = 12;  // partials of a row that are requested at once

// Copies the tiles of one item into the ring, its queries with the first.
template <int kHeadDim>
__device__ __forceinline__ void CopyItem(const DecodeArguments& arguments,
                                         const DecodeBlock<kHeadDim>& block, const DecodeItem& work,
                                         int lane, RingSlot& slot) {
  constexpr int kPageBytes = KvTile<kHeadDim>::kPageBytes;
  const PagedDecodeAttentionParams& params = arguments.params;
  const int64_t table =
      params.block_table_rows == nullptr ? work.row : params.block_table_rows[work.row];
  const BlockId* pages =
      params.block_tables + table * params.block_table_stride + work.key_begin / kKvBlockTokens;
  const int num_pages = (work.key_end - work.key_begin + kKvBlockTokens - 1) / kKvBlockTokens;
  BlockId lane_page = 0;
  for (int page = 0; page < num_pages; page += kKeyTilePages) {
    if (page % 32 == 0 && page + lane < num_pages) lane_page = pages[page + lane];
    const BlockId source = __shfl_sync(0xFFFFFFFFu, lane_page, (page % 32 + lane) % 32);
    const int tile_pages = min(num_pages - page, kKeyTilePages);
    ptx::WaitBarrier(block.EmptyBarrier(slot.stage), slot.phase ^ 1);
    const uint32_t full = block.FullBarrier(slot.stage);
    if (lane == 0) {
      block.Work(slot.stage) = work;
      const int query_bytes = page == 0 ? block.layout.query_bytes : 0;
      ptx::ArriveExpectBytes(full, tile_pages * kPageBytes + query_bytes);
      if (page == 0) {
        ptx::CopyBulk(block.Query(slot.stage),
                      params.query + work.row * params.query_stride +
                          work.kv_head * arguments.group * kHeadDim,
                      query_bytes, full);
      }
    }
    __syncwarp();
    if (lane < tile_pages) {
      ptx::CopyBulk(block.Tile(slot.stage) + lane * kPageBytes,
                    DeviceKeys(params.kv, source, work.kv_head), kPageBytes, full);
    }
    slot.Advance(arguments.num_stages);
  }
}

// The warp that copies, item by item. The first item of a block is that of its index, further ones
// come from a counter; the last block to see that there are no more sets it back.
template <int kHeadDim>
__device__ void FillRing(const DecodeArguments& arguments, const DecodeBlock<kHeadDim>& block,
                         int lane) {
  const int num_items = block.NumItems(arguments);
  const bool has_more = num_items > static_cast<int>(gridDim.x);
  uint32_t* const taken = arguments.params.arrivals;
  uint32_t* const finished = arguments.params.arrivals + 1;
  RingSlot slot;
  for (int item = blockIdx.x; item < num_items;) {
    uint32_t next = num_items;
    if (has_more && lane == 0) next = gridDim.x + atomicAdd(taken, 1u);
    CopyItem(arguments, block, FindWork(arguments, block, item), lane, slot);
    item = static_cast<int>(__shfl_sync(0xFFFFFFFFu, next, 0));
  }
  ptx::WaitBarrier(block.EmptyBarrier(slot.stage), slot.phase ^ 1);
  if (lane != 0) return;
  block.Work(slot.stage).num_splits = 0;
  ptx::Arrive(block.FullBarrier(slot.stage));
  if (has_more && ptx::AddAcquireRelease(finished, 1) == gridDim.x - 1) {
    *taken = 0;
    *finished = 0;
  }
}

// Folds the partials of all splits, ascending, and writes the finished rows. By all math threads.
template <int kHeadDim>
__device__ __forceinline__ void FoldSplits(const DecodeArguments& arguments,
                                           const DecodeItem& work) {
  const PagedDecodeAttentionParams& params = arguments.params;
  const int partial_stride = PartialStride(arguments.group, kHeadDim);
  const int64_t split_stride = params.kv.num_kv_heads * partial_stride;
  const float* partial = params.partials + static_cast<int64_t>(work.first_slot) * partial_stride;
  constexpr int kQuads = kHeadDim / 4;
  for (int i = threadIdx.x; i < arguments.group * kQuads; i += kMathThreads) {
    const float* values = partial + 4 * i;
    const float* states = partial + arguments.group * kHeadDim + 2 * (i / kQuads);
    SoftmaxRow row;
    float4 sums = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int base = 0; base < work.num_splits; base += kFoldBatch) {
      float4 open[kFoldBatch];
      float2 open_state[kFoldBatch];
#pragma unroll
      for (int j = 0; j < kFoldBatch; ++j) {
        open_state[j] = make_float2(kNoScore, 0.0f);
        if (base + j >= work.num_splits) continue;
        open[j] = __ldcg(reinterpret_cast<const float4*>(values + (base + j) * split_stride));
        open_state[j] = __ldcg(reinterpret_cast<const float2*>(states + (base + j) * split_stride));
      }
#pragma unroll
      for (int j = 0; j < kFoldBatch; ++j) {
        const PartialFold fold(row.max, open_state[j].x, arguments.exponent_scale);
        row.max = fold.max;
        row.sum = fold(row.sum, open_state[j].y);
        sums = make_float4(fold(sums.x, open[j].x), fold(sums.y, open[j].y),
                           fold(sums.z, open[j].z), fold(sums.w, open[j].w));
      }
    }
    const float reciprocal = __frcp_rn(row.sum);
    const uint2 pairs =
        make_uint2(FinishPair(sums.x, sums.y, reciprocal), FinishPair(sums.z, sums.w, reciprocal));
    *reinterpret_cast<uint2*>(params.output + work.row * params.output_stride +
                              work.kv_head * arguments.group * kHeadDim + 4 * i) = pairs;
  }
}

// Writes the output of a row that has one split, or else this split's partial.
template <int kHeadDim, int kHalves>
__device__ __forceinline__ void WriteItem(const DecodeArguments& arguments, const DecodeItem& work,
                                          const MathWarp<kHeadDim, kHalves>& math) {
  const PagedDecodeAttentionParams& params = arguments.params;
  float sums[kHalves];
#pragma unroll
  for (int half = 0; half < kHalves; ++half) sums[half] = SumOverQuad(math.rows[half].sum);
  if (work.num_splits == 1) {
    BFloat16* output =
        params.output + work.row * params.output_stride + work.kv_head * arguments.group * kHeadDim;
    math.ForOutputs(arguments.group, [&](int half, int row, int column, float first, float second) {
      *reinterpret_cast<uint32_t*>(output + row * kHeadDim + column) =
          FinishPair(first, second, __frcp_rn(sums[half]));
    });
    return;
  }
  float* partial =
      params.partials + static_cast<int64_t>(work.slot) * PartialStride(arguments.group, kHeadDim);
  math.ForOutputs(arguments.group, [&](int half, int row, int column, float first, float second) {
    *reinterpret_cast<float2*>(partial + row * kHeadDim + column) = make_float2(first, second);
  });
  if (math.warp != 0 || math.lane % 4 != 0) return;
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    const int row = math.lane / 4 + 8 * half;
    if (row < arguments.group) {
      *reinterpret_cast<float2*>(partial + arguments.group * kHeadDim + 2 * row) =
          make_float2(math.rows[half].max, sums[half]);
    }
  }
}

// The warp that counts arrivals: to wait for the count, and for partial results to be visible to
// other blocks, would hold the math warps up.
template <int kHeadDim>
__device__ void CountArrivals(const DecodeArguments& arguments,
                              const DecodeBlock<kHeadDim>& block) {
  DecodeArrivals& arrivals = block.ArrivalTurns();
  for (int turn = 0;; ++turn) {
    ptx::WaitBarrier(block.WrittenBarrier(turn), turn / kArrivalTurns % 2);
    DecodeItem work = arrivals.written[turn % kArrivalTurns];
    if (work.num_splits == 0) return;
    uint32_t* const counter =
        arguments.params.arrivals + 2 + work.row * arguments.params.kv.num_kv_heads + work.kv_head;
    if (ptx::AddAcquireRelease(counter, 1) == static_cast<uint32_t>(work.num_splits - 1)) {
      *counter = 0;
    } else {
      work.num_splits = 0;
    }
    arrivals.folds[turn % kArrivalTurns] = work;
    ptx::Arrive(block.CountedBarrier(turn));
  }
}

// A math warp's side of the arrivals. The answers are looked at, and rows folded, a few items
// later.
template <int kHeadDim>
struct ArrivalQueue {
  __device__ __forceinline__ void Send(const DecodeBlock<kHeadDim>& block, const DecodeItem& item) {
    if (threadIdx.x == 0) block.ArrivalTurns().written[sent % kArrivalTurns] = item;
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::Arrive(block.WrittenBarrier(sent));
    ++sent;
  }
  // Until at most `num_pending` answers are outstanding.
  __device__ __forceinline__ void Receive(const DecodeArguments& arguments,
                                          const DecodeBlock<kHeadDim>& block, int num_pending) {
    for (; sent - received > num_pending; ++received) {
      ptx::WaitBarrier(block.CountedBarrier(received), received / kArrivalTurns % 2);
      const DecodeItem work =
          Broadcast(block.ArrivalTurns().folds[received % kArrivalTurns], threadIdx.x % 32);
      if (work.num_splits != 0) FoldSplits<kHeadDim>(arguments, work);
    }
  }

  int sent = 0;
  int received = 0;
};

template <int kHeadDim, int kHalves>
__device__ void Compute(const DecodeArguments& arguments, const DecodeBlock<kHeadDim>& block,
                        int warp, int lane) {
  MathWarp<kHeadDim, kHalves> math;
  math.warp = warp;
  math.lane = lane;
  ArrivalQueue<kHeadDim> arrivals;
  RingSlot slot;
  int buffer = 0;
  for (;;) {
    ptx::WaitBarrier(block.FullBarrier(slot.stage), slot.phase);
    const DecodeItem work = Broadcast(block.Work(slot.stage), lane);
    if (work.num_splits != 0) {
      AttendItem(arguments, block, work, math, slot, buffer, [](int, uint32_t) {});
      WriteItem(arguments, work, math);
    }
    arrivals.Receive(arguments, block, work.num_splits == 0 ? 0 : kArrivalTurns - 1);
    if (work.num_splits != 1) arrivals.Send(block, work);
    if (work.num_splits == 0) return;
  }
}

template <int kHeadDim>
__device__ __forceinline__ void ClearPaddingRows(const DecodeArguments& arguments,
                                                 const DecodeBlock<kHeadDim>& block) {
  const PagedDecodeAttentionParams& params = arguments.params;
  for (int row = blockIdx.x; row < params.num_rows; row += gridDim.x) {
    if (block.NumKeys()[row] != 0) continue;
    uint32_t* output = reinterpret_cast<uint32_t*>(params.output + row * params.output_stride);
    for (int i = threadIdx.x; i < params.num_heads * kHeadDim / 2; i += kMathThreads) output[i] = 0;
  }
}

template <int kHeadDim, int kHalves>
__global__ __launch_bounds__(kDecodeThreads, kHeadDim > 128 ? 1 : 2) void PagedDecodeKernel(
    const DecodeArguments arguments) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const DecodeBlock<kHeadDim> block = {
      DecodeShared<kHeadDim>(static_cast<int>(arguments.params.num_rows), arguments.group,
                             arguments.num_stages),
      shared, ptx::SharedAddress(shared)};
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < arguments.num_stages; ++stage) {
      ptx::InitBarrier(block.FullBarrier(stage), 1);
      ptx::InitBarrier(block.EmptyBarrier(stage), kMathThreads);
    }
    for (int turn = 0; turn < kArrivalTurns; ++turn) {
      ptx::InitBarrier(block.WrittenBarrier(turn), kMathWarps);
      ptx::InitBarrier(block.CountedBarrier(turn), 1);
    }
    ptx::FenceBarrierInit();
  }
  ptx::WaitForPredecessor();
  ptx::AllowSuccessor();
  CountWork(arguments, block, [] { __syncthreads(); });
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (warp == kCopyWarp) {
    FillRing(arguments, block, lane);
  } else if (warp == kCountWarp) {
    if (lane == 0) CountArrivals(arguments, block);
  } else {
    ClearPaddingRows(arguments, block);
    Compute<kHeadDim, kHalves>(arguments, block, warp, lane);
  }
}

constexpr int kSharedBytesPerMultiprocessor = 228 * 1024;
constexpr int kMaxSharedBytesPerBlock = 227 * 1024;
constexpr int kReservedBytesPerBlock = 1024;

// As many blocks per multiprocessor as leave each a ring of a few tiles: enough bytes in flight.
struct DecodeShape {
  int blocks_per_multiprocessor;
  int num_stages;
  int shared_bytes;
};
template <int kHeadDim>
DecodeShape ChooseShape(int num_rows, int group) {
  constexpr int kMinStages = 2;
  for (const int blocks : {2, 1}) {
    const int limit = std::min(kSharedBytesPerMultiprocessor / blocks - kReservedBytesPerBlock,
                               kMaxSharedBytesPerBlock);
    for (int stages = kMaxDecodeStages; stages >= kMinStages; --stages) {
      const int bytes = DecodeShared<kHeadDim>(num_rows, group, stages).end;
      if (bytes <= limit) return {blocks, stages, bytes};
    }
  }
  return {};
}

template <int kHeadDim, int kHalves>
absl::Status LaunchDecode(const CudaStream& stream, const PagedDecodeAttentionParams& params) {
  const int group = static_cast<int>(params.num_heads / params.kv.num_kv_heads);
  const DecodeShape shape = ChooseShape<kHeadDim>(static_cast<int>(params.num_rows), group);
  const auto kernel = PagedDecodeKernel<kHeadDim, kHalves>;
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(
      kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
  const int64_t max_items =
      params.num_rows * params.kv.num_kv_heads * NumAttentionSplits(params.max_keys);
  const int64_t max_blocks = int64_t{stream.num_multiprocessors} * shape.blocks_per_multiprocessor;
  return Launch(stream, "paged decode attention",
                {.grid = dim3(static_cast<unsigned>(std::min(max_items, max_blocks))),
                 .block = dim3(kDecodeThreads),
                 .shared_bytes = static_cast<size_t>(shape.shared_bytes)},
                kernel,
                DecodeArguments{.params = params,
                                .exponent_scale = ExponentScale(params.scale),
                                .group = group,
                                .num_stages = shape.num_stages});
}

}  // namespace

absl::Status LaunchPagedDecode(const CudaStream& stream, const PagedDecodeAttentionParams& params) {
  const bool one_half = params.num_heads / params.kv.num_kv_heads <= 8;
  absl::Status status;
  ForHeadDim(params.kv.head_dim, [&](auto head_dim) {
    status.Update(one_half ? LaunchDecode<head_dim(), 1>(stream, params)
                           : LaunchDecode<head_dim(), 2>(stream, params));
  });
  return status;
}

}  // namespace lockstep::kernels
