// Products of FP8 codes with FP8 codes on the GPU (kernels/formats/fp8_activations/) over the layer
// shapes of a model of 8 billion weights. Beside each stand the kernel that turns its input to
// codes, the same product in bf16 (the faster of our kernel and of cuBLASLt's first plans), and the
// product with weights in FP8 and activations in bf16 (packed, or expanded for many rows, as the
// worker does it). Every figure is the median of replays of a CUDA graph of at least 20 products
// whose weights come from more memory than the second-level cache holds three times over. Before a
// shape is timed, its first rows are compared with those of another kernel, bit for bit. One JSON
// line per product.
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/kernels/expect_same_bits.h"
#include "bench/kernels/time_in_graph.h"
#include "kernels/core/divide_up.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/device_buffer.h"
#include "kernels/formats/fp8_activations/fp8_gemm.h"
#include "kernels/formats/fp8_activations/quantize_activations.h"
#include "kernels/formats/strips/strip_gemm.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/plan/cublaslt_gemm.h"
#include "kernels/gemm/plan/cuda_gemm.h"
#include "kernels/gemm/tile/gemm_launch.h"

ABSL_FLAG(std::vector<std::string>, shapes, {}, "names of shapes, all when empty");
ABSL_FLAG(std::vector<std::string>, rows,
          std::vector<std::string>({"1", "8", "32", "128", "512", "2048", "8192"}),
          "numbers of input rows, at most 8192");
ABSL_FLAG(bool, channel_scales, false, "a scale for each weight row instead of 128 x 128 weights");
ABSL_FLAG(bool, tilings, false, "time every tiling instead, and print the five fastest");
ABSL_FLAG(double, read_tb_per_s, 4.54, "what the memory can read");

namespace lockstep::kernels {
namespace {

constexpr int64_t kRotatedBytes = int64_t{200} << 20;
constexpr int64_t kMaxRows = 8192;
constexpr int64_t kMaxInputs = 12288;
constexpr int64_t kMaxOutputs = 24576;
constexpr int64_t kMaxWeights = kMaxOutputs * 4096;
constexpr int kInputCopies = 2;
constexpr int kMinProducts = 20;
constexpr int kPlansTimed = 4;

struct Shape {
  const char* name;
  int64_t n;
  int64_t k;
};
constexpr Shape kShapes[] = {
    {"8b.qkv", 6144, 4096},
    {"8b.o", 4096, 4096},
    {"8b.gate_up", 24576, 4096},
    {"8b.down", 4096, 12288},
};

DeviceBuffer Allocate(int64_t num_bytes) {
  return Expect(DeviceBuffer::Create(static_cast<size_t>(num_bytes)));
}

// Some random weights in E4M3, one scale for each row and 128 columns.
QuantizedMatrix SomeWeights() {
  std::mt19937 random(1);
  QuantizedMatrix matrix;
  matrix.kind = CodeKind::kFp8E4M3;
  matrix.n = kBandRows;
  matrix.k = kFp8BlockColumns * 61;
  matrix.group_columns = kFp8BlockColumns;
  for (int64_t i = 0; i < matrix.n * matrix.k; ++i) {
    uint32_t code = random() & 0xFF;
    if ((code & 0x7F) == 0x7F) code ^= 1;
    matrix.codes.push_back(static_cast<uint8_t>(code));
  }
  matrix.scales.assign(static_cast<size_t>(matrix.n * matrix.num_groups()), 0x1.7p-8f);
  return matrix;
}

void Repeat(std::span<const std::byte> bytes, const DeviceBuffer& to) {
  for (size_t at = 0; at < to.num_bytes(); at += bytes.size()) {
    Expect(cudaMemcpy(to.data() + at, bytes.data(), std::min(bytes.size(), to.num_bytes() - at),
                      cudaMemcpyHostToDevice));
  }
}

class Workbench {
 public:
  Workbench()
      : weights_(Allocate(kMaxWeights + kRotatedBytes)),
        strips_(Allocate(2 * kMaxWeights + kRotatedBytes)),
        converted_(Allocate(2 * kMaxWeights + kRotatedBytes)),
        scales_(Allocate(kMaxOutputs * static_cast<int64_t>(sizeof(float)))),
        input_(Allocate(kInputCopies * kMaxRows * kMaxInputs * 2)),
        codes_(Allocate(kInputCopies * kMaxRows * kMaxInputs)),
        input_scales_(Allocate(kInputCopies * kMaxScales * static_cast<int64_t>(sizeof(float)))),
        output_(Allocate(kMaxRows * kMaxOutputs * 2)),
        expected_(Allocate(kFewRows * kMaxOutputs * 2)),
        difference_(Allocate(8)),
        library_(Expect(CublasLtGemm::Create())) {
    stream_.num_multiprocessors = Expect(DescribeCudaDevice(0)).num_multiprocessors;
    Expect(cudaStreamCreateWithFlags(&stream_.handle, cudaStreamNonBlocking));
    const QuantizedMatrix some = SomeWeights();
    Repeat(std::as_bytes(std::span(some.codes)), weights_);
    const PackedStrips strips = Expect(PackStrips(some));
    codec_ = strips.matrix.codec;
    Repeat({strips.storage.data(), static_cast<size_t>(strips.matrix.blocks_bytes())}, strips_);
    const std::vector<float> scales(kMaxOutputs, 0x1.7p-8f);
    Repeat(std::as_bytes(std::span(scales)), scales_);
    constexpr int64_t kInputElements = kInputCopies * kMaxRows * kMaxInputs;
    Expect(FillWithOutliers(stream_, input_.data<BFloat16>(), kInputElements, 1));
    Expect(FillWithOutliers(stream_, converted_.data<BFloat16>(),
                            static_cast<int64_t>(converted_.num_bytes() / 2), 2));
    Expect(cudaStreamSynchronize(stream_.handle));
  }
  ~Workbench() { cudaStreamDestroy(stream_.handle); }
  Workbench(const Workbench&) = delete;
  Workbench& operator=(const Workbench&) = delete;

