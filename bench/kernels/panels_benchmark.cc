#include <benchmark/benchmark.h>

#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "bench/kernels/gemm_operands.h"
#include "common/check.h"
#include "kernels/formats/panels/panel_gemm.h"
#include "kernels/gemm/gemm.h"

// Products on the CPU from packed weights (kernels/formats/panels/), beside the same product with
// weights in bf16. Weights come from memory in both.
namespace lockstep::bench {
namespace {

using kernels::BFloat16;
using kernels::CodeKind;
using kernels::QuantizedMatrix;

struct Format {
  CodeKind kind;
  int64_t group_columns;
  bool has_zeros = false;
  int64_t block_columns = 0;
  int scale_bits = 11;  // fp16; bf16 has 8
};
constexpr Format kQ4_0 = {CodeKind::kInt4, 32};
constexpr Format kQ4_1 = {CodeKind::kInt4Min, 32};
constexpr Format kQ4_K = {CodeKind::kInt4Min, 32, false, 256};
constexpr Format kQ5_K = {CodeKind::kInt5Min, 32, false, 256};
constexpr Format kQ6_K = {CodeKind::kInt6, 16, false, 256};
constexpr Format kQ8_0 = {CodeKind::kInt8, 32};
constexpr Format kInt4 = {CodeKind::kInt4, 128, false, 0, 8};
constexpr Format kInt4Zeros = {CodeKind::kInt4, 128, true, 0, 8};
constexpr Format kMxFp4 = {CodeKind::kFp4E2M1, 32, false, 0, 1};
constexpr Format kFp8 = {CodeKind::kFp8E4M3, 128};

// Random codes and scales.
QuantizedMatrix RandomMatrix(const Format& format, int64_t n, int64_t k) {
  std::mt19937 random(1);
  QuantizedMatrix matrix;
  matrix.kind = format.kind;
  matrix.n = n;
  matrix.k = k;
  matrix.group_columns = format.group_columns;
  matrix.block_columns = format.block_columns;
  const auto mask = static_cast<uint8_t>((1u << CodeBits(format.kind)) - 1);
  matrix.codes.resize(static_cast<size_t>(n * k));
  for (uint8_t& code : matrix.codes) {
    code = static_cast<uint8_t>(random()) & mask;
    if (format.kind == CodeKind::kFp8E4M3) code &= 0xBF;
  }
  const auto fill = [&](int64_t count, int bits, int exponent, std::vector<float>* values) {
    values->resize(static_cast<size_t>(count));
    for (float& value : *values) {
      value = std::ldexp(static_cast<float>(1 + random() % ((1u << bits) - 1)), exponent);
    }
  };
  const bool has_minima = HasMinimum(format.kind);
  const bool has_two_levels = format.block_columns != 0;
  const int bits = has_two_levels ? 6 : format.scale_bits;
  const int exponent = has_two_levels ? 0 : -2 * bits;
  const int64_t groups = n * matrix.num_groups();
  fill(groups, bits, exponent, &matrix.scales);
  if (has_minima) fill(groups, bits, exponent, &matrix.minima);
  if (has_two_levels) {
    const int64_t blocks = n * matrix.num_scale_blocks();
    fill(blocks, format.scale_bits, -22, &matrix.block_scales);
    if (has_minima) fill(blocks, format.scale_bits, -22, &matrix.block_minima);
  }
  if (format.has_zeros) matrix.zeros.assign(static_cast<size_t>(groups), 7);
  return matrix;
}

// Copies of weights that are used in turn: more than the caches hold.
template <typename T>
std::vector<T> Copies(const T* weights, int64_t count, int64_t* num_copies) {
  constexpr int64_t kBytesInTurn = int64_t{512} << 20;
  *num_copies = kBytesInTurn / (count * static_cast<int64_t>(sizeof(T))) + 1;
  std::vector<T> copies;
  copies.reserve(static_cast<size_t>(count * *num_copies));
  for (int64_t i = 0; i < *num_copies; ++i) copies.insert(copies.end(), weights, weights + count);
  return copies;
}

// product(stream, input, output, copy)
template <typename Product>
void TimeProduct(benchmark::State& state, int64_t num_copies, const Product& product) {
  const GemmShape shape = ShapeOf(state);
  kernels::ThreadPool threads(static_cast<int>(std::thread::hardware_concurrency()));
  const kernels::Stream stream = {.threads = &threads,
                                  .instruction_set = kernels::BestInstructionSet()};
  const std::vector<BFloat16> input = RandomBFloat16s(shape.m * shape.k, 2);
  std::vector<BFloat16> output(static_cast<size_t>(shape.m * shape.n));
  int64_t copy = 0;
  for (auto _ : state) {
    LOCKSTEP_CHECK(product(stream, input.data(), output.data(), copy).ok(),
                   "the benchmark's shape is refused");
    copy = (copy + 1) % num_copies;
  }
}

void BM_Panels(benchmark::State& state, const Format& format) {
  const GemmShape shape = ShapeOf(state);
  const kernels::PackedPanels packed = *PackPanels(RandomMatrix(format, shape.n, shape.k));
  LOCKSTEP_CHECK(packed.matrix.layout.is_fused, "scales that no model has");
  const auto num_lines = static_cast<int64_t>(packed.storage.size());
  int64_t num_copies = 0;
  const auto weights = Copies(packed.storage.data(), num_lines, &num_copies);
  TimeProduct(state, num_copies,
              [&](const auto& stream, const BFloat16* input, BFloat16* output, int64_t copy) {
                kernels::PanelMatrix panels = packed.matrix;
                panels.data = weights[static_cast<size_t>(copy * num_lines)].bytes;
                return PanelGemm(stream, {.input = input,
                                          .input_stride = shape.k,
                                          .weights = panels,
                                          .output = output,
                                          .output_stride = shape.n,
                                          .num_rows = shape.m});
              });
  state.counters["bits"] =
      static_cast<double>(NumBytes(packed.matrix)) * 8 / static_cast<double>(shape.n * shape.k);
}

void BM_Bf16(benchmark::State& state) {
  const GemmShape shape = ShapeOf(state);
  const int64_t count = kernels::PackedElements(shape.n, shape.k);
  int64_t num_copies = 0;
  const auto weights = Copies(RandomBFloat16s(count, 1).data(), count, &num_copies);
  TimeProduct(state, num_copies,
              [&](const auto& stream, const BFloat16* input, BFloat16* output, int64_t copy) {
                return Gemm(
                    stream,
                    {.input = input,
                     .input_stride = shape.k,
                     .weights = {.data = weights.data() + copy * count, .n = shape.n, .k = shape.k},
                     .output = output,
                     .output_stride = shape.n,
                     .num_rows = shape.m});
              });
  state.counters["bits"] = 16;
}

// Two projections of SmolLM2-135M and one of an 8B model.
void PanelShapes(benchmark::internal::Benchmark* family) {
  constexpr int64_t kOutputsAndInputs[][2] = {{576, 1536}, {1536, 576}, {4096, 12288}};
  family->ArgNames({"m", "n", "k"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  for (const auto& [n, k] : kOutputsAndInputs) {
    for (const int64_t m : {1, 8, 32, 128}) family->Args({m, n, k});
  }
}
BENCHMARK(BM_Bf16)->Apply(PanelShapes);
BENCHMARK_CAPTURE(BM_Panels, q4_0, kQ4_0)->Apply(PanelShapes);
BENCHMARK_CAPTURE(BM_Panels, q4_1, kQ4_1)->Apply(PanelShapes);
BENCHMARK_CAPTURE(BM_Panels, q4_k, kQ4_K)->Apply(PanelShapes);
BENCHMARK_CAPTURE(BM_Panels, q5_k, kQ5_K)->Apply(PanelShapes);
BENCHMARK_CAPTURE(BM_Panels, q6_k, kQ6_K)->Apply(PanelShapes);
BENCHMARK_CAPTURE(BM_Panels, q8_0, kQ8_0)->Apply(PanelShapes);
BENCHMARK_CAPTURE(BM_Panels, int4, kInt4)->Apply(PanelShapes);
BENCHMARK_CAPTURE(BM_Panels, int4_zeros, kInt4Zeros)->Apply(PanelShapes);
BENCHMARK_CAPTURE(BM_Panels, mxfp4, kMxFp4)->Apply(PanelShapes);
BENCHMARK_CAPTURE(BM_Panels, fp8, kFp8)->Apply(PanelShapes);

}  // namespace
}  // namespace lockstep::bench
