#include "kernels/core/ptx/memory.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/sampling/cuda/argmax_rows.cuh"
#include "kernels/sampling/cuda/device_vocab.h"
#include "kernels/sampling/cuda/noisy_draw.cuh"
#include "kernels/sampling/cuda/nucleus.cuh"
#include "kernels/sampling/cuda/row_histogram.cuh"
#include "kernels/sampling/cuda/row_list.cuh"
#include "kernels/sampling/cuda/row_task.cuh"
#include "kernels/sampling/cuda/sample_cuda.h"
#include "kernels/slots/draft_rows.cuh"

namespace lockstep::kernels {
namespace {

// The weight that completes a nucleus of top_p, if all weights add up to `total`.
__device__ __forceinline__ Weight NucleusGoal(float top_p, Weight total) {
  if (top_p >= 1) return total;
  const double goal = ceil(static_cast<double>(top_p) * static_cast<double>(total));
  return min(max(static_cast<Weight>(goal), Weight{1}), total);
}

// Call from the leader's threads only. The leader's list has all candidates up to a bin, and the
// leader does the rest of the draw alone. `total` is the weight of the row. It is not used if top_k
// is set.
__device__ __forceinline__ void DrawFromList(const RowTask& task, const WeightBins& binning,
                                             Weight total, unsigned total_count, RowCluster& row) {
  RowScratch& scratch = row.scratch();
  const DeviceSampleParams& params = task.params;
  const int count = row.SortList();
  const ListSums sums(row.list(), count, binning, Bin{}, scratch.warps);
  KeptCandidates kept = {.least = 0, .min_p = params.min_p, .scale = binning.scale};
  Weight weight = total;
  const auto keep_through = [&](bool by_count, unsigned long long goal) {
    sums.Reach(by_count, goal, &scratch.located);
    __syncthreads();
    kept.least = max(kept.least, scratch.located.first);
    weight = scratch.located.second;
    __syncthreads();
  };
  if (params.top_k != 0) keep_through(/*by_count=*/true, min(params.top_k, total_count));
  if (params.top_p < 1) keep_through(/*by_count=*/false, NucleusGoal(params.top_p, weight));
  DrawFromListed(task, kept, count, row);
}

// The candidate that brings the sum over the whole row to `goal`.
__device__ __forceinline__ Reached Reach(const WeightBins& binning, bool by_count,
                                         unsigned long long goal, RowHistogram& histogram,
                                         RowCluster& row) {
  RowScratch& scratch = row.scratch();
  const Bin bin = histogram.FindBin(by_count, goal);
  if (bin.count > kMaxListed) return ReachInLargeBin(row, binning, bin, by_count, goal);
  row.Gather([&](float score, uint32_t) { return binning.Bin(score) == bin.index; });
  if (row.leads()) {
    const int count = row.SortList();
    const ListSums sums(row.list(), count, binning, bin, scratch.warps);
    sums.Reach(by_count, goal, &scratch.located);
    __syncthreads();
    if (threadIdx.x > 0 && threadIdx.x < kRowBlocks) {
      *row.Of(static_cast<int>(threadIdx.x), &scratch.located) = scratch.located;
    }
  }
  row.Synchronize();
  return {scratch.located.first, scratch.located.second};
}

// If a list can hold all candidates up to `last`, gathers them, lets the leader draw, and returns
// true.
__device__ __forceinline__ bool DrawsFromList(const RowTask& task, const WeightBins& binning,
                                              const Bin& last, const RowHistogram& histogram,
                                              RowCluster& row) {
  if (last.count_before + last.count > kMaxListed) return false;
  row.Gather([&](float score, uint32_t) {
    const int bin = binning.Bin(score);
    return bin >= 0 && bin <= last.index;
  });
  if (row.leads()) {
    DrawFromList(task, binning, histogram.total_weight(), histogram.total_count(), row);
  }
  return true;
}

// The last candidate of a nucleus that is too large for a list. Finds the k-th candidate first,
// then the candidate that reaches top_p.
__device__ __forceinline__ Candidate LeastOfLargeNucleus(const DeviceSampleParams& params,
                                                         const WeightBins& binning,
                                                         RowHistogram& histogram, RowCluster& row) {
  enum Border { kTopK, kTopP };
  Candidate least = 0;
  Weight weight = histogram.total_weight();
  // A loop, so that the code exists once and all state stays in registers.
#pragma unroll 1
  for (int border = kTopK; border <= kTopP; ++border) {
    unsigned long long goal = 0;
    if (border == kTopK) {
      if (params.top_k == 0) continue;
      goal = min(params.top_k, histogram.total_count());
    } else {
      if (params.top_p >= 1) continue;
      goal = NucleusGoal(params.top_p, weight);
    }
    const Reached reached = Reach(binning, border == kTopK, goal, histogram, row);
    least = max(least, reached.candidate);
    weight = reached.weight_through;
  }
  return least;
}

// Takes the k best, of these the nucleus, and of these what min_p keeps. All three are prefixes of
// one order, so the shortest remains. Draws from it if a list can hold it, and returns kDrawn.
// Otherwise returns the last candidate that top_k and top_p keep.
constexpr Candidate kDrawn = 0;

__device__ __forceinline__ Candidate DrawByRank(const RowTask& task, const SoftmaxScale& scale,
                                                float lowest, RowCluster& row) {
  __shared__ Bin found[2];
  const DeviceSampleParams& params = task.params;
  const WeightBins binning = WeightBins::Of(scale, lowest);
  RowHistogram histogram(row, found);
  if (params.top_k != 0) {
    histogram.Build</*kWeighs=*/false>(binning);
    const unsigned goal = min(params.top_k, histogram.total_count());
    const Bin last = histogram.FindBin(/*by_count=*/true, goal);
    if (DrawsFromList(task, binning, last, histogram, row)) return kDrawn;
  }
  histogram.Build</*kWeighs=*/true>(binning);
  if (params.top_k == 0) {
    const Weight goal = NucleusGoal(params.top_p, histogram.total_weight());
    const Bin last = histogram.FindBin(/*by_count=*/false, goal);
    if (DrawsFromList(task, binning, last, histogram, row)) return kDrawn;
  }
  return LeastOfLargeNucleus(params, binning, histogram, row);
}

__device__ __forceinline__ void Report(const SampleRowsParams& all, int64_t row, TokenId token,
                                       SampleStatus status, int32_t num_best) {
  all.tokens[row] = token;
  all.statuses[row] = status;
  if (all.num_best != nullptr) all.num_best[row] = num_best;
}

// kHasDrafts: rows may be of drafts. It is a template parameter because the kernel has no registers
// left.
template <bool kHasDrafts>
__global__ void __cluster_dims__(kRowBlocks, 1, 1) __launch_bounds__(kRowThreads, 2)
    SampleRowsKernel(const __grid_constant__ SampleRowsParams all, int chunk_size, bool aligned) {
  __shared__ RowScratch scratch;
  extern __shared__ __align__(16) char dynamic_shared[];
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
  const int64_t row_index = blockIdx.y;
  const bool reports = blockIdx.x % kRowBlocks == 0 && threadIdx.x == 0;
  RowCluster row(scratch, dynamic_shared, all.logits + row_index * all.row_stride,
                 static_cast<int>(all.vocab_size), chunk_size);
  row.StartLoad(aligned);
  const uint32_t slot = all.row_slots[row_index];
  const uint32_t draft = kHasDrafts ? DraftNumber(all.draft_rows, row_index) : 0;
  if (!IsLiveRow(all.state, all.draft_rows, slot, draft)) {
    if (reports) Report(all, row_index, 0, kNotSampled, -1);
    row.FinishLoad();
    row.WaitForStart();
    return;
  }
#ifdef LOCKSTEP_PLANT_ONE_KEY
  const uint32_t position = all.state.position[slot] + 1;
#else
  const uint32_t position = all.state.position[slot] + draft + 1;
#endif
  RowTask task = {
      .params = all.tables.params[slot], .position = position, .token = all.tokens + row_index};
  task.masks_stop_ids = task.params.num_stop != 0 && task.position < task.params.min_total_tokens;
  row.FinishLoad();
  if (task.adjusts()) AdjustScores<kHasDrafts>(all, task, row);
  row.WaitForStart();
  const Pair extremes = row.Reduce(row.Scan(), MaxOfPairs());
  if (CandidateKey(extremes.first) == kMaskedKey) {
    if (reports) Report(all, row_index, 0, kNoTokenLeft, -1);
    return;
  }
  if (reports) {
    Report(all, row_index, CandidateToken(extremes.first), kSampled, task.params.num_logprobs);
  }
  if (task.params.temperature == 0) return;
  __syncthreads();  // the token is written once more, perhaps by another thread
  const SoftmaxScale scale =
      SoftmaxScale::Of(DeviceFiniteScore(CandidateScore(extremes.first)), task.params.temperature);
  KeptCandidates kept = {.least = 0, .min_p = task.params.min_p, .scale = scale};
  if (task.by_rank(static_cast<int>(all.vocab_size))) {
    const float lowest = KeyScore(~static_cast<uint32_t>(extremes.second));
    kept.least = DrawByRank(task, scale, lowest, row);
    if (kept.least == kDrawn) return;
  }
  DrawFromRow(task, kept, CandidateToken(extremes.first), row);
}

template <int kThreads>
absl::Status LaunchArgmax(const CudaStream& stream, const SampleRowsParams& params) {
  return Launch(
      stream, "ArgmaxRows",
      {.grid = dim3(kArgmaxBlocks, static_cast<unsigned>(params.num_rows)), .block = kThreads},
      ArgmaxRowsKernel<kThreads>, params, IsVectorAligned(params.logits, params.row_stride));
}

template <bool kHasDrafts>
absl::Status LaunchSampleRows(const CudaStream& stream, const SampleRowsParams& params) {
  const int chunk_size = RowChunkSize(params.vocab_size);
  const size_t shared_bytes = RowSharedBytes(chunk_size);
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(SampleRowsKernel<kHasDrafts>,
                                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                     static_cast<int>(shared_bytes)));
  return Launch(stream, "SampleRows",
                {.grid = dim3(kRowBlocks, static_cast<unsigned>(params.num_rows)),
                 .block = kRowThreads,
                 .shared_bytes = shared_bytes},
                SampleRowsKernel<kHasDrafts>, params, chunk_size,
                IsVectorAligned(params.logits, params.row_stride));
}

}  // namespace

absl::Status SampleRows(const CudaStream& stream, const SampleRowsParams& params) {
  LOCKSTEP_RETURN_IF_ERROR(CheckDeviceVocab("SampleRows", params.vocab_size));
  if (params.num_rows == 0) return absl::OkStatus();
  if (params.all_plain_greedy) {
    // Measured on an H200. Between the two numbers, large blocks are spread unevenly over the chip.
    constexpr int64_t kFewRows = 16, kManyRows = 48;
    return params.num_rows <= kFewRows || params.num_rows >= kManyRows
               ? LaunchArgmax<512>(stream, params)
               : LaunchArgmax<256>(stream, params);
  }
  return params.draft_rows.exist() ? LaunchSampleRows<true>(stream, params)
                                   : LaunchSampleRows<false>(stream, params);
}

}  // namespace lockstep::kernels
