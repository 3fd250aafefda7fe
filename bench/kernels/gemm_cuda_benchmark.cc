// GEMM on the GPU: our kernel, cuBLASLt without and with split-K, over the layer shapes of three
// models. Every figure is the median of replays of a CUDA graph of at least 20 products whose
// weights come from more memory than the second-level cache holds three times over. One JSON line
// per product; percentages are of the read ceiling, of weight bytes alone. `read_us` is a kernel
// that reads the same weights in the same graph, launched like ours with overlap, and does nothing
// else.
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/kernels/read_bytes.h"
#include "bench/kernels/time_in_graph.h"
#include "common/check.h"
#include "common/status.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/device_buffer.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/plan/cublaslt_gemm.h"
#include "kernels/gemm/tile/gemm_launch.h"
#include "kernels/gemm/tile/gemm_tiling.h"

ABSL_FLAG(std::vector<std::string>, shapes, {}, "names of shapes, all when empty");
ABSL_FLAG(std::vector<std::string>, rows,
          std::vector<std::string>({"1", "2", "4", "8", "16", "32", "64", "128", "256", "2048"}),
          "numbers of input rows");
ABSL_FLAG(bool, tilings, false, "time every tiling of our kernel instead");

namespace lockstep::kernels {
namespace {

constexpr double kReadCeiling = 4.54e12;  // bytes/s, measured on an H200
constexpr int64_t kRotatedElements = int64_t{100} << 20;
constexpr int64_t kMaxRows = 2048;
constexpr int64_t kMaxInputs = 12288;
constexpr int kInputCopies = 4;
constexpr int kMinProducts = 20;
constexpr int kPlansTimed = 4;

struct Shape {
  std::string name;
  int64_t n;
  int64_t k;
  bool f32_output = false;
  bool gated = false;
};

const std::vector<Shape>& AllShapes() {
  static const std::vector<Shape> shapes = {
      {"8b.qkv", 6144, 4096},
      {"8b.o", 4096, 4096},
      {"8b.gate_up", 24576, 4096},
      {"8b.gate_up+swiglu", 24576, 4096, false, true},
      {"8b.down", 4096, 12288},
      {"8b.lm_head", 151936, 4096, true},
      {"8b/2.qkv", 3072, 4096},
      {"8b/2.o", 2048, 4096},
      {"8b/2.gate_up+swiglu", 12288, 4096, false, true},
      {"8b/2.down", 2048, 12288},
      {"8b/2.lm_head", 75968, 4096, true},
      {"0.6b.qkv", 4096, 1024},
      {"0.6b.o", 1024, 2048},
      {"0.6b.gate_up", 6144, 1024},
      {"0.6b.gate_up+swiglu", 6144, 1024, false, true},
      {"0.6b.down", 1024, 3072},
      {"0.6b.lm_head", 151936, 1024, true},
      {"smollm2.qkv", 960, 576},
      {"smollm2.o", 576, 576},
      {"smollm2.gate_up", 3072, 576},
      {"smollm2.gate_up+swiglu", 3072, 576, false, true},
      {"smollm2.down", 576, 1536},
      {"smollm2.lm_head", 49152, 576, true},
  };
  return shapes;
}

using Implementation = std::function<absl::Status(const CudaStream&, const GemmParams&)>;

// Memory for all shapes, filled once with random values.
class Workbench {
 public:
  Workbench() {
    const CudaDevice device = Expect(DescribeCudaDevice(0));
    stream_.num_multiprocessors = device.num_multiprocessors;
    Expect(cudaStreamCreateWithFlags(&stream_.handle, cudaStreamNonBlocking));
    const int64_t largest = int64_t{151936} * 4096;
    const int64_t weight_elements = largest + kRotatedElements;
    const int64_t input_elements = kInputCopies * kMaxRows * kMaxInputs;
    weights_ = Expect(DeviceBuffer::Create(static_cast<size_t>(weight_elements * 2)));
    input_ = Expect(DeviceBuffer::Create(static_cast<size_t>(input_elements * 2)));
    output_ = Expect(DeviceBuffer::Create(static_cast<size_t>(kMaxRows * 151936 * 4)));
    Fill(weights_, weight_elements);
    Fill(input_, input_elements);
    library_ = Expect(CublasLtGemm::Create());
  }
  ~Workbench() { cudaStreamDestroy(stream_.handle); }
  Workbench(const Workbench&) = delete;
  Workbench& operator=(const Workbench&) = delete;

