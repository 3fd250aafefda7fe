#include <algorithm>

#include "kernels/attention/attend_item.cuh"
#include "kernels/attention/decode_runs.h"
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

// The cuts of this launch, as every thread of a block sees them once CountRuns is done.
template <int kHeadDim>
__device__ __forceinline__ DecodeRuns Runs(const DecodeArguments& arguments,
                                           const DecodeBlock<kHeadDim>& block) {
  const int num_rows = static_cast<int>(arguments.params.num_rows);
  const int* const first_tiles = block.WorkTable();
  const int* const plan = first_tiles + num_rows + 1;
  return DecodeRuns(first_tiles, num_rows, {.num_runs = plan[0], .slack_tiles = plan[1]});
}

// Fills num_keys, the tiles of the rows before, and the plan behind them; by all threads.
template <int kHeadDim>
__device__ __forceinline__ void CountRuns(const DecodeArguments& arguments,
                                          const DecodeBlock<kHeadDim>& block) {
  const int num_rows = static_cast<int>(arguments.params.num_rows);
  int* const first_tiles = block.WorkTable();
  for (int row = threadIdx.x; row < num_rows; row += kDecodeThreads) {
    const uint32_t position = arguments.params.positions[row];
    const int keys = position == kNoPosition ? 0 : static_cast<int>(position) + 1;
    block.NumKeys()[row] = keys;
    first_tiles[row] = (keys + static_cast<int>(kKeyTile) - 1) / static_cast<int>(kKeyTile);
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    const int lane = static_cast<int>(threadIdx.x);
    int num_filled = 0;
    for (int base = 0; base < num_rows; base += 32) {
      const bool filled = base + lane < num_rows && first_tiles[base + lane] != 0;
      num_filled += __popc(__ballot_sync(0xFFFFFFFFu, filled));
    }
    SumBefore(first_tiles, num_rows, lane);
    __syncwarp();
    const int num_tiles = first_tiles[num_rows];
    const int max_runs =
        static_cast<int>(gridDim.x) / static_cast<int>(arguments.params.kv.num_kv_heads);
    const DecodePlan whole = WholeRowPlan(max(num_filled, 1), max_runs);
    const int max_tiles = MaxWholeRowTiles(num_tiles, max_runs);
    // Otherwise one run at least is too long, and nobody need look for it.
    bool fits = num_tiles <= whole.num_runs * max_tiles;
    if (fits) {
      const DecodeRuns runs(first_tiles, num_rows, whole);
      for (int run = lane; run < whole.num_runs; run += 32) {
        fits &= runs.Tiles(runs.Cut(run + 1)) - runs.Tiles(runs.Cut(run)) <= max_tiles;
      }
      fits = __all_sync(0xFFFFFFFFu, fits);
    }
    const DecodePlan plan = fits ? whole : CutRowPlan(num_tiles, max_runs);
    if (lane == 0) {
      first_tiles[num_rows + 1] = plan.num_runs;
      first_tiles[num_rows + 2] = plan.slack_tiles;
    }
  }
  __syncthreads();
}

// One split of a run as the work of a block.
template <int kHeadDim>
__device__ __forceinline__ DecodeItem MakeItem(const DecodeArguments& arguments,
                                               const DecodeBlock<kHeadDim>& block,
                                               const DecodeSplit& split, int kv_head) {
  if (split.num_parts == 0) return {};
  const int num_kv_heads = static_cast<int>(arguments.params.kv.num_kv_heads);
  const int row_slot = split.row * arguments.max_splits * num_kv_heads + kv_head;
  const int part = max(split.split, split.first_splits - 1);
  return {.row = split.row,
          .kv_head = kv_head,
          .num_parts = split.num_parts,
          .first_slot = row_slot + (split.first_splits - 1) * num_kv_heads,
          .slot = row_slot + part * num_kv_heads,
          .key_begin = FirstTileOfSplit(split.split) * static_cast<int>(kKeyTile),
          .key_end = min(FirstTileOfSplit(split.split + 1) * static_cast<int>(kKeyTile),
                         block.NumKeys()[split.row]),
          .opens = split.opens,
          .closes = split.closes};
}

