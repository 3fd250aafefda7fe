#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

// Bucket borders of our histograms. The names say what is measured, not which program measures it.
// The borders are vLLM's, with finer steps for small fast models, so that dashboards carry over
// (docs/metrics.md).
namespace lockstep {

template <size_t N, size_t M>
constexpr std::array<double, N + M> ConcatenateBuckets(const std::array<double, N>& low,
                                                       const std::array<double, M>& high) {
  std::array<double, N + M> all{};
  for (size_t i = 0; i < N; ++i) all[i] = low[i];
  for (size_t i = 0; i < M; ++i) all[N + i] = high[i];
  return all;
}

inline constexpr std::array kTimeToFirstTokenBucketsSeconds = {
    .001, .005, .01, .02, .04, .06, .08, .1,  .25,  .5,   .75,
    1.,   2.5,  5.,  7.5, 10., 20., 40., 80., 160., 640., 2560.};

// Per token, and per request as time per output token.
inline constexpr auto kInterTokenBucketsSeconds =
    ConcatenateBuckets(std::array{.0005, .001, .002, .003, .005, .0075},
                       std::array{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1., 2.5, 5.,
                                  7.5, 10., 20., 40., 80.});

// Whole requests and their phases.
inline constexpr std::array kRequestBucketsSeconds = {.3,  .5,   .8,   1.,   1.5,  2.,    2.5,
                                                      5.,  10.,  15.,  20.,  30.,  40.,   50.,
                                                      60., 120., 240., 480., 960., 1920., 7680.};

// Queue wait and whole requests, where both may be far below a second.
inline constexpr auto kWaitBucketsSeconds = ConcatenateBuckets(
    std::array{.001, .0025, .005, .01, .025, .05, .1, .2}, kRequestBucketsSeconds);

// Scheduler time, step round trip, step execution, and how long the device was idle before a step.
inline constexpr std::array kStepBucketsSeconds = {2e-6,   5e-6, 1e-5, 2e-5,  5e-5, 1e-4,
                                                   2.5e-4, 5e-4, .001, .0025, .005, .01,
                                                   .025,   .05,  .1,   .25,   1.};

// Tokens or sequences of one step.
inline constexpr std::array kStepTokensBuckets = {1.,   8.,    16.,   32.,   64.,   128.,  256.,
                                                  512., 1024., 2048., 4096., 8192., 16384.};

// Token counts of whole requests.
inline constexpr std::array kLengthBuckets = {
    1.,    2.,    5.,     10.,    20.,    50.,     100.,    200.,    500.,    1000.,
    2000., 5000., 10000., 20000., 50000., 100000., 200000., 500000., 1000000.};

// Sequences of one request.
inline constexpr std::array kSamplesBuckets = {1., 2., 5., 10., 20.};

// prometheus::Histogram takes a vector.
template <size_t N>
std::vector<double> BucketVector(const std::array<double, N>& buckets) {
  return {buckets.begin(), buckets.end()};
}

}  // namespace lockstep
