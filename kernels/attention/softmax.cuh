#pragma once

#include <cstdint>

#include "kernels/attention/kv_tile.cuh"
#include "kernels/core/ptx/arithmetic.cuh"

// The arithmetic of attention, once for all its CUDA kernels (docs/numerics.md, rules 1 and 3). A
// score here is the bare product of query and key; `exponent_scale` is the scale times log2(e), so
// that a weight is 2^(score * exponent_scale - ...). A warp holds 16 query rows against 64 keys as
// the accumulators of 8 m16n8k16 products do: lane l, with g = l / 4 and t = l % 4, has in
// scores[n][0..1] row g and in scores[n][2..3] row g + 8, keys 8n + 2t and 8n + 2t + 1.
namespace lockstep::kernels {

inline constexpr float kNoScore = -__builtin_inff();

// Weights are powers of two relative to a reference, which is one of the row's scores. It follows
// the largest score only when the exponent is behind by more than this. So a weight is at most
// about 2^8, and what was summed up before hardly ever has to be rescaled (the manner of
// FlashAttention-4).
inline constexpr float kSoftmaxSlack = 8.0f;

inline float ExponentScale(float scale) { return scale * 1.44269504088896340736f; }

// The factor that turns weights relative to `from` into weights relative to `to`, which is at least
// as large. Exactly 1 if they are equal, or if there were no weights yet.
__device__ __forceinline__ float RescaleFactor(float from, float to, float exponent_scale) {
  const float factor = ptx::Exp2(__fmul_rn(__fsub_rn(from, to), exponent_scale));
  return from == to || from == kNoScore ? 1.0f : factor;
}

// The reference of a row's weights, and their sum. Until SumOverQuad the sum covers this lane's
// keys only, in ascending order.
struct SoftmaxRow {
  float reference = kNoScore;
  float sum = 0.0f;
};

__device__ __forceinline__ float SumOverQuad(float sum) {
  sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, 1));
  return __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, 2));
}

// One step of the online softmax over rows g and, with kHalves = 2, g + 8: scores become weights. A
// score of kNoScore gives a weight of exactly 0. `rescale` returns the factors for earlier sums of
// weighted values.
template <int kHalves>
__device__ __forceinline__ void WeighScores(float exponent_scale, float (&scores)[8][4],
                                            SoftmaxRow (&rows)[kHalves],
                                            float (&rescale)[kHalves]) {
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    SoftmaxRow& row = rows[half];
    float max = kNoScore;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      max = fmaxf(max, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    }
    max = fmaxf(max, __shfl_xor_sync(0xFFFFFFFFu, max, 1));
    max = fmaxf(max, __shfl_xor_sync(0xFFFFFFFFu, max, 2));
    max = fmaxf(max, row.reference);
    const bool follows = __fmul_rn(__fsub_rn(max, row.reference), exponent_scale) > kSoftmaxSlack;
    const float reference = follows ? max : row.reference;
    rescale[half] = RescaleFactor(row.reference, reference, exponent_scale);
    row.reference = reference;
    const float base = reference == kNoScore ? 0.0f : __fmul_rn(reference, exponent_scale);
    float sum = __fmul_rn(row.sum, rescale[half]);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      float& first = scores[n][2 * half];
      float& second = scores[n][2 * half + 1];
      first = ptx::Exp2(__fmaf_rn(first, exponent_scale, -base));
      second = ptx::Exp2(__fmaf_rn(second, exponent_scale, -base));
      sum = __fadd_rn(__fadd_rn(sum, first), second);
    }
    row.sum = sum;
  }
}

// Rounds the weights of WeighScores, as the left operands of four m16n8k16 products over 16 keys
// each.
template <int kHalves>
__device__ __forceinline__ void PackWeights(const float (&weights)[8][4],
                                            uint32_t (&packed)[kKeyTilePages][4]) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      packed[n / 2][n % 2 * 2 + half] =
          half < kHalves ? ptx::PackBf16x2(weights[n][2 * half], weights[n][2 * half + 1]) : 0;
    }
  }
}

// WeighScores and PackWeights: scores become packed weights.
template <int kHalves>
__device__ __forceinline__ void SoftmaxStep(float exponent_scale, float (&scores)[8][4],
                                            SoftmaxRow (&rows)[kHalves],
                                            uint32_t (&weights)[kKeyTilePages][4],
                                            float (&rescale)[kHalves]) {
  WeighScores<kHalves>(exponent_scale, scores, rows, rescale);
  PackWeights<kHalves>(scores, weights);
}

// How the partial result of the next split is folded into the result of the splits before it, from
// the references of both.
struct PartialFold {
  float reference;
  float closed_factor;
  float open_factor;
  bool keep;  // the new split is empty
  bool take;  // there was no result before

  __device__ __forceinline__ PartialFold(float closed, float open, float exponent_scale)
      : reference(fmaxf(closed, open)),
        closed_factor(RescaleFactor(closed, reference, exponent_scale)),
        open_factor(RescaleFactor(open, reference, exponent_scale)),
        keep(open == kNoScore),
        take(closed == kNoScore) {}

  // Folds a sum of weights, or of weighted values.
  __device__ __forceinline__ float operator()(float closed, float open) const {
    return Fold<false>(closed, open);
  }
  // `kFull`: neither is empty, which saves a choice.
  template <bool kFull>
  __device__ __forceinline__ float Fold(float closed, float open) const {
    const float folded = __fmaf_rn(open, open_factor, __fmul_rn(closed, closed_factor));
    return kFull ? folded : keep ? closed : take ? open : folded;
  }
};

// Two neighbours of a finished row as bf16.
__device__ __forceinline__ uint32_t FinishPair(float first, float second, float reciprocal_sum) {
  return ptx::PackBf16x2(__fmul_rn(first, reciprocal_sum), __fmul_rn(second, reciprocal_sum));
}

}  // namespace lockstep::kernels
