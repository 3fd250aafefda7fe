#include <algorithm>

#include "kernels/attention/decode/attend_item.cuh"
#include "kernels/attention/decode/decode_filler.cuh"
#include "kernels/attention/decode/decode_parts.cuh"
#include "kernels/attention/paged_attention_cuda.h"
#include "kernels/core/ptx/mbarrier.cuh"
#include "kernels/core/ptx/registers.cuh"
#include "kernels/device/launch.cuh"

// Decode. There are as many blocks as the device holds. Each takes its runs of splits for one KV
// head (decode_runs.h). The rows of a 16-row tile are the query heads of the KV head's group. If
// several rows have their keys in common, the tile has the groups of all of them. One warp of a
// block keeps a ring of key tiles filled, across splits and rows. Four warps compute: they share QK
// by keys (a page of 16 each) and PV by columns, and fold the splits of a row in registers. One
// more warp counts the parts of rows that were cut. The block that finishes the last part of a row
// folds the parts.
namespace lockstep::kernels {
namespace {

// The warp that counts arrivals. It exists because waiting for the count, and for partial results
// to become visible to other blocks, would hold up the math warps. Each lane counts for one row of
// the item.
template <int kHeadDim, KvType kType>
__device__ void CountArrivals(const DecodeArguments& arguments,
                              const DecodeBlock<kHeadDim, kType>& block, int lane) {
  DecodeArrivals& arrivals = block.ArrivalTurns();
  for (int turn = 0;; ++turn) {
    ptx::WaitBarrier(block.WrittenBarrier(turn), turn / kArrivalTurns % 2);
    const DecodeWork& work = arrivals.written[turn % kArrivalTurns];
    if (work.item.num_rows == 0) return;
    bool completes = false;
    if (lane < work.item.num_rows) {
      const DecodeItemRow at = work.rows[lane];
      uint32_t* const counter =
          arguments.params.arrivals + at.row * arguments.params.kv.num_kv_heads + work.item.kv_head;
      completes = ptx::AddAcquireRelease(counter, 1) == static_cast<uint32_t>(at.num_parts - 1);
      if (completes) *counter = 0;
    }
    const uint32_t complete = __ballot_sync(0xFFFFFFFFu, completes);
    DecodeFold& fold = arrivals.folds[turn % kArrivalTurns];
    if (lane == 0) {
      fold.kv_head = work.item.kv_head;
      fold.complete = complete;
    }
    if (completes) fold.rows[lane] = work.rows[lane];
    ptx::Arrive(block.CountedBarrier(turn));
  }
}

// A math warp's side of the arrivals. It reads the answers, and folds rows, a few items later.
template <int kHeadDim, KvType kType>
struct ArrivalQueue {
  using Block = DecodeBlock<kHeadDim, kType>;

  // Thread i has row i of the item.
  __device__ __forceinline__ void Send(const Block& block, const DecodeItem& item,
                                       const DecodeItemRow& row) {
    DecodeWork& written = block.ArrivalTurns().written[sent % kArrivalTurns];
    const auto thread = static_cast<int>(threadIdx.x);
    if (thread < item.num_rows) written.rows[thread] = row;
    if (thread == 0) written.item = item;
    __syncwarp();
    // The writers arrive themselves, like the readers of a tile.
    if (thread < 32 || thread % 32 == 0) ptx::Arrive(block.WrittenBarrier(sent));
    ++sent;
  }
  // Receives answers, and folds the rows that are complete, until at most `num_pending` answers are
  // outstanding.
  __device__ __forceinline__ void Receive(const DecodeArguments& arguments, const Block& block,
                                          int num_pending) {
    for (; sent - received > num_pending; ++received) {
      ptx::WaitBarrier(block.CountedBarrier(received), received / kArrivalTurns % 2);
      const DecodeFold& fold = block.ArrivalTurns().folds[received % kArrivalTurns];
      for (uint32_t left = fold.complete; left != 0; left &= left - 1) {
        const int i = __ffs(static_cast<int>(left)) - 1;
        FoldParts<kHeadDim>(arguments, fold.rows[i], fold.kv_head);
      }
    }
  }

