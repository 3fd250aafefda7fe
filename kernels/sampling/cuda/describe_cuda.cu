#include "kernels/core/ptx/memory.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/sampling/cuda/device_vocab.h"
#include "kernels/sampling/cuda/nucleus.cuh"
#include "kernels/sampling/cuda/row_histogram.cuh"
#include "kernels/sampling/cuda/row_list.cuh"
#include "kernels/sampling/cuda/sample_cuda.h"

namespace lockstep::kernels {
namespace {

// Eight bins per octave of the distance from the best score: fine where the best tokens are.
struct DistanceBins {
  float max;

  __device__ __forceinline__ int Bin(float score) const {
    if (!(score > -INFINITY)) return -1;
    return static_cast<int>(__float_as_uint(__fsub_rn(max, DeviceFiniteScore(score))) >> 20);
  }
  __device__ __forceinline__ Weight WeightOf(float) const { return 0; }
};

struct Normalizer {
  float max;
  double log_sum;

  __device__ __forceinline__ float LogProbability(float score) const {
    return static_cast<float>(static_cast<double>(DeviceFiniteScore(score)) -
                              static_cast<double>(max) - log_sum);
  }
};

// Puts the best candidates in the leader's list, sorted. Returns how many of them are wanted: fewer
// than `num_best` if the row has fewer scores above -inf.
__device__ __forceinline__ unsigned ListBest(RowCluster& row, float max, unsigned num_best) {
  __shared__ Bin found[2];
  const DistanceBins binning{max};
  RowHistogram histogram(row, found);
  histogram.Build</*kWeighs=*/false>(binning);
  const unsigned wanted = min(num_best, histogram.total_count());
  const Bin last = histogram.FindBin(/*by_count=*/true, wanted);
  Candidate least = 0;
  if (last.count_before + last.count > kMaxListed) {
    least = ReachInLargeBin(row, binning, last, /*by_count=*/true, wanted).candidate;
  }
  row.Gather([&](float score, uint32_t token) {
    const int bin = binning.Bin(score);
    return bin >= 0 && bin <= last.index && MakeCandidate(score, token) >= least;
  });
  if (row.leads()) row.SortList();
  return wanted;
}

__global__ void __cluster_dims__(kRowBlocks, 1, 1) __launch_bounds__(kRowThreads, 2)
    DescribeRowsKernel(const __grid_constant__ DescribeRowsParams all, int chunk_size,
                       bool aligned) {
  __shared__ RowScratch scratch;
  extern __shared__ __align__(16) char dynamic_shared[];
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
  const int64_t row_index = blockIdx.y;
  RowDescription& description = all.descriptions[row_index];
  const bool reports = blockIdx.x % kRowBlocks == 0 && threadIdx.x == 0;
  const int num_best = all.num_best[row_index];
  if (num_best < 0) {
    if (reports) description.rank = 0;
    return;
  }
  const float* const logits = all.logits + row_index * all.row_stride;
  RowCluster row(scratch, dynamic_shared, logits, static_cast<int>(all.vocab_size), chunk_size);
  row.StartLoad(aligned);
  row.FinishLoad();
  row.WaitForStart();
  const Pair extremes = row.Reduce(row.Scan(), MaxOfPairs());
  if (CandidateKey(extremes.first) == kMaskedKey) {
    if (reports) {
      description.rank = 0;
      description.num_best = 0;
      description.status = kNoTokenLeft;
    }
    return;
  }
  const uint32_t token = all.tokens[row_index];
  const Candidate chosen = MakeCandidate(logits[token], token);
  const float max = DeviceFiniteScore(CandidateScore(extremes.first));
  const SoftmaxScale scale = SoftmaxScale::Of(max, /*temperature=*/1.0f);
  Pair sums = {0, 0};
  row.ForEach([&](uint32_t id, float score) {
    sums.first += SoftmaxScale::ToWeight(scale.Probability(score));
    sums.second += MakeCandidate(score, id) > chosen ? 1 : 0;
  });
  sums = row.Reduce(sums, SumOfPairs());
  const Normalizer normalizer = {max, log(static_cast<double>(sums.first) / kWeightOne)};
  if (reports) {
    description.logprob = normalizer.LogProbability(logits[token]);
    description.rank = static_cast<uint32_t>(sums.second) + 1;
    description.num_best = 0;
    description.status = kSampled;
  }
  if (num_best == 0) return;
  const unsigned count =
      ListBest(row, max, min(static_cast<unsigned>(num_best), kMaxDescribedTokens));
  if (!row.leads()) return;
  if (threadIdx.x == 0) description.num_best = count;
  if (threadIdx.x < count) {
    const Candidate candidate = row.list()[threadIdx.x];
    description.best_tokens[threadIdx.x] = CandidateToken(candidate);
    description.best_logprobs[threadIdx.x] = normalizer.LogProbability(CandidateScore(candidate));
  }
}

}  // namespace

absl::Status DescribeRows(const CudaStream& stream, const DescribeRowsParams& params) {
  LOCKSTEP_RETURN_IF_ERROR(CheckDeviceVocab("DescribeRows", params.vocab_size));
  if (params.num_rows == 0) return absl::OkStatus();
  const int chunk_size = RowChunkSize(params.vocab_size);
  const size_t shared_bytes = RowSharedBytes(chunk_size);
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(DescribeRowsKernel,
                                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                     static_cast<int>(shared_bytes)));
  return Launch(stream, "DescribeRows",
                {.grid = dim3(kRowBlocks, static_cast<unsigned>(params.num_rows)),
                 .block = kRowThreads,
                 .shared_bytes = shared_bytes},
                DescribeRowsKernel, params, chunk_size,
                IsVectorAligned(params.logits, params.row_stride));
}

}  // namespace lockstep::kernels