  static int64_t NumCopies(const Shape& shape) {
    return kRotatedElements / (shape.n * shape.k) + 1;
  }
  const CublasLtGemm& library() const { return *library_; }
  const CudaStream& stream() const { return stream_; }

  // The i-th product of a sequence.
  GemmParams Params(const Shape& shape, int64_t num_rows, int64_t i) const {
    const int64_t weights = shape.n * shape.k;
    const int64_t copies = NumCopies(shape);
    GemmParams params = {
        .input = input_.data<BFloat16>() + i % kInputCopies * kMaxRows * kMaxInputs,
        .input_stride = shape.k,
        .weights = {.data = weights_.data<BFloat16>() + i % copies * weights,
                    .n = shape.n,
                    .k = shape.k},
        .output_stride = shape.gated ? shape.n / 2 : shape.n,
        .num_rows = num_rows};
    if (shape.f32_output) {
      params.output_f32 = output_.data<float>();
    } else {
      params.output = output_.data<BFloat16>();
    }
    return params;
  }

  // Median time of one product, in microseconds.
  double Time(const Shape& shape, int64_t num_rows, bool overlap,
              const Implementation& implementation) const {
    const int num_products = static_cast<int>(std::max<int64_t>(kMinProducts, NumCopies(shape)));
    CudaStream stream = stream_;
    stream.overlap_launches = overlap;
    return TimeInGraph(stream, num_products,
                       [&](int i) { return implementation(stream, Params(shape, num_rows, i)); });
  }

 private:
  void Fill(const DeviceBuffer& buffer, int64_t count) {
    const absl::Status status = FillWithOutliers(stream_, buffer.data<BFloat16>(), count, 1);
    LOCKSTEP_CHECK(status.ok(), "{}", Message(status));
    Expect(cudaStreamSynchronize(stream_.handle));
  }