  int sent = 0;
  int received = 0;
};

// Call from all math warps. kShared: items may have several rows. It is a template parameter
// because two loops in one kernel would take registers from each other.
template <int kHeadDim, KvType kType, int kHalves, bool kShared>
__device__ __forceinline__ void Compute(const DecodeArguments& arguments,
                                        const DecodeBlock<kHeadDim, kType>& block, int warp,
                                        int lane) {
  const int group = arguments.group;
  MathWarp<kHeadDim, kHalves, kType> math;
  DecodePart<kHeadDim, kHalves> part = {};
  math.warp = warp;
  math.lane = lane;
  ArrivalQueue<kHeadDim, kType> arrivals;
  RingSlot slot;
  int buffer = 0;
  for (;;) {
    ptx::WaitBarrier(block.FullBarrier(slot.stage), slot.phase);
    const DecodeWork& filled = block.Work(slot.stage);
    MathItem<kShared> work = {.item = Broadcast(filled.item, lane), .at = {}};
    const DecodeItem& item = work.item;
    if (item.num_rows == 0) break;
    if (!kShared || lane < item.num_rows) work.at = filled.rows[kShared ? lane : 0];
    const int num_rows = kShared ? item.num_rows * group : group;
    const auto load_queries = [&](int key, uint32_t) {
      if (key != item.key_begin || !item.enters) return;
      if (!kShared || item.num_rows == 1) {
        math.LoadQueries(block.Query(slot.stage), group);
        return;
      }
      const PagedDecodeAttentionParams& params = arguments.params;
      const BFloat16* queries[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = min(lane / 4 + 8 * half, num_rows - 1);
        const int head = item.kv_head * group + work.Head(row, group);
        queries[half] = params.query + work.Row(row, group) * params.query_stride + head * kHeadDim;
      }
      math.LoadQueries(queries[0], queries[1]);
    };
    AttendKeys(arguments, block, {item.key_begin, item.key_end}, num_rows, math, slot, buffer,
               load_queries);
    part.Extend(math, item.opens, arguments.exponent_scale);
    if (!item.closes) continue;
    if (work.IsOnePart()) {
      WriteOutput(arguments, work, math, part);
    } else {
      WritePart(arguments, work, math, part);
      arrivals.Receive(arguments, block, kArrivalTurns - 1);
      arrivals.Send(block, item, work.at);
    }
  }
  arrivals.Receive(arguments, block, 0);
  arrivals.Send(block, {}, {});
}

__device__ __forceinline__ int BlockNumber() {
  return static_cast<int>(blockIdx.y * gridDim.x + blockIdx.x);
}

template <int kHeadDim>
__device__ __forceinline__ void ClearPaddingRows(const DecodeArguments& arguments) {
  const PagedDecodeAttentionParams& params = arguments.params;
  const int num_blocks = static_cast<int>(gridDim.x * gridDim.y);
  for (int row = BlockNumber(); row < params.num_rows; row += num_blocks) {
    if (params.positions[row] != kNoPosition) continue;
    uint32_t* output = reinterpret_cast<uint32_t*>(params.output + row * params.output_stride);
    for (int i = threadIdx.x; i < params.num_heads * kHeadDim / 2; i += kMathThreads) output[i] = 0;
  }
}

// Whether this block has no keys to attend to, and no row to clear. Then it leaves at once, and
// makes room for blocks of the next kernel. That kernel waits for the whole grid, so a block must
// stay that waits for the kernel before: block 0 does, as there is a row.
__device__ __forceinline__ bool IsIdle(const DecodeArguments& arguments, const DecodeStart& start) {
  return BlockNumber() >= arguments.params.num_rows && start.walk.AtEnd();
}

// Call from a warp.
template <typename Block>
__device__ __forceinline__ void InitializeBarriers(const Block& block, int num_stages, int lane) {
  static_assert(kMaxDecodeStages <= 32 && kArrivalTurns <= 32);
  if (lane < num_stages) {
    ptx::InitBarrier(block.FullBarrier(lane), 1);
    ptx::InitBarrier(block.EmptyBarrier(lane), kMathThreads);
  }
  if (lane < kArrivalTurns) {
    ptx::InitBarrier(block.WrittenBarrier(lane), 32 + kMathWarps - 1);
    ptx::InitBarrier(block.CountedBarrier(lane), 32);
  }
  ptx::FenceBarrierInit();
  __syncwarp();
}

// Registers of a thread. Two blocks fit on a multiprocessor up to 168. Up to 152 they also fit
// beside a block of the rotation's kernel for few tokens, which has 56 for each of 128 threads. So
// none has to wait until that has ended. Heads of 128 dims are slower with 152, and two halves of
// rows need more.
constexpr int DecodeRegisters(int head_dim, int halves) {
  if (head_dim > 128) return 255;
  return head_dim < 128 && halves == 1 ? 152 : 168;
}

template <int kHeadDim, KvType kType, int kHalves, bool kShared>
__global__ __maxnreg__(DecodeRegisters(kHeadDim, kHalves)) void PagedDecodeKernel(
    const DecodeArguments arguments, const DecodeShared<kHeadDim, kType> layout) {
  extern __shared__ __align__(1024) unsigned char shared[];
  // From here to the wait, read only what the comment on PagedDecodeAttentionParams lists.
  const DecodeBlock<kHeadDim, kType> block = {layout, shared, ptx::SharedAddress(shared)};
  const DecodePlanMemory plan(arguments.params.plan, static_cast<int>(arguments.params.num_rows),
                              arguments.max_runs);
  const DecodeStart& start = plan.starts[block.Start()];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (warp == kCopyWarp) {
    RingFiller<kHeadDim, kType> filler(arguments, block, plan, start, lane);
    if (IsIdle(arguments, start)) return;
    InitializeBarriers(block, arguments.num_stages, lane);
    if (arguments.params.num_rows <= kFewDecodeRows) ptx::AllowSuccessor();
    // The others wait. This warp goes on.
    ptx::ArriveAtThreads(kStartBarrier, kDecodeThreads);
    filler.Fill();
    return;
  }
  if (IsIdle(arguments, start)) return;
  ptx::SyncThreads(kStartBarrier, kDecodeThreads);
  if (warp == kCountWarp) {
    CountArrivals(arguments, block, lane);
  } else {
    ptx::WaitForPredecessor();
    ClearPaddingRows<kHeadDim>(arguments);
    Compute<kHeadDim, kType, kHalves, kShared>(arguments, block, warp, lane);
  }
}

constexpr int kSharedBytesPerMultiprocessor = 228 * 1024;
constexpr int kMaxSharedBytesPerBlock = 227 * 1024;
constexpr int kReservedBytesPerBlock = 1024;

// As many blocks per multiprocessor as possible while each block has a ring of a few tiles, so that
// enough bytes are in flight.
struct DecodeShape {
  int blocks_per_multiprocessor;
  int num_stages;
  int shared_bytes;
};
template <int kHeadDim, KvType kType>
DecodeShape ChooseShape(int group, int max_query_rows) {
  constexpr int kMinStages = 2;
  for (const int blocks : {2, 1}) {
    const int limit = std::min(kSharedBytesPerMultiprocessor / blocks - kReservedBytesPerBlock,
                               kMaxSharedBytesPerBlock);
    for (int stages = kMaxDecodeStages; stages >= kMinStages; --stages) {
      const int bytes = DecodeShared<kHeadDim, kType>(group, max_query_rows, stages).end;
      if (bytes <= limit) return {blocks, stages, bytes};
    }
  }
  return {};
}

template <int kHeadDim, KvType kType>
DecodeArguments MakeArguments(const CudaStream& stream, const PagedDecodeAttentionParams& params) {
  const int group = static_cast<int>(params.num_heads / params.kv.num_kv_heads);
  const int max_query_rows = MaxSharingRows(params) * group;
  const DecodeShape shape = ChooseShape<kHeadDim, kType>(group, max_query_rows);
  const int64_t max_parts = NumAttentionSplits(params.max_keys);
  const int64_t max_blocks = int64_t{stream.num_multiprocessors} * shape.blocks_per_multiprocessor;
  const int64_t max_runs = std::clamp(max_blocks / params.kv.num_kv_heads, int64_t{1},
                                      std::min(kMaxDecodeRuns, params.num_rows * max_parts));
  return {.params = params,
          .exponent_scale = ExponentScale(params.scale),
          .group = group,
          .num_stages = shape.num_stages,
          .max_query_rows = max_query_rows,
          .shared_bytes = shape.shared_bytes,
          .max_parts = static_cast<int>(max_parts),
          .max_runs = static_cast<int>(max_runs)};
}

template <int kHeadDim, KvType kType, int kHalves, bool kShared>
absl::Status LaunchDecode(const CudaStream& stream, const DecodeArguments& arguments) {
  const auto kernel = PagedDecodeKernel<kHeadDim, kType, kHalves, kShared>;
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, arguments.shared_bytes));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(
      kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
  return Launch(stream, "paged decode attention",
                {.grid = dim3(static_cast<unsigned>(arguments.params.kv.num_kv_heads),
                              static_cast<unsigned>(arguments.max_runs)),
                 .block = dim3(kDecodeThreads),
                 .shared_bytes = static_cast<size_t>(arguments.shared_bytes)},
                kernel, arguments,
                DecodeShared<kHeadDim, kType>(arguments.group, arguments.max_query_rows,
                                              arguments.num_stages));
}

}  // namespace

int MaxDecodeRuns(const CudaStream& stream, const PagedDecodeAttentionParams& params) {
  int runs = 0;
  ForKv(params.kv, [&](auto head_dim, auto type) {
    runs = MakeArguments<head_dim(), type()>(stream, params).max_runs;
  });
  return runs;
}

absl::Status LaunchPagedDecode(const CudaStream& stream, const PagedDecodeAttentionParams& params) {
  absl::Status status;
  ForKv(params.kv, [&](auto head_dim, auto type) {
    constexpr int kDim = head_dim();
    constexpr KvType kType = type();
    const DecodeArguments arguments = MakeArguments<kDim, kType>(stream, params);
    status.Update(arguments.max_query_rows > arguments.group
                      ? LaunchDecode<kDim, kType, 2, true>(stream, arguments)
                  : arguments.group > 8 ? LaunchDecode<kDim, kType, 2, false>(stream, arguments)
                                        : LaunchDecode<kDim, kType, 1, false>(stream, arguments));
  });
  return status;
}

}  // namespace lockstep::kernels