  const CudaStream& stream() const { return stream_; }
  const CublasLtGemm& library() const { return *library_; }

  QuantizeActivationsParams Quantize(const Shape& shape, int64_t num_rows, int i) const {
    return {.input = input_.data<BFloat16>() + i % kInputCopies * kMaxRows * kMaxInputs,
            .input_stride = shape.k,
            .num_rows = num_rows,
            .k = shape.k,
            .codes = codes_.data<uint8_t>() + i % kInputCopies * kMaxRows * kMaxInputs,
            .scales = input_scales_.data<float>() + i % kInputCopies * kMaxScales};
  }
  // The i-th of several products. Neighbours have other weights and other input. QuantizeAll comes
  // before them.
  Fp8GemmParams Fp8(const Shape& shape, int64_t num_rows, int i) const {
    const QuantizeActivationsParams input = Quantize(shape, num_rows, i);
    const int64_t copies = kRotatedBytes / (shape.n * shape.k) + 1;
    return {.codes = input.codes,
            .scales = input.scales,
            .weights = {.codes = weights_.data<uint8_t>() + i % copies * shape.n * shape.k,
                        .scales = scales_.data<float>(),
                        .layout = absl::GetFlag(FLAGS_channel_scales) ? Fp8ScaleLayout::kChannel
                                                                      : Fp8ScaleLayout::kBlock,
                        .n = shape.n,
                        .k = shape.k},
            .output = output_.data<BFloat16>(),
            .output_stride = shape.n,
            .num_rows = num_rows};
  }
  void QuantizeAll(const Shape& shape, int64_t num_rows) const {
    for (int i = 0; i < kInputCopies; ++i) {
      Expect(QuantizeActivations(stream_, Quantize(shape, num_rows, i)));
    }
  }
  GemmParams Converted(const Shape& shape, int64_t num_rows, int i) const {
    const int64_t elements = shape.n * shape.k;
    return {.input = Quantize(shape, num_rows, i).input,
            .input_stride = shape.k,
            .weights = {.data = converted_.data<BFloat16>() +
                                i % (kRotatedBytes / (2 * elements) + 1) * elements,
                        .n = shape.n,
                        .k = shape.k},
            .output = output_.data<BFloat16>(),
            .output_stride = shape.n,
            .num_rows = num_rows};
  }
  StripGemmParams Packed(const Shape& shape, int64_t num_rows, int i) const {
    StripGemmParams params;
    params.input = Quantize(shape, num_rows, i).input;
    params.input_stride = shape.k;
    params.weights = {.codec = codec_, .n = shape.n, .k = shape.k};
    params.output = output_.data<BFloat16>();
    params.output_stride = shape.n;
    params.num_rows = num_rows;
    const int64_t copies = kRotatedBytes / params.weights.num_bytes() + 1;
    params.weights.data = strips_.data() + i % copies * params.weights.num_bytes();
    return params;
  }
  // To the place of some of the weights in bf16.
  absl::Status Expand(const CudaStream& stream, const Shape& shape, int i) const {
    return ExpandStrips(stream, Packed(shape, 1, i).weights, converted_.data<BFloat16>());
  }

