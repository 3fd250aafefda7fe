#pragma once

#include "kernels/sampling/cuda/row_cluster.cuh"

// Counts and weights of a row's scores by bins, over the whole cluster.
namespace lockstep::kernels {

inline constexpr int kBinsPerBlock = kBins / kRowBlocks;

// One bin of the histogram over the row; bins ascend from the best scores to the worst.
struct Bin {
  int index;
  unsigned count;
  unsigned count_before;  // in better bins
  Weight weight;
  Weight weight_before;
};

// Call all methods from all threads of the cluster. Every block keeps the sums over its share of
// the bins. The memory of the histogram itself is free after Build.
class RowHistogram {
 public:
  // `found`: shared memory that nothing else uses.
  __device__ __forceinline__ RowHistogram(RowCluster& row, Bin (&found)[2])
      : row_(row), found_(found) {}

  // binning.Bin(score) returns a score's bin; a negative bin leaves the score out.
  // binning.WeightOf(score) returns its weight. Without kWeighs all weights are 0.
  template <bool kWeighs, typename Binning>
  __device__ __forceinline__ void Build(const Binning& binning);
  __device__ __forceinline__ Weight total_weight() const { return total_weight_; }
  __device__ __forceinline__ unsigned total_count() const { return total_count_; }
  // The first bin that brings the sum of counts (or weights) to `goal`, which is at least 1 and at
  // most the total.
  __device__ __forceinline__ Bin FindBin(bool by_count, unsigned long long goal);

 private:
  template <bool kWeighs, typename Binning>
  __device__ __forceinline__ void CountInBins(const Binning& binning,
                                              const float (&scores)[kVector]);
  __device__ __forceinline__ void MergeBins();
  __device__ __forceinline__ void ScanBins();

  RowCluster& row_;
  Bin (&found_)[2];
  int parity_ = 0;
  Bin bin_ = {};  // threads below kBinsPerBlock: their bin, merged over the cluster
  Weight total_weight_ = 0;
  unsigned total_count_ = 0;
};

template <bool kWeighs, typename Binning>
__device__ __forceinline__ void RowHistogram::CountInBins(const Binning& binning,
                                                          const float (&scores)[kVector]) {
  auto& histogram = row_.workspace().histogram;
  int bins[kVector];
  Weight weights[kVector];
  unsigned old[kVector];
#pragma unroll
  for (int j = 0; j < kVector; ++j) {
    bins[j] = binning.Bin(scores[j]);
    if (bins[j] < 0) continue;
    atomicAdd(&histogram.counts[bins[j]], 1u);
    if constexpr (kWeighs) {
      weights[j] = binning.WeightOf(scores[j]);
      old[j] = atomicAdd(&histogram.weights_low[bins[j]], static_cast<unsigned>(weights[j]));
    }
  }
  if constexpr (kWeighs) {
    // Two additions make one of 64 bits. The result of the lower one shows whether it carries.
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      if (bins[j] < 0) continue;
      const bool carries = old[j] + static_cast<unsigned>(weights[j]) < old[j];
      const unsigned high = static_cast<unsigned>(weights[j] >> 32) + (carries ? 1u : 0u);
      if (high != 0) atomicAdd(&histogram.weights_high[bins[j]], high);
    }
  }
}

template <bool kWeighs, typename Binning>
__device__ __forceinline__ void RowHistogram::Build(const Binning& binning) {
  auto& histogram = row_.workspace().histogram;
  for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kRowThreads) {
    histogram.counts[i] = 0;
    histogram.weights_low[i] = 0;
    histogram.weights_high[i] = 0;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x) * kVector; i < row_.size();
       i += kRowThreads * kVector) {
    const float4 values = *reinterpret_cast<const float4*>(row_.scores() + i);
    CountInBins<kWeighs>(binning, {values.x, values.y, values.z, values.w});
  }
  row_.Synchronize();
  MergeBins();
  ScanBins();
}

__device__ __forceinline__ void RowHistogram::MergeBins() {
  bin_ = {};
  if (threadIdx.x >= kBinsPerBlock) return;
  const int index = row_.rank() * kBinsPerBlock + static_cast<int>(threadIdx.x);
  bin_.index = index;
#pragma unroll
  for (int block = 0; block < kRowBlocks; ++block) {
    const auto& histogram = row_.Of(block, &row_.workspace())->histogram;
    bin_.count += histogram.counts[index];
    bin_.weight +=
        static_cast<Weight>(histogram.weights_high[index]) << 32 | histogram.weights_low[index];
  }
}

// Computes the sums over the bins before each bin, and the totals. Afterwards no block reads a
// histogram any more.
__device__ __forceinline__ void RowHistogram::ScanBins() {
  const unsigned lane = threadIdx.x % 32;
  Pair through = {bin_.weight, bin_.count};
  for (unsigned distance = 1; distance < 32; distance *= 2) {
    const Pair lower = {__shfl_up_sync(kAllLanes, through.first, distance),
                        __shfl_up_sync(kAllLanes, through.second, distance)};
    if (lane >= distance) through = SumOfPairs()(through, lower);
  }
  row_.Share({bin_.weight, bin_.count}, SumOfPairs());
  bin_.weight_before = through.first - bin_.weight;
  bin_.count_before = static_cast<unsigned>(through.second) - bin_.count;
  for (unsigned warp = 0; warp < threadIdx.x / 32; ++warp) {
    bin_.weight_before += row_.warp_pairs()[warp].first;
    bin_.count_before += static_cast<unsigned>(row_.warp_pairs()[warp].second);
  }
  total_weight_ = 0;
  total_count_ = 0;
  for (int block = 0; block < kRowBlocks; ++block) {
    if (block < row_.rank()) {
      bin_.weight_before += row_.shared_pairs()[block].first;
      bin_.count_before += static_cast<unsigned>(row_.shared_pairs()[block].second);
    }
    total_weight_ += row_.shared_pairs()[block].first;
    total_count_ += static_cast<unsigned>(row_.shared_pairs()[block].second);
  }
  __syncthreads();  // warp_pairs() may change
}

__device__ __forceinline__ Bin RowHistogram::FindBin(bool by_count, unsigned long long goal) {
  const unsigned long long before = by_count ? bin_.count_before : bin_.weight_before;
  const unsigned long long mass = by_count ? bin_.count : bin_.weight;
  parity_ ^= 1;  // as in Share
  if (threadIdx.x < kBinsPerBlock && before < goal && goal <= before + mass) {
    for (int block = 0; block < kRowBlocks; ++block) {
      *row_.Of(block, &found_[parity_]) = bin_;
    }
  }
  row_.Synchronize();
  return found_[parity_];
}

}  // namespace lockstep::kernels
