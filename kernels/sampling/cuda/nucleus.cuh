#pragma once

#include "kernels/sampling/cuda/row_histogram.cuh"

// Filters in the order of scores. Counts or weights are added from the best candidate on, and the
// candidate that reaches a goal is found.
namespace lockstep::kernels {

// Bins that are linear in the score, from the best score to where weights vanish.
struct WeightBins {
  SoftmaxScale scale;
  float range;  // the largest distance from the best score
  float bins_per_score;

  // `lowest`: the lowest score above -inf.
  __device__ __forceinline__ static WeightBins Of(const SoftmaxScale& scale, float lowest) {
    constexpr float kVanishing = 45.0f;  // 2^-45 rounds to weight 0
    const float range =
        fminf(__fsub_rn(scale.max, DeviceFiniteScore(lowest)), __fdiv_rn(kVanishing, scale.factor));
    return {scale, fminf(range, FLT_MAX),
            range > 0 ? fminf(__fdiv_rn(kBins, range), FLT_MAX) : 0.0f};
  }
  __device__ __forceinline__ int Bin(float score) const {
    const float distance = __fsub_rn(scale.max, DeviceFiniteScore(score));
    if (distance > range) return -1;
    return min(__float2int_rz(__fmul_rn(distance, bins_per_score)), kBins - 1);
  }
  __device__ __forceinline__ Weight WeightOf(float score) const {
    return SoftmaxScale::ToWeight(scale.Probability(score));
  }
};

// A candidate, and the weight of all candidates up to and including it.
struct Reached {
  Candidate candidate;
  Weight weight_through;
};

// Finds the candidate of one bin that brings the sum to `goal`. Works bit by bit, without a list.
// For bins that are too large for a list.
template <typename Binning>
__device__ __forceinline__ Reached ReachInLargeBin(RowCluster& row, const Binning& binning,
                                                   const Bin& bin, bool by_count,
                                                   unsigned long long goal) {
  Reached reached = {0, bin.weight_before + bin.weight};
  for (int bit = 63; bit >= 0; --bit) {
    const Candidate least = reached.candidate | Candidate{1} << bit;
    Pair sum = {bin.weight_before, bin.count_before};
    if (row.rank() != 0 || threadIdx.x != 0) sum = {0, 0};
    row.ForEach([&](uint32_t token, float score) {
      if (binning.Bin(score) != bin.index || MakeCandidate(score, token) < least) return;
      sum.first += binning.WeightOf(score);
      ++sum.second;
    });
    sum = row.Reduce(sum, SumOfPairs());
    if ((by_count ? sum.second : sum.first) >= goal) reached = {least, sum.first};
  }
  return reached;
}

// The leader's sorted list, kItems consecutive candidates per thread, with sums over the candidates
// before each one. Call every method from all threads of the leader.
class ListSums {
 public:
  static constexpr int kItems = kMaxListed / kRowThreads;

  template <typename Binning>
  __device__ __forceinline__ ListSums(const Candidate* list, int count, const Binning& binning,
                                      const Bin& bin, Pair (&warp_sums)[kRowWarps])
      : first_(static_cast<int>(threadIdx.x) * kItems), count_before_(bin.count_before) {
    Weight sum = 0;
    for (int i = 0; i < kItems; ++i) {
      candidates_[i] = first_ + i < count ? list[first_ + i] : 0;
      weights_[i] = candidates_[i] == 0 ? 0 : binning.WeightOf(CandidateScore(candidates_[i]));
      sum += weights_[i];
    }
    Weight through = sum;
    const unsigned lane = threadIdx.x % 32;
    for (unsigned distance = 1; distance < 32; distance *= 2) {
      const Weight lower = __shfl_up_sync(kAllLanes, through, distance);
      if (lane >= distance) through += lower;
    }
    if (lane == 31) warp_sums[threadIdx.x / 32].first = through;
    __syncthreads();
    weight_before_ = bin.weight_before + through - sum;
    for (unsigned warp = 0; warp < threadIdx.x / 32; ++warp) {
      weight_before_ += warp_sums[warp].first;
    }
  }

  // Finds the candidate that brings the sum of counts (or weights) to `goal`. One thread writes it
  // to *place. The caller synchronises before *place is read and before it is written again.
  __device__ __forceinline__ void Reach(bool by_count, unsigned long long goal, Pair* place) const {
    Weight before = weight_before_;
    for (int i = 0; i < kItems; ++i) {
      const Weight through = before + weights_[i];
      const unsigned count_before = count_before_ + static_cast<unsigned>(first_ + i);
      const bool reaches = by_count ? count_before + 1 == goal : before < goal && goal <= through;
      if (reaches && candidates_[i] != 0) *place = {candidates_[i], through};
      before = through;
    }
  }

 private:
  int first_;
  unsigned count_before_;
  Weight weight_before_;
  Candidate candidates_[kItems];
  Weight weights_[kItems];
};

}  // namespace lockstep::kernels
