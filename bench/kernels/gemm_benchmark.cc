#include <benchmark/benchmark.h>

#include <thread>
#include <vector>

#include "bench/kernels/gemm_operands.h"
#include "common/check.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/packed_matrix.h"

namespace lockstep::bench {
namespace {

using kernels::BFloat16;

void BM_Gemm(benchmark::State& state) {
  const GemmShape shape = ShapeOf(state);
  kernels::ThreadPool threads(static_cast<int>(std::thread::hardware_concurrency()));
  const kernels::Stream stream = {.threads = &threads,
                                  .instruction_set = kernels::BestInstructionSet()};
  const int64_t copy_elements = kernels::PackedElements(shape.n, shape.k);
  const int64_t num_copies = NumWeightCopies(shape);
  const std::vector<BFloat16> copy_of_weights = RandomBFloat16s(copy_elements, 1);
  std::vector<BFloat16> weights;
  weights.reserve(static_cast<size_t>(copy_elements * num_copies));
  for (int64_t i = 0; i < num_copies; ++i) {
    weights.insert(weights.end(), copy_of_weights.begin(), copy_of_weights.end());
  }
  const std::vector<BFloat16> input = RandomBFloat16s(shape.m * shape.k, 2);
  std::vector<BFloat16> output(static_cast<size_t>(shape.m * shape.n));
  int64_t copy = 0;
  for (auto _ : state) {
    const absl::Status status = Gemm(
        stream,
        {.input = input.data(),
         .input_stride = shape.k,
         .weights = {.data = weights.data() + copy * copy_elements, .n = shape.n, .k = shape.k},
         .output = output.data(),
         .output_stride = shape.n,
         .num_rows = shape.m});
    LOCKSTEP_CHECK(status.ok(), "the benchmark's shape is refused");
    copy = (copy + 1) % num_copies;
  }
  SetGemmCounters(state, shape);
}
BENCHMARK(BM_Gemm)->Apply(GemmShapes);

}  // namespace
}  // namespace lockstep::bench
