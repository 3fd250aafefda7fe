// Products of packed weights on the GPU (kernels/formats/strips/) over the layer shapes of two
// models, beside the same product with bf16 weights and beside a kernel that only reads the packed
// bytes. Every figure is the median of replays of a CUDA graph of at least 20 products whose
// weights come from more memory than the second-level cache holds three times over. Before a shape
// is timed, its outputs are compared with those of the expanded weights, bit for bit. One JSON line
// per product.
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "bench/kernels/expect_same_bits.h"
#include "bench/kernels/read_bytes.h"
#include "bench/kernels/time_in_graph.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/device_buffer.h"
#include "kernels/formats/small_floats.h"
#include "kernels/formats/strips/strip_gemm.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tile/gemm_launch.h"

ABSL_FLAG(std::vector<std::string>, shapes, {}, "names of shapes, all when empty");
ABSL_FLAG(std::vector<std::string>, codecs, {}, "names of codecs, all when empty");
ABSL_FLAG(std::vector<std::string>, rows, std::vector<std::string>({"1", "8", "32", "64", "128"}),
          "numbers of input rows");
ABSL_FLAG(bool, tilings, false, "time every tiling instead, and print the five fastest");
ABSL_FLAG(double, read_tb_per_s, 4.54, "what the memory can read");

