#include <benchmark/benchmark.h>

#include <dnnl.hpp>
#include <vector>

#include "bench/kernels/gemm_operands.h"

// The competitor of BM_Gemm: oneDNN's bf16 matmul with weights in the layout that it likes best.
namespace lockstep::bench {
namespace {

using dnnl::memory;

void BM_OneDnnMatmul(benchmark::State& state) {
  const GemmShape shape = ShapeOf(state);
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto bf16 = memory::data_type::bf16;
  const memory::desc input_desc({shape.m, shape.k}, bf16, memory::format_tag::ab);
  const memory::desc any_weights({shape.k, shape.n}, bf16, memory::format_tag::any);
  const memory::desc output_desc({shape.m, shape.n}, bf16, memory::format_tag::ab);
  const dnnl::matmul::primitive_desc description(
      dnnl::matmul::desc(input_desc, any_weights, output_desc), engine);
  const dnnl::matmul matmul(description);

  std::vector<kernels::BFloat16> plain = RandomBFloat16s(shape.n * shape.k, 1);
  memory plain_weights(memory::desc({shape.k, shape.n}, bf16, memory::format_tag::ba), engine,
                       plain.data());
  std::vector<memory> weights;
  for (int64_t i = 0; i < NumWeightCopies(shape); ++i) {
    weights.emplace_back(description.weights_desc(), engine);
    dnnl::reorder(plain_weights, weights.back()).execute(stream, plain_weights, weights.back());
  }
  std::vector<kernels::BFloat16> input_values = RandomBFloat16s(shape.m * shape.k, 2);
  memory input(input_desc, engine, input_values.data());
  memory output(output_desc, engine);
  stream.wait();
  size_t copy = 0;
  for (auto _ : state) {
    matmul.execute(
        stream, {{DNNL_ARG_SRC, input}, {DNNL_ARG_WEIGHTS, weights[copy]}, {DNNL_ARG_DST, output}});
    stream.wait();
    copy = (copy + 1) % weights.size();
  }
  SetGemmCounters(state, shape);
}
BENCHMARK(BM_OneDnnMatmul)->Apply(GemmShapes);

}  // namespace
}  // namespace lockstep::bench