  // The kernel for few rows computes the first rows again, alone. Both must have the same bits.
  void Check(const Shape& shape, int64_t num_rows, const Fp8Tiling& tiling) const {
    const int64_t rows = std::min(num_rows, kFewRows);
    QuantizeAll(shape, rows);
    Fp8GemmParams alone = Fp8(shape, rows, 0);
    alone.output = expected_.data<BFloat16>();
    Expect(LaunchFp8Gemm(stream_, alone, {.input_rows = 8, .weight_rows = 64, .num_stages = 2}));
    QuantizeAll(shape, num_rows);
    const int64_t count = rows * shape.n;
    Expect(cudaMemsetAsync(output_.data(), 0xFF, static_cast<size_t>(2 * count), stream_.handle));
    Expect(LaunchFp8Gemm(stream_, Fp8(shape, num_rows, 0), tiling));
    ExpectSameBits(stream_,
                   {.expected = expected_.data(),
                    .actual = output_.data(),
                    .num_elements = count,
                    .element_bytes = 2},
                   difference_,
                   fmt::format("{}, {} rows, tiles {}, beside few rows", shape.name, num_rows,
                               DescribeFp8Tiling(tiling)));
  }

  template <typename Enqueue>
  double Time(const Shape& shape, int64_t weight_bytes, bool overlap,
              const Enqueue& enqueue) const {
    CudaStream stream = stream_;
    stream.overlap_launches = overlap;
    const int copies = static_cast<int>(kRotatedBytes / (shape.n * shape.k * weight_bytes)) + 1;
    return TimeInGraph(stream, std::max(kMinProducts, copies),
                       [&](int i) { return enqueue(stream, i); });
  }

 private:
  static constexpr int64_t kFewRows = 8;
  static constexpr int64_t kMaxScales = kMaxInputs / kFp8BlockColumns * kMaxRows;