// The warp that copies keys and values, tile by tile, and the queries of a part with its first.
template <int kHeadDim>
class RingFiller {
 public:
  __device__ RingFiller(const DecodeArguments& arguments, const DecodeBlock<kHeadDim>& block,
                        int lane)
      : arguments_(arguments), block_(block), lane_(lane) {}

  __device__ void Fill() {
    const int num_kv_heads = static_cast<int>(arguments_.params.kv.num_kv_heads);
    const int kv_head = static_cast<int>(blockIdx.x) % num_kv_heads;
    DecodeRunWalk walk(Runs(arguments_, block_), static_cast<int>(blockIdx.x) / num_kv_heads);
    DecodeItem work = MakeItem(arguments_, block_, walk.Split(), kv_head);
    BlockId pages = LoadPages(work, 0);
    while (work.num_parts != 0) {
      walk.Advance();
      const DecodeItem next = MakeItem(arguments_, block_, walk.Split(), kv_head);
      const int num_pages = NumPages(work);
      for (int first = 0; first < num_pages; first += 32) {
        // What is needed next is on its way while these are copied.
        const BlockId further =
            first + 32 < num_pages ? LoadPages(work, first + 32) : LoadPages(next, 0);
        CopyPages(work, first, min(num_pages - first, 32), pages);
        pages = further;
      }
      work = next;
    }
    ptx::WaitBarrier(block_.EmptyBarrier(slot_.stage), slot_.phase ^ 1);
    if (lane_ != 0) return;
    block_.Work(slot_.stage) = {};
    ptx::Arrive(block_.FullBarrier(slot_.stage));
  }

 private:
  __device__ __forceinline__ static int NumPages(const DecodeItem& work) {
    return (work.key_end - work.key_begin + static_cast<int>(kKvBlockTokens) - 1) /
           static_cast<int>(kKvBlockTokens);
  }

  // This lane's of the 32 pages of an item from `first` on.
  __device__ __forceinline__ BlockId LoadPages(const DecodeItem& work, int first) const {
    const PagedDecodeAttentionParams& params = arguments_.params;
    if (first + lane_ >= NumPages(work)) return 0;
    const int64_t table =
        params.block_table_rows == nullptr ? work.row : params.block_table_rows[work.row];
    return params.block_tables[table * params.block_table_stride + work.key_begin / kKvBlockTokens +
                               first + lane_];
  }

  // The pages `first` .. of an item, `num_pages` of them: lane i holds number i of `pages`.
  __device__ __forceinline__ void CopyPages(const DecodeItem& work, int first, int num_pages,
                                            BlockId pages) {
    constexpr int kPageBytes = KvTile<kHeadDim>::kPageBytes;
    const PagedDecodeAttentionParams& params = arguments_.params;
    for (int page = 0; page < num_pages; page += kKeyTilePages) {
      const BlockId source = __shfl_sync(0xFFFFFFFFu, pages, (page + lane_) % 32);
      const int tile_pages = min(num_pages - page, kKeyTilePages);
      ptx::WaitBarrier(block_.EmptyBarrier(slot_.stage), slot_.phase ^ 1);
      const uint32_t full = block_.FullBarrier(slot_.stage);
      if (lane_ == 0) {
        block_.Work(slot_.stage) = work;
        const bool with_queries = work.opens && first + page == 0;
        const int query_bytes = with_queries ? block_.layout.query_bytes : 0;
        ptx::ArriveExpectBytes(full, tile_pages * kPageBytes + query_bytes);
        if (with_queries) {
          ptx::CopyBulk(block_.Query(slot_.stage),
                        params.query + work.row * params.query_stride +
                            work.kv_head * arguments_.group * kHeadDim,
                        query_bytes, full);
        }
      }
      __syncwarp();
      if (lane_ < tile_pages) {
        ptx::CopyBulk(block_.Tile(slot_.stage) + lane_ * kPageBytes,
                      DeviceKeys(params.kv, source, work.kv_head), kPageBytes, full);
      }
      slot_.Advance(arguments_.num_stages);
    }
  }

  const DecodeArguments& arguments_;
  const DecodeBlock<kHeadDim>& block_;
  int lane_;
  RingSlot slot_;
};

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
  ptx::WaitForPredecessor();
  ptx::AllowSuccessor();
  CountRuns(arguments, block);
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (warp == kCopyWarp) {
    RingFiller<kHeadDim>(arguments, block, lane).Fill();
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
