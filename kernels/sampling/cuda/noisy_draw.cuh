#pragma once

#include "kernels/sampling/cuda/row_task.cuh"
#include "kernels/sampling/noise/gumbel_noise.h"
#include "kernels/sampling/noise/philox.h"

// The draw itself: the best score with noise among the candidates that the filters keep.
namespace lockstep::kernels {

// The candidates that remain: not worse than `least`, and kept by min_p.
struct KeptCandidates {
  Candidate least;
  float min_p;
  SoftmaxScale scale;

  __device__ __forceinline__ bool Has(float score, uint32_t token) const {
    return MakeCandidate(score, token) >= least && scale.Probability(score) >= min_p;
  }
  // No score below this remains.
  __device__ __forceinline__ float Floor() const {
    constexpr float kMargin = 0.01f;  // for the rounding of the logarithm
    const float of_min_p =
        min_p > 0 ? __fadd_rd(scale.max, __fdiv_rd(__fsub_rn(log2f(min_p), kMargin), scale.factor))
                  : -INFINITY;
    return fmaxf(CandidateScore(max(least, MakeCandidate(-INFINITY, 0))), of_min_p);
  }
};

// What one thread saw: the token with the highest bound, and the highest bound of all its other
// tokens.
struct Promise {
  float most = -INFINITY;
  float others = -INFINITY;
  uint32_t token = 0;

  __device__ __forceinline__ void See(float bound, uint32_t id) {
    others = fmaxf(others, fminf(bound, most));
    if (bound > most) token = id;
    most = fmaxf(most, bound);
  }
};

// Scores with noise, as candidates. The best of them is the draw. The bits are the same as on the
// CPU (best_with_noise.h).
class DeviceNoisyDraw {
 public:
  __device__ __forceinline__ DeviceNoisyDraw(const RowTask& task, const KeptCandidates& kept)
      : key_{.seed = task.params.seed,
             .sample_index = task.params.sample_index,
             .position = task.position},
        kept_(kept) {
    inverse_temperature_ = DeviceFiniteScore(__fdiv_rn(1.0f, task.params.temperature));
    floor_ = kept.Floor();
  }

  __device__ __forceinline__ float Scaled(float score) const {
    return __fmul_rn(__fsub_rn(DeviceFiniteScore(score), kept_.scale.max), inverse_temperature_);
  }
  // For a candidate that is known to remain.
  __device__ __forceinline__ Candidate WithNoise(float score, uint32_t token) const {
    const std::array<uint32_t, 4> words = NoiseWords(key_, token / 4);
    // With an index that is known only at run time, the compiler would put the words into memory.
    const uint32_t low = token % 2 == 0 ? words[0] : words[1];
    const uint32_t high = token % 2 == 0 ? words[2] : words[3];
    const uint32_t word = token % 4 < 2 ? low : high;
    return MakeCandidate(__fadd_rn(Scaled(score), GumbelNoise(word)), token);
  }
  // Shows `promise` the bounds of four neighbours if any of them can reach `value`.
  __device__ __forceinline__ void SeePromises(uint32_t token, const float4& scores, float value,
                                              Promise& promise) const {
    const float raw[4] = {scores.x, scores.y, scores.z, scores.w};
    const float best = fmaxf(fmaxf(raw[0], raw[1]), fmaxf(raw[2], raw[3]));
    if (__fadd_rn(Scaled(best), kMaxGumbelNoise) < value || best < floor_) return;
    const std::array<uint32_t, 4> words = NoiseWords(key_, token / 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float bound = __fadd_rn(Scaled(raw[i]), NoiseAtMost(words[i]));
      promise.See(raw[i] >= floor_ ? bound : -INFINITY, token + static_cast<uint32_t>(i));
    }
  }
  // Raises `best` to the best of four neighbours with noise.
  __device__ __forceinline__ void SeeExactly(uint32_t token, const float4& scores,
                                             Candidate& best) const {
    const std::array<uint32_t, 4> words = NoiseWords(key_, token / 4);
    const float raw[4] = {scores.x, scores.y, scores.z, scores.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float scaled = Scaled(raw[i]);
      if (__fadd_rn(scaled, NoiseAtMost(words[i])) < CandidateScore(best)) continue;
      const uint32_t id = token + static_cast<uint32_t>(i);
      if (!kept_.Has(raw[i], id)) continue;
      best = max(best, MakeCandidate(__fadd_rn(scaled, GumbelNoise(words[i])), id));
    }
  }

 private:
  // GumbelNoiseAtMost with the device's own logarithm.
  __device__ __forceinline__ static float NoiseAtMost(uint32_t word) {
    constexpr float kMinusLn2 = -0.6931472f, kMargin = 0.001f;
    const float distance = __fsub_rn(__uint_as_float(0x3F800000u | ~word >> 9), 1.0f);
    return __fmaf_rn(__log2f(distance), kMinusLn2, kMargin);
  }

  DrawKey key_;
  KeptCandidates kept_;
  float inverse_temperature_;
  float floor_;
};

// Draws from the whole row. `best_token` has the best score. Call from all threads of the cluster.
// The leader's first thread writes the token.
//
// The exact noise costs many times what a bound of it costs, and threads of a warp that need it at
// different times wait for one another. So each thread computes it once, for the token that
// promises most. The best of these tokens is drawn, unless the bound of another token still reaches
// it.
__device__ __forceinline__ void DrawFromRow(const RowTask& task, const KeptCandidates& kept,
                                            uint32_t best_token, RowCluster& row) {
  constexpr int kNotUnrolled = 1;
  const DeviceNoisyDraw draw(task, kept);
  Candidate best = draw.WithNoise(kept.scale.max, best_token);
  const float value = CandidateScore(best);
  Promise promise;
  row.ForEachVector<kNotUnrolled>([&](uint32_t token, const float4& scores) {
    draw.SeePromises(token, scores, value, promise);
  });
  if (promise.most >= value) {
    const float score = row.scores()[promise.token - static_cast<uint32_t>(row.begin())];
    if (kept.Has(score, promise.token)) best = max(best, draw.WithNoise(score, promise.token));
  }
  Pair reached = row.Reduce({best, ScoreKey(promise.others)}, MaxOfPairs());
  if (static_cast<uint32_t>(reached.second) >= CandidateKey(reached.first)) {
    best = reached.first;
    if (promise.others >= CandidateScore(best)) {
      row.ForEachVector<kNotUnrolled>(
          [&](uint32_t token, const float4& scores) { draw.SeeExactly(token, scores, best); });
    }
    reached = row.Reduce({best, 0}, MaxOfPairs());
  }
  if (row.leads() && threadIdx.x == 0) *task.token = CandidateToken(reached.first);
}

// Draws from the leader's list of `count` candidates. Call from the leader's threads only.
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