  CudaStream stream_;
  StripCodec codec_ = {};
  DeviceBuffer weights_;
  DeviceBuffer strips_;
  DeviceBuffer converted_;
  DeviceBuffer scales_;
  DeviceBuffer input_;
  DeviceBuffer codes_;
  DeviceBuffer input_scales_;
  DeviceBuffer output_;
  DeviceBuffer expected_;
  DeviceBuffer difference_;
  std::unique_ptr<CublasLtGemm> library_;
};

struct BF16Times {
  double own_us;
  double library_us;
  double best() const { return std::min(own_us, library_us); }
};
BF16Times TimeBF16(const Workbench& bench, const Shape& shape, int64_t num_rows) {
  BF16Times times = {.own_us = bench.Time(shape, 2, true,
                                          [&](const CudaStream& stream, int i) {
                                            return Gemm(stream,
                                                        bench.Converted(shape, num_rows, i));
                                          }),
                     .library_us = std::numeric_limits<double>::max()};
  for (const CublasLtPlan& plan : Expect(bench.library().FindPlans(
           bench.Converted(shape, num_rows, 0), SplitK::kNever, kPlansTimed))) {
    times.library_us = std::min(
        times.library_us, bench.Time(shape, 2, false, [&](const CudaStream& stream, int i) {
          return bench.library().Run(stream, bench.Converted(shape, num_rows, i), plan);
        }));
  }
  return times;
}

// As the worker does it: above kMaxPackedRows the weights are expanded first.
double TimeW8A16(const Workbench& bench, const Shape& shape, int64_t num_rows,
                 const BF16Times& bf16) {
  if (num_rows <= kMaxPackedRows) {
    return bench.Time(shape, 1, true, [&](const CudaStream& stream, int i) {
      return StripGemm(stream, bench.Packed(shape, num_rows, i));
    });
  }
  return bf16.best() + bench.Time(shape, 1, true, [&](const CudaStream& stream, int i) {
    return bench.Expand(stream, shape, i);
  });
}

void TimeShape(const Workbench& bench, const Shape& shape, int64_t num_rows) {
  const Fp8Tiling tiling = ChooseFp8Tiling({.n = shape.n, .k = shape.k, .num_rows = num_rows},
                                           bench.stream().num_multiprocessors);
  bench.Check(shape, num_rows, tiling);
  const double fp8_us = bench.Time(shape, 1, true, [&](const CudaStream& stream, int i) {
    return LaunchFp8Gemm(stream, bench.Fp8(shape, num_rows, i), tiling);
  });
  const double quantize_us = bench.Time(shape, 1, true, [&](const CudaStream& stream, int i) {
    return QuantizeActivations(stream, bench.Quantize(shape, num_rows, i));
  });
  const double both_us = bench.Time(shape, 1, true, [&](const CudaStream& stream, int i) {
    const absl::Status status = QuantizeActivations(stream, bench.Quantize(shape, num_rows, i));
    return status.ok() ? LaunchFp8Gemm(stream, bench.Fp8(shape, num_rows, i), tiling) : status;
  });
  const BF16Times bf16 = TimeBF16(bench, shape, num_rows);
  const double w8a16_us = TimeW8A16(bench, shape, num_rows, bf16);
  const double flop = 2.0 * static_cast<double>(shape.n * shape.k * num_rows);
  const double floor_us =
      static_cast<double>(shape.n * shape.k) / absl::GetFlag(FLAGS_read_tb_per_s) * 1e-6;
  fmt::print(
      "{{\"shape\": \"{}\", \"rows\": {}, \"tiling\": \"{}\", \"fp8_us\": {:.2f}, "
      "\"quantize_us\": {:.2f}, \"quantize_fp8_us\": {:.2f}, \"bf16_own_us\": {:.2f}, "
      "\"bf16_cublaslt_us\": {:.2f}, \"w8a16_us\": {:.2f}, \"fp8_tflop_per_s\": {:.0f}, "
      "\"bf16_tflop_per_s\": {:.0f}, \"floor_percent\": {:.1f}}}\n",
      shape.name, num_rows, DescribeFp8Tiling(tiling), fp8_us, quantize_us, both_us, bf16.own_us,
      bf16.library_us, w8a16_us, flop / fp8_us * 1e-6, flop / bf16.best() * 1e-6,
      100 * floor_us / fp8_us);
  std::fflush(stdout);
}

std::vector<Fp8Tiling> Tilings(const Fp8Problem& problem) {
  std::vector<Fp8Tiling> tilings;
  const auto add = [&](Fp8Tiling tiling) {
    int last_stages = 0;
    for (const int64_t shared_kib : {72, 112, 227}) {
      tiling.num_stages = Fp8Stages(problem, tiling, shared_kib * 1024);
      if (tiling.num_stages >= 2 && tiling.num_stages != last_stages) tilings.push_back(tiling);
      last_stages = tiling.num_stages;
    }
  };
  for (const int input_rows : {8, 16, 32, 64, 128}) {
    if (problem.num_rows > input_rows || (input_rows > 8 && problem.num_rows <= input_rows / 2)) {
      continue;
    }
    for (int weight_rows = 16; weight_rows <= 128; weight_rows += 16) {
      add({.input_rows = input_rows, .weight_rows = weight_rows});
    }
  }
  if (problem.num_rows < 64) return tilings;
  for (const auto& [input_rows, cluster_blocks] : {std::pair{128, 1}, {256, 1}, {256, 2}}) {
    add({.unit = Fp8Unit::kManyRows,
         .input_rows = input_rows,
         .weight_rows = kFp8TileColumns,
         .cluster_blocks = cluster_blocks});
  }
  return tilings;
}

void TimeTilings(const Workbench& bench, const Shape& shape, int64_t num_rows) {
  const Fp8Problem problem = {.n = shape.n, .k = shape.k, .num_rows = num_rows};
  std::vector<std::pair<double, Fp8Tiling>> results;
  for (const Fp8Tiling& tiling : Tilings(problem)) {
    bench.Check(shape, num_rows, tiling);
    results.emplace_back(bench.Time(shape, 1, true,
                                    [&](const CudaStream& stream, int i) {
                                      return LaunchFp8Gemm(stream, bench.Fp8(shape, num_rows, i),
                                                           tiling);
                                    }),
                         tiling);
  }
  std::sort(results.begin(), results.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  fmt::print("{} M={} chosen {}:", shape.name, num_rows,
             DescribeFp8Tiling(ChooseFp8Tiling(problem, bench.stream().num_multiprocessors)));
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(results.size(), kShown); ++i) {
    fmt::print(" | {} {:.2f}", DescribeFp8Tiling(results[i].second), results[i].first);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

void Main() {
  const Workbench bench;
  const std::vector<std::string> names = absl::GetFlag(FLAGS_shapes);
  for (const Shape& shape : kShapes) {
    if (!names.empty() && std::find(names.begin(), names.end(), shape.name) == names.end()) {
      continue;
    }
    for (const std::string& rows : absl::GetFlag(FLAGS_rows)) {
      const int64_t num_rows = std::stoll(rows);
      LOCKSTEP_CHECK(num_rows >= 1 && num_rows <= kMaxRows, "{} rows", num_rows);
      if (absl::GetFlag(FLAGS_tilings)) {
        TimeTilings(bench, shape, num_rows);
      } else {
        TimeShape(bench, shape, num_rows);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  lockstep::kernels::Main();
  return 0;
}
