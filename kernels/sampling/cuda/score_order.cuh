#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cstdint>

// Scores as integers: an order with all ties decided, and weights with sums that do not depend on
// the order of addition.
namespace lockstep::kernels {

// A score and its token as one number: greater is better, ties go to the lowest id. NaN counts as
// -inf, and both zeros are equal.
using Candidate = unsigned long long;
inline constexpr uint32_t kMaskedKey = 0x007FFFFF;  // of -inf

__device__ __forceinline__ uint32_t ScoreKey(float score) {
  const uint32_t bits = __float_as_uint(__fadd_rn(fmaxf(score, -INFINITY), 0.0f));
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float KeyScore(uint32_t key) {
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7FFFFFFFu : ~key);
}
__device__ __forceinline__ Candidate MakeCandidate(float score, uint32_t token) {
  return static_cast<Candidate>(ScoreKey(score)) << 32 | static_cast<uint32_t>(~token);
}
__device__ __forceinline__ uint32_t CandidateKey(Candidate candidate) {
  return static_cast<uint32_t>(candidate >> 32);
}
__device__ __forceinline__ float CandidateScore(Candidate candidate) {
  return KeyScore(CandidateKey(candidate));
}
__device__ __forceinline__ uint32_t CandidateToken(Candidate candidate) {
  return ~static_cast<uint32_t>(candidate);
}

// NaN becomes -inf and +inf the largest finite number.
__device__ __forceinline__ float DeviceFiniteScore(float score) {
  return fminf(fmaxf(score, -INFINITY), FLT_MAX);
}

using Weight = unsigned long long;
inline constexpr float kWeightOne = 0x1p44f;  // 2^19 tokens of weight 1 still fit

// e^((score - max) / temperature) in fp32 and in units of 1 / kWeightOne.
struct SoftmaxScale {
  float max;     // finite
  float factor;  // log2(e) / temperature, finite

  __device__ __forceinline__ static SoftmaxScale Of(float max_score, float temperature) {
    return {max_score, fminf(__fdiv_rn(1.44269504f, temperature), FLT_MAX)};
  }

  __device__ __forceinline__ float Probability(float score) const {
    return exp2f(__fmul_rn(__fsub_rn(DeviceFiniteScore(score), max), factor));
  }
  __device__ __forceinline__ static Weight ToWeight(float probability) {
    return __float2ull_rn(__fmul_rn(probability, kWeightOne));
  }
};

}  // namespace lockstep::kernels