namespace lockstep::kernels {
namespace {

constexpr int64_t kRotatedBytes = int64_t{200} << 20;
constexpr int64_t kMaxRows = 128;
constexpr int64_t kMaxInputs = 12288;
constexpr int64_t kMaxOutputs = 151936;
constexpr int kInputCopies = 4;
constexpr int kMinProducts = 20;

struct Shape {
  const char* name;
  int64_t n;
  int64_t k;
  bool gated = false;
};
constexpr Shape kShapes[] = {
    {"8b.qkv", 6144, 4096},
    {"8b.o", 4096, 4096},
    {"8b.gate_up", 24576, 4096, true},
    {"8b.down", 4096, 12288},
    {"8b.lm_head", 151936, 4096},
    {"0.6b.qkv", 4096, 1024},
    {"0.6b.o", 1024, 2048},
    {"0.6b.gate_up", 6144, 1024, true},
    {"0.6b.down", 1024, 3072},
};

struct Codec {
  const char* name;
  StripCodec codec;
  CodeKind kind;
  int64_t group_columns;
  bool has_zeros = false;
  bool has_half_scales = false;
  int64_t block_columns = 0;
  bool has_row_scales = false;
};
constexpr Codec kCodecs[] = {
    {"int4", StripCodec::kInt4Group128, CodeKind::kInt4, 128},
    {"int4z", StripCodec::kInt4Group128Zeros, CodeKind::kInt4, 128, true},
    {"int4g32", StripCodec::kInt4Group32, CodeKind::kInt4, 32},
    {"int4g32z", StripCodec::kInt4Group32Zeros, CodeKind::kInt4, 32, true},
    {"int8", StripCodec::kInt8Group128, CodeKind::kInt8, 128},
    {"int8g32", StripCodec::kInt8Group32, CodeKind::kInt8, 32},
    {"int8z", StripCodec::kInt8Group128Zeros, CodeKind::kInt8, 128, true},
    {"int8g32z", StripCodec::kInt8Group32Zeros, CodeKind::kInt8, 32, true},
    {"fp8", StripCodec::kFp8Group128, CodeKind::kFp8E4M3, 128},
    {"q4_0", StripCodec::kQ4_0, CodeKind::kInt4, 32, false, true},
    {"q4_1", StripCodec::kQ4_1, CodeKind::kInt4Min, 32, false, true},
    {"q5_0", StripCodec::kQ5_0, CodeKind::kInt5, 32, false, true},
    {"q5_1", StripCodec::kQ5_1, CodeKind::kInt5Min, 32, false, true},
    {"q4_k", StripCodec::kQ4_K, CodeKind::kInt4Min, 32, false, true, 256},
    {"q5_k", StripCodec::kQ5_K, CodeKind::kInt5Min, 32, false, true, 256},
    {"q6_k", StripCodec::kQ6_K, CodeKind::kInt6, 16, false, true, 256},
    {"mxfp4", StripCodec::kMxfp4, CodeKind::kFp4E2M1, 32},
    {"nvfp4", StripCodec::kNvfp4, CodeKind::kFp4E2M1, 16, false, false, 0, true},
};

bool IsAsked(const std::vector<std::string>& names, const char* name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

// Near 2^-8, with the bits of fp16 or of bf16.
float RandomScale(const Codec& codec, std::mt19937& random) {
  const uint32_t steps = codec.has_half_scales ? 1024 : 128;
  return (1.0f + static_cast<float>(random() % steps) / static_cast<float>(steps)) * 0x1p-8f;
}

// The scale or the minimum of a group.
float RandomGroupScale(const Codec& codec, std::mt19937& random) {
  if (codec.has_row_scales) return E4M3ToFloat(static_cast<uint8_t>(8 + random() % 118));
  if (codec.kind == CodeKind::kFp4E2M1)
    return E8M0ToFloat(static_cast<uint8_t>(118 + random() % 4));
  if (codec.block_columns == 0) return RandomScale(codec, random);
  const auto byte = static_cast<int>(random() % 256);
  return static_cast<float>(HasMinimum(codec.kind) ? byte % 64 : byte - 128);
}

// Some strips of random weights, whose blocks a whole matrix repeats. All rows have the same entry
// in the table behind the blocks.
PackedStrips SomeStrips(const Codec& codec) {
  std::mt19937 random(1);
  QuantizedMatrix matrix;
  matrix.kind = codec.kind;
  matrix.n = kBandRows;
  matrix.k = 128 * 61;
  matrix.group_columns = codec.group_columns;
  matrix.block_columns = codec.block_columns;
  const uint32_t mask = (1u << CodeBits(codec.kind)) - 1;
  for (int64_t i = 0; i < matrix.n * matrix.k; ++i) {
    uint32_t code = random() & mask;
    if (codec.kind == CodeKind::kFp8E4M3 && (code & 0x7F) == 0x7F) code ^= 1;
    matrix.codes.push_back(static_cast<uint8_t>(code));
  }
  for (int64_t i = 0; i < matrix.n * matrix.num_groups(); ++i) {
    matrix.scales.push_back(RandomGroupScale(codec, random));
    if (codec.has_zeros) matrix.zeros.push_back(static_cast<uint8_t>(random() & mask));
    if (HasMinimum(codec.kind)) matrix.minima.push_back(RandomGroupScale(codec, random));
  }
  if (codec.block_columns != 0) {
    for (int64_t i = 0; i < matrix.n * matrix.num_scale_blocks(); ++i) {
      matrix.block_scales.push_back(RandomScale(codec, random));
      if (HasMinimum(codec.kind)) matrix.block_minima.push_back(RandomScale(codec, random));
    }
  }
  if (codec.has_row_scales) {
    matrix.block_columns = matrix.k;
    matrix.block_scales.assign(static_cast<size_t>(matrix.n), 0x1.7p-13f);
  }
  PackedStrips packed = Expect(PackStrips(matrix));
  LOCKSTEP_CHECK(packed.matrix.codec == codec.codec, "{} was packed as {}", codec.name,
                 StripCodecName(packed.matrix.codec));
  return packed;
}

class Workbench {
 public:
  Workbench() {
    const CudaDevice device = Expect(DescribeCudaDevice(0));
    stream_.num_multiprocessors = device.num_multiprocessors;
    Expect(cudaStreamCreateWithFlags(&stream_.handle, cudaStreamNonBlocking));
    constexpr int64_t kLargest = kMaxOutputs * 4096 * 2;
    strips_ = Expect(DeviceBuffer::Create(static_cast<size_t>(kLargest + kRotatedBytes)));
    converted_ = Expect(DeviceBuffer::Create(static_cast<size_t>(kLargest + kRotatedBytes)));
    input_ = Expect(DeviceBuffer::Create(kInputCopies * kMaxRows * kMaxInputs * 2));
    output_ = Expect(DeviceBuffer::Create(kMaxRows * kMaxOutputs * 2));
    expected_ = Expect(DeviceBuffer::Create(kMaxRows * kMaxOutputs * 2));
    difference_ = Expect(DeviceBuffer::Create(8));
    Expect(FillWithOutliers(stream_, input_.data<BFloat16>(), kInputCopies * kMaxRows * kMaxInputs,
                            1));
    Expect(
        FillWithOutliers(stream_, converted_.data<BFloat16>(), (kLargest + kRotatedBytes) / 2, 2));
    Expect(cudaStreamSynchronize(stream_.handle));
  }
  ~Workbench() { cudaStreamDestroy(stream_.handle); }
  Workbench(const Workbench&) = delete;
  Workbench& operator=(const Workbench&) = delete;

  const CudaStream& stream() const { return stream_; }

  // Writes as many matrices as Packed() gives, each of the same bytes again and again.
  void Fill(const Codec& codec, const Shape& shape) {
    const PackedStrips strips = SomeStrips(codec);
    const StripMatrix matrix = Matrix(codec, shape);
    const std::byte* const rows = strips.storage.data() + strips.matrix.blocks_bytes();
    for (int64_t i = 0; i < NumCopies(matrix); ++i) {
      std::byte* const to = strips_.data() + i * matrix.num_bytes();
      Repeat({strips.storage.data(), rows}, to, matrix.blocks_bytes());
      if (!codec.has_row_scales) continue;
      std::byte* const to_rows = to + matrix.blocks_bytes();
      const auto num_rows = static_cast<size_t>(strips.matrix.num_rows());
      Repeat({rows, 16 * num_rows}, to_rows, 16 * matrix.num_rows());
      Repeat({rows + 16 * num_rows, 4 * num_rows}, to_rows + 16 * matrix.num_rows(),
             4 * matrix.num_rows());
    }
    Expect(cudaStreamSynchronize(stream_.handle));
  }

  static StripMatrix Matrix(const Codec& codec, const Shape& shape) {
    return {.codec = codec.codec, .n = shape.n, .k = shape.k};
  }

  // The i-th of several products. Neighbours have other weights and other input.
  StripGemmParams Packed(const Codec& codec, const Shape& shape, int64_t num_rows, int i) const {
    StripGemmParams params;
    params.input = Input(i);
    params.input_stride = shape.k;
    params.weights = Matrix(codec, shape);
    params.output = output_.data<BFloat16>();
    params.output_stride = shape.gated ? shape.n / 2 : shape.n;
    params.num_rows = num_rows;
    params.weights.data =
        strips_.data() + i % NumCopies(params.weights) * params.weights.num_bytes();
    return params;
  }
  GemmParams Converted(const Shape& shape, int64_t num_rows, int i) const {
    const int64_t elements = shape.n * shape.k;
    return {.input = Input(i),
            .input_stride = shape.k,
            .weights = {.data = converted_.data<BFloat16>() +
                                i % (kRotatedBytes / (2 * elements) + 1) * elements,
                        .n = shape.n,
                        .k = shape.k},
            .output = output_.data<BFloat16>(),
            .output_stride = shape.gated ? shape.n / 2 : shape.n,
            .num_rows = num_rows};
  }

  // Expands the weights of the i-th of several products, always to the same place.
  absl::Status Expand(const CudaStream& stream, const Codec& codec, const Shape& shape,
                      int i) const {
    return ExpandStrips(stream, Packed(codec, shape, 1, i).weights, converted_.data<BFloat16>());
  }

  // Compares the first product with that of the expanded weights.
  template <typename Run>
  void Check(const Codec& codec, const Shape& shape, int64_t num_rows, const Run& run) const {
    const StripGemmParams params = Packed(codec, shape, num_rows, 0);
    Expect(ExpandStrips(stream_, params.weights, converted_.data<BFloat16>()));
    GemmParams reference = Converted(shape, num_rows, 0);
    reference.output = expected_.data<BFloat16>();
    Expect(shape.gated ? GemmSwiGlu(stream_, reference) : Gemm(stream_, reference));
    const int64_t count = num_rows * reference.output_stride;
    Expect(cudaMemsetAsync(output_.data(), 0xFF, static_cast<size_t>(2 * count), stream_.handle));
    Expect(run(params));
    ExpectSameBits(stream_,
                   {.expected = expected_.data(),
                    .actual = output_.data(),
                    .num_elements = count,
                    .element_bytes = 2},
                   difference_,
                   fmt::format("{} of {}, {} rows, beside expanded weights", codec.name, shape.name,
                               num_rows));
  }

  template <typename Enqueue>
  double Time(const Shape& shape, double bits, const Enqueue& enqueue) const {
    const double bytes = static_cast<double>(shape.n * shape.k) * bits / 8;
    const int copies = static_cast<int>(static_cast<double>(kRotatedBytes) / bytes) + 1;
    CudaStream stream = stream_;
    stream.overlap_launches = true;
    return TimeInGraph(stream, std::max(kMinProducts, copies),
                       [&](int i) { return enqueue(stream, i); });
  }

 private:
  static int64_t NumCopies(const StripMatrix& of) { return kRotatedBytes / of.num_bytes() + 1; }
  void Repeat(std::span<const std::byte> bytes, std::byte* to, int64_t num_bytes) const {
    for (size_t at = 0; at < static_cast<size_t>(num_bytes); at += bytes.size()) {
      Expect(cudaMemcpyAsync(to + at, bytes.data(),
                             std::min(bytes.size(), static_cast<size_t>(num_bytes) - at),
                             cudaMemcpyHostToDevice, stream_.handle));
    }
  }

  const BFloat16* Input(int i) const {
    return input_.data<BFloat16>() + i % kInputCopies * kMaxRows * kMaxInputs;
  }

  CudaStream stream_;
  DeviceBuffer strips_;
  DeviceBuffer converted_;
  DeviceBuffer input_;
  DeviceBuffer output_;
  DeviceBuffer expected_;
  DeviceBuffer difference_;
};

double Bits(const Codec& codec) {
  return StripBlockBytes(codec.codec) * 8.0 / (kStripRows * kStripBlockColumns);
}

std::string Describe(const StripTiling& tiling) {
  return fmt::format("{}b/{}x{} s{}{}", tiling.bands, tiling.strips, tiling.input_rows,
                     tiling.num_stages, tiling.holds_input ? " held" : "");
}

void TimeShape(const Workbench& bench, const Codec& codec, const Shape& shape, int64_t num_rows) {
  const StripProblem problem = {
      .codec = codec.codec, .n = shape.n, .k = shape.k, .num_rows = num_rows, .gated = shape.gated};
  const StripTiling tiling = ChooseStripTiling(problem, bench.stream().num_multiprocessors);
  bench.Check(codec, shape, num_rows, [&](const StripGemmParams& params) {
    return LaunchStripGemm(bench.stream(), params, shape.gated, tiling);
  });
  const double packed_us = bench.Time(shape, Bits(codec), [&](const CudaStream& stream, int i) {
    return LaunchStripGemm(stream, bench.Packed(codec, shape, num_rows, i), shape.gated, tiling);
  });
  const double converted_us = bench.Time(shape, 16, [&](const CudaStream& stream, int i) {
    const GemmParams params = bench.Converted(shape, num_rows, i);
    return shape.gated ? GemmSwiGlu(stream, params) : Gemm(stream, params);
  });
  const double read_us = bench.Time(shape, Bits(codec), [&](const CudaStream& stream, int i) {
    const StripGemmParams params = bench.Packed(codec, shape, num_rows, i);
    return ReadBytes(stream, params.weights.data, static_cast<size_t>(params.weights.num_bytes()));
  });
  const double expand_us = bench.Time(shape, Bits(codec), [&](const CudaStream& stream, int i) {
    return bench.Expand(stream, codec, shape, i);
  });
  const double floor_us = static_cast<double>(Workbench::Matrix(codec, shape).num_bytes()) /
                          absl::GetFlag(FLAGS_read_tb_per_s) * 1e-6;
  fmt::print(
      "{{\"codec\": \"{}\", \"shape\": \"{}\", \"rows\": {}, \"tiling\": \"{}\", \"packed_us\": "
      "{:.2f}, \"bf16_us\": {:.2f}, \"expand_us\": {:.2f}, \"read_us\": {:.2f}, "
      "\"floor_percent\": {:.1f}}}\n",
      codec.name, shape.name, num_rows, Describe(tiling), packed_us, converted_us, expand_us,
      read_us, 100 * floor_us / packed_us);
  std::fflush(stdout);
}

void TimeTilings(const Workbench& bench, const Codec& codec, const Shape& shape, int64_t num_rows) {
  struct Result {
    StripTiling tiling;
    double time_us;
  };
  std::vector<Result> results;
  const StripProblem problem = {
      .codec = codec.codec, .n = shape.n, .k = shape.k, .num_rows = num_rows, .gated = shape.gated};
  for (const int input_rows : {8, 16, 32, 64}) {
    if (input_rows > 8 && input_rows / 2 >= num_rows) continue;
    if (num_rows > 8 * input_rows) continue;
    for (const int strips : {1, 2}) {
      if (strips == 1 && shape.gated) continue;
      if (strips == 1 && input_rows > kMaxNarrowInputRows) continue;
      for (const int bands : {1, 2, 3, 4, 5, 6}) {
        if (bands * kBandStrips / strips > kMaxTileWarps || (shape.gated && bands % 2 != 0))
          continue;
        StripTiling tiling = {.bands = bands, .strips = strips, .input_rows = input_rows};
        tiling.holds_input = CanHoldInput(problem);
        for (const int64_t ring_kib : {72, 104, 200}) {
          tiling.num_stages = StripStages(problem, tiling, ring_kib * 1024);
          if (StripSharedBytes(problem, tiling) > kMaxStripSharedBytes) continue;
          const auto run = [&](const CudaStream& stream, int i) {
            return LaunchStripGemm(stream, bench.Packed(codec, shape, num_rows, i), shape.gated,
                                   tiling);
          };
          results.push_back({tiling, bench.Time(shape, Bits(codec), run)});
        }
      }
    }
  }
  std::sort(results.begin(), results.end(),
            [](const Result& a, const Result& b) { return a.time_us < b.time_us; });
  fmt::print("{} {} M={} chosen {}:", codec.name, shape.name, num_rows,
             Describe(ChooseStripTiling(problem, bench.stream().num_multiprocessors)));
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(results.size(), kShown); ++i) {
    fmt::print(" | {} {:.2f}", Describe(results[i].tiling), results[i].time_us);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

void Main() {
  Workbench bench;
  for (const Codec& codec : kCodecs) {
    if (!IsAsked(absl::GetFlag(FLAGS_codecs), codec.name)) continue;
    for (const Shape& shape : kShapes) {
      if (!IsAsked(absl::GetFlag(FLAGS_shapes), shape.name)) continue;
      bench.Fill(codec, shape);
      for (const std::string& rows : absl::GetFlag(FLAGS_rows)) {
        if (absl::GetFlag(FLAGS_tilings)) {
          TimeTilings(bench, codec, shape, std::stoll(rows));
        } else {
          TimeShape(bench, codec, shape, std::stoll(rows));
        }
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
