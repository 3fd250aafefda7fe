#include <algorithm>

#include "kernels/attention/attend_item.cuh"
#include "kernels/attention/decode_filler.cuh"
#include "kernels/attention/paged_attention_cuda.h"
#include "kernels/core/ptx/mbarrier.cuh"
#include "kernels/device/launch.cuh"

// Decode: as many blocks as the device holds, each with one run of splits for one KV head
// (decode_runs.h), with the query heads of its group as the rows of a 16-row tile. One warp of a
// block keeps a ring of key tiles filled, across splits and rows, and four compute: they share QK
// by keys (a page of 16 each) and PV by columns, and fold the splits of a row in registers. One
// more warp counts the parts of rows that were cut; the block that finishes the last one folds
// them.
namespace lockstep::kernels {
namespace {

constexpr int kFoldBatch = 6;  // partials of a row that are requested at once

// Folds the parts of a row, ascending, and writes the finished rows. By all math threads.
template <int kHeadDim>
__device__ __forceinline__ void FoldParts(const DecodeArguments& arguments,
                                          const DecodeItem& work) {
  const PagedDecodeAttentionParams& params = arguments.params;
  const int partial_stride = PartialStride(arguments.group, kHeadDim);
  const int64_t part_stride = params.kv.num_kv_heads * partial_stride;
  const float* partial = params.partials + static_cast<int64_t>(work.first_slot) * partial_stride;
  constexpr int kQuads = kHeadDim / 4;
  for (int i = threadIdx.x; i < arguments.group * kQuads; i += kMathThreads) {
    const float* values = partial + 4 * i;
    const float* states = partial + arguments.group * kHeadDim + 2 * (i / kQuads);
    SoftmaxRow row;
    float4 sums = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int base = 0; base < work.num_parts; base += kFoldBatch) {
      float4 open[kFoldBatch];
      float2 open_state[kFoldBatch];
#pragma unroll
      for (int j = 0; j < kFoldBatch; ++j) {
        open_state[j] = make_float2(kNoScore, 0.0f);
        if (base + j >= work.num_parts) continue;
        open[j] = __ldcg(reinterpret_cast<const float4*>(values + (base + j) * part_stride));
        open_state[j] = __ldcg(reinterpret_cast<const float2*>(states + (base + j) * part_stride));
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

// What a part has come to: the fold of the splits so far, in the layout of a MathWarp.
template <int kHeadDim, int kHalves>
struct DecodePart {
  using Math = MathWarp<kHeadDim, kHalves>;

  // By the split that `math` has attended to.
  __device__ __forceinline__ void Extend(const Math& math, bool opens, float exponent_scale) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const SoftmaxRow open = {math.rows[half].max, SumOverQuad(math.rows[half].sum)};
      SoftmaxRow& closed = rows[half];
      const PartialFold fold(closed.max, open.max, exponent_scale);
      closed = opens ? open : SoftmaxRow{fold.max, fold(closed.sum, open.sum)};
#pragma unroll
      for (int i = 0; i < Math::kColumnSteps; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          float& sum = output[i][j / 2][2 * half + j % 2];
          const float more = math.output[i][j / 2][2 * half + j % 2];
          sum = opens ? more : fold(sum, more);
        }
      }
    }
  }

  SoftmaxRow rows[kHalves];
  float output[Math::kColumnSteps][2][4];
};

// Writes the output of a row that is one part, or else this part of it.
template <int kHeadDim, int kHalves>
__device__ __forceinline__ void WriteItem(const DecodeArguments& arguments, const DecodeItem& work,
                                          const MathWarp<kHeadDim, kHalves>& math,
                                          const DecodePart<kHeadDim, kHalves>& part) {
  const PagedDecodeAttentionParams& params = arguments.params;
  if (work.num_parts == 1) {
    float reciprocals[kHalves];
#pragma unroll
    for (int half = 0; half < kHalves; ++half) reciprocals[half] = __frcp_rn(part.rows[half].sum);
    BFloat16* output =
        params.output + work.row * params.output_stride + work.kv_head * arguments.group * kHeadDim;
    math.ForColumns(arguments.group, [&](int half, int row, int column, int i, int n) {
      *reinterpret_cast<uint32_t*>(output + row * kHeadDim + column) = FinishPair(
          part.output[i][n][2 * half], part.output[i][n][2 * half + 1], reciprocals[half]);
    });
    return;
  }
  float* partial =
      params.partials + static_cast<int64_t>(work.slot) * PartialStride(arguments.group, kHeadDim);
  math.ForColumns(arguments.group, [&](int half, int row, int column, int i, int n) {
    *reinterpret_cast<float2*>(partial + row * kHeadDim + column) =
        make_float2(part.output[i][n][2 * half], part.output[i][n][2 * half + 1]);
  });
  if (math.warp != 0 || math.lane % 4 != 0) return;
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    const int row = math.lane / 4 + 8 * half;
    if (row < arguments.group) {
      *reinterpret_cast<float2*>(partial + arguments.group * kHeadDim + 2 * row) =
          make_float2(part.rows[half].max, part.rows[half].sum);
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
    if (work.num_parts == 0) return;
    uint32_t* const counter =
        arguments.params.arrivals + work.row * arguments.params.kv.num_kv_heads + work.kv_head;
    if (ptx::AddAcquireRelease(counter, 1) == static_cast<uint32_t>(work.num_parts - 1)) {
      *counter = 0;
    } else {
      work.num_parts = 0;
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
      if (work.num_parts != 0) FoldParts<kHeadDim>(arguments, work);
    }
  }

  int sent = 0;
  int received = 0;
};

template <int kHeadDim, int kHalves>
__device__ void Compute(const DecodeArguments& arguments, const DecodeBlock<kHeadDim>& block,
                        int warp, int lane) {
  MathWarp<kHeadDim, kHalves> math;
  DecodePart<kHeadDim, kHalves> part = {};
  math.warp = warp;
  math.lane = lane;
  ArrivalQueue<kHeadDim> arrivals;
  RingSlot slot;
  int buffer = 0;
  for (;;) {
    ptx::WaitBarrier(block.FullBarrier(slot.stage), slot.phase);
    const DecodeItem work = Broadcast(block.Work(slot.stage), lane);
    if (work.num_parts != 0) {
      AttendItem(arguments, block, work, math, slot, buffer, [](int, uint32_t) {});
      part.Extend(math, work.opens, arguments.exponent_scale);
      if (work.closes) WriteItem(arguments, work, math, part);
    }
    arrivals.Receive(arguments, block, work.num_parts == 0 ? 0 : kArrivalTurns - 1);
    if (work.num_parts == 0 || (work.closes && work.num_parts > 1)) arrivals.Send(block, work);
    if (work.num_parts == 0) return;
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
  ptx::AllowSuccessor();
  // From here to the wait: nothing but what the comment on PagedDecodeAttentionParams lists.
  CountRuns(arguments, block);
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (warp == kCopyWarp) {
    RingFiller<kHeadDim>(arguments, block, lane).Fill();
  } else if (warp == kCountWarp) {
    if (lane == 0) CountArrivals(arguments, block);
  } else {
    ptx::WaitForPredecessor();
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
  const int64_t max_splits = NumAttentionSplits(params.max_keys);
  const int64_t max_blocks = int64_t{stream.num_multiprocessors} * shape.blocks_per_multiprocessor;
  const int64_t num_runs =
      std::clamp(max_blocks / params.kv.num_kv_heads, int64_t{1}, params.num_rows * max_splits);
  return Launch(stream, "paged decode attention",
                {.grid = dim3(static_cast<unsigned>(num_runs * params.kv.num_kv_heads)),
                 .block = dim3(kDecodeThreads),
                 .shared_bytes = static_cast<size_t>(shape.shared_bytes)},
                kernel,
                DecodeArguments{.params = params,
                                .exponent_scale = ExponentScale(params.scale),
                                .group = group,
                                .num_stages = shape.num_stages,
                                .max_splits = static_cast<int>(max_splits)});
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
