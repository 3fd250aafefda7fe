#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/core/bfloat16.h"

// What the GEMM benchmarks of all implementations have in common.
namespace lockstep::bench {

struct GemmShape {
  int64_t m;
  int64_t n;
  int64_t k;
};

inline GemmShape ShapeOf(const benchmark::State& state) {
  return {state.range(0), state.range(1), state.range(2)};
}

// The projections of SmolLM2-135M and one of a 1.5B model, decoding (m = 1, 8) and prefilling.
inline void GemmShapes(benchmark::internal::Benchmark* family) {
  constexpr int64_t kOutputsAndInputs[][2] = {{960, 576}, {3072, 576}, {576, 1536}, {8960, 1536}};
  family->ArgNames({"m", "n", "k"})->UseRealTime();
  for (const auto& [n, k] : kOutputsAndInputs) {
    for (const int64_t m : {1, 8, 64, 512}) family->Args({m, n, k});
  }
}

// Weights come from this many copies in turn, more than the caches hold, as in a real model.
inline int64_t NumWeightCopies(const GemmShape& shape) {
  constexpr int64_t kBytesInTurn = int64_t{512} << 20;
  return kBytesInTurn / (shape.n * shape.k * 2) + 1;
}

inline void SetGemmCounters(benchmark::State& state, const GemmShape& shape) {
  using benchmark::Counter;
  const double operations = 2.0 * static_cast<double>(shape.m * shape.n * shape.k);
  const double bytes = 2.0 * static_cast<double>(shape.n * shape.k + shape.m * (shape.n + shape.k));
  state.counters["FLOP/s"] = Counter(operations, Counter::kIsIterationInvariantRate);
  state.counters["bytes/s"] = Counter(bytes, Counter::kIsIterationInvariantRate);
}

inline std::vector<kernels::BFloat16> RandomBFloat16s(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<kernels::BFloat16> values(static_cast<size_t>(count));
  for (kernels::BFloat16& value : values) value = kernels::ToBFloat16(uniform(generator));
  return values;
}

}  // namespace lockstep::bench