  CudaStream stream_;
  DeviceBuffer weights_;
  DeviceBuffer input_;
  DeviceBuffer output_;
  std::unique_ptr<CublasLtGemm> library_;
};

double WeightBytes(const Shape& shape) { return 2.0 * static_cast<double>(shape.n * shape.k); }

double TimeReading(const Workbench& bench, const Shape& shape) {
  return bench.Time(shape, 1, true, [&](const CudaStream& stream, const GemmParams& params) {
    return ReadBytes(stream, params.weights.data, static_cast<size_t>(WeightBytes(shape)));
  });
}

std::string Describe(const GemmTiling& tiling) {
  return fmt::format("{}x{}{} s{}{}", tiling.weight_rows, tiling.input_rows,
                     tiling.unit == GemmUnit::kSwapped ? "s" : "g", tiling.num_stages,
                     tiling.held_input_blocks > 0 ? " held" : "");
}

// The best of the first plans; for gated shapes the product alone.
std::optional<double> TimeLibrary(const Workbench& bench, const Shape& shape, int64_t num_rows,
                                  SplitK split_k) {
  Shape product = shape;
  product.gated = false;
  std::optional<double> best;
  for (const CublasLtPlan& plan : Expect(
           bench.library().FindPlans(bench.Params(product, num_rows, 0), split_k, kPlansTimed))) {
    const double time_us = bench.Time(product, num_rows, false,
                                      [&](const CudaStream& stream, const GemmParams& params) {
                                        return bench.library().Run(stream, params, plan);
                                      });
    if (!best.has_value() || time_us < *best) best = time_us;
  }
  return best;
}

void TimeShape(const Workbench& bench, const Shape& shape, int64_t num_rows) {
  const GemmProblem problem = {
      .n = shape.n, .k = shape.k, .num_rows = num_rows, .gated = shape.gated};
  const GemmTiling tiling = ChooseGemmTiling(problem, bench.stream().num_multiprocessors);
  const Implementation own = [&](const CudaStream& stream, const GemmParams& params) {
    return shape.gated ? GemmSwiGlu(stream, params) : Gemm(stream, params);
  };
  const double own_us = bench.Time(shape, num_rows, false, own);
  const double overlapped_us = bench.Time(shape, num_rows, true, own);
  const double library_us =
      TimeLibrary(bench, shape, num_rows, SplitK::kNever).value_or(std::nan(""));
  const double free_us =
      TimeLibrary(bench, shape, num_rows, SplitK::kAllowed).value_or(std::nan(""));
  const double read_us = TimeReading(bench, shape);
  const double floor_us = 1e6 * WeightBytes(shape) / kReadCeiling;
  const double flop = 2.0 * static_cast<double>(shape.n * shape.k * num_rows);
  fmt::print(
      "{{\"shape\": \"{}\", \"rows\": {}, \"n\": {}, \"k\": {}, \"tiling\": \"{}\", "
      "\"own_us\": {:.2f}, \"own_overlapped_us\": {:.2f}, \"cublaslt_us\": {:.2f}, "
      "\"cublaslt_split_k_us\": {:.2f}, \"read_us\": {:.2f}, \"own_gb_per_s\": {:.0f}, "
      "\"own_ceiling_percent\": {:.1f}, \"overlapped_ceiling_percent\": {:.1f}, "
      "\"overlapped_tflop_per_s\": {:.1f}, "
      "\"cublaslt_tflop_per_s\": {:.1f}}}\n",
      shape.name, num_rows, shape.n, shape.k, Describe(tiling), own_us, overlapped_us, library_us,
      free_us, read_us, WeightBytes(shape) / own_us * 1e-3, 100 * floor_us / own_us,
      100 * floor_us / overlapped_us, flop / overlapped_us * 1e-6, flop / library_us * 1e-6);
  std::fflush(stdout);
}

void TimeTilings(const Workbench& bench, const Shape& shape, int64_t num_rows) {
  struct Result {
    GemmTiling tiling;
    double own_us;
    double overlapped_us;
  };
  std::vector<Result> results;
  for (const GemmUnit unit : {GemmUnit::kSwapped, GemmUnit::kWarpgroup}) {
    for (const int input_rows : {8, 16, 32, 64, 128, 192, 256}) {
      if (input_rows < 64 && num_rows > input_rows) continue;
      if (input_rows > 64 && 4 * num_rows < input_rows) continue;
      for (int weight_rows = 16; weight_rows <= 256; weight_rows += 8) {
        GemmTiling tiling = {.unit = unit, .weight_rows = weight_rows, .input_rows = input_rows};
        tiling.held_input_blocks =
            GemmHeldInputBlocks(tiling, {.k = shape.k, .num_rows = num_rows});
        const GemmEpilogue epilogue = shape.gated ? GemmEpilogue::kSwiGlu : GemmEpilogue::kPlain;
        if (FindGemmKernel(tiling, epilogue).function == nullptr) continue;
        int last_stages = 0;
        for (const int64_t ring_kib : {72, 104, 208}) {
          if (ring_kib < 208 && num_rows > 64) continue;
          tiling.num_stages = GemmStages(tiling, num_rows, ring_kib * 1024);
          if (tiling.num_stages == last_stages) continue;
          last_stages = tiling.num_stages;
          const Implementation run = [&](const CudaStream& stream, const GemmParams& params) {
            return LaunchGemm(stream, params, epilogue, tiling);
          };
          results.push_back({tiling, bench.Time(shape, num_rows, false, run),
                             bench.Time(shape, num_rows, true, run)});
        }
      }
    }
  }
  const double floor_us = 1e6 * WeightBytes(shape) / kReadCeiling;
  std::sort(results.begin(), results.end(),
            [](const Result& a, const Result& b) { return a.overlapped_us < b.overlapped_us; });
  constexpr size_t kShown = 5;
  fmt::print("{} M={} floor {:.2f} TFLOP/s {:.0f} chosen {}:", shape.name, num_rows, floor_us,
             2e-6 * static_cast<double>(shape.n * shape.k * num_rows) / results[0].overlapped_us,
             Describe(ChooseGemmTiling(
                 {.n = shape.n, .k = shape.k, .num_rows = num_rows, .gated = shape.gated},
                 bench.stream().num_multiprocessors)));
  for (size_t i = 0; i < std::min(results.size(), kShown); ++i) {
    fmt::print(" | {} {:.2f} {:.2f}", Describe(results[i].tiling), results[i].own_us,
               results[i].overlapped_us);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

void Main() {
  const Workbench bench;
  const std::vector<std::string> names = absl::GetFlag(FLAGS_shapes);
  for (const Shape& shape : AllShapes()) {
    if (!names.empty() && std::find(names.begin(), names.end(), shape.name) == names.end())
      continue;
    for (const std::string& rows : absl::GetFlag(FLAGS_rows)) {
      const int64_t num_rows = std::stoll(rows);
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
