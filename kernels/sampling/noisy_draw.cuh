#pragma once

#include "kernels/sampling/gumbel_noise.h"
#include "kernels/sampling/philox.h"
#include "kernels/sampling/row_task.cuh"

// The draw itself: the best score with noise among the candidates that the filters keep.
namespace lockstep::kernels {

// Which candidates remain: those not worse than `least`, of them those that min_p keeps.
struct KeptCandidates {
  Candidate least;
  float min_p;
  SoftmaxScale scale;

  __device__ __forceinline__ bool Has(float score, uint32_t token) const {
    return MakeCandidate(score, token) >= least && scale.Probability(score) >= min_p;
  }
};

// Scores with noise, as candidates: the best of them is the draw. Same bits as the CPU's
// (best_with_noise.h).
class DeviceNoisyDraw {
 public:
  __device__ __forceinline__ DeviceNoisyDraw(const RowTask& task, const KeptCandidates& kept)
      : key_{.seed = task.params.seed,
             .sample_index = task.params.sample_index,
             .position = task.position},
        kept_(kept) {
    inverse_temperature_ = DeviceFiniteScore(__fdiv_rn(1.0f, task.params.temperature));
  }

  __device__ __forceinline__ float Scaled(float score) const {
    return __fmul_rn(__fsub_rn(DeviceFiniteScore(score), kept_.scale.max), inverse_temperature_);
  }
  // For a candidate that is known to remain.
  __device__ __forceinline__ Candidate WithNoise(float score, uint32_t token) const {
    const uint32_t word = NoiseWords(key_, token / 4)[token % 4];
    return MakeCandidate(__fadd_rn(Scaled(score), GumbelNoise(word)), token);
  }
  // Raises `best` to the best of four neighbours with noise.
  __device__ __forceinline__ void See(uint32_t token, const float4& scores, Candidate& best) const {
    const float value = CandidateScore(best);
    const float scaled[4] = {Scaled(scores.x), Scaled(scores.y), Scaled(scores.z),
                             Scaled(scores.w)};
    const float largest = fmaxf(fmaxf(scaled[0], scaled[1]), fmaxf(scaled[2], scaled[3]));
    if (__fadd_rn(largest, kMaxGumbelNoise) < value) return;
    const std::array<uint32_t, 4> words = NoiseWords(key_, token / 4);
    const float raw[4] = {scores.x, scores.y, scores.z, scores.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!(__fadd_rn(scaled[i], GumbelNoiseAtMost(words[i])) > value)) continue;
      const uint32_t id = token + static_cast<uint32_t>(i);
      if (!kept_.Has(raw[i], id)) continue;
      best = max(best, MakeCandidate(__fadd_rn(scaled[i], GumbelNoise(words[i])), id));
    }
  }

 private:
  DrawKey key_;
  KeptCandidates kept_;
  float inverse_temperature_;
};

// From the whole row. `best_token` has the best score. Called by all threads of the cluster; the
// first one of the leader writes the token.
__device__ __forceinline__ void DrawFromRow(const RowTask& task, const KeptCandidates& kept,
                                            uint32_t best_token, RowCluster& row) {
  const DeviceNoisyDraw draw(task, kept);
  // A value to beat from the start, so that few tokens need their exact noise.
  Candidate best = draw.WithNoise(kept.scale.max, best_token);
  row.ForEachVector(
      [&](uint32_t token, const float4& scores) { draw.See(token, scores, best); });
  best = row.Reduce({best, 0}, MaxOfPairs()).first;
  if (row.leads() && threadIdx.x == 0) *task.token = CandidateToken(best);
}

// From the leader's list of `count` candidates. The leader's threads only.
__device__ __forceinline__ void DrawFromListed(const RowTask& task, const KeptCandidates& kept,
                                               int count, RowCluster& row) {
  const DeviceNoisyDraw draw(task, kept);
  Candidate best = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kRowThreads) {
    const Candidate candidate = row.list()[i];
    const float score = CandidateScore(candidate);
    const uint32_t token = CandidateToken(candidate);
    if (kept.Has(score, token)) best = max(best, draw.WithNoise(score, token));
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    best = max(best, __shfl_xor_sync(kAllLanes, best, distance));
  }
  Pair* const warps = row.scratch().warps;
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32].first = best;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kRowWarps; ++warp) best = max(best, warps[warp].first);
  *task.token = CandidateToken(best);
}

}  // namespace lockstep::kernels
