// Times of the CUDA ops outside of GEMM and attention: a table and, with --json, one JSON line per
// row. Calls are captured in a CUDA graph that rotates over inputs of more than three times the L2
// cache; the time is the median over replays. Percentages are of the measured read ceiling.
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "kernels/activation/gelu.h"
#include "kernels/activation/swiglu.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/cuda_status.h"
#include "kernels/device/device_buffer.h"
#include "kernels/embedding/gather_rows.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/norm/rms_norm.h"
#include "kernels/rope/rotary_append.h"
#include "kernels/sampling/cuda/sample_cuda.h"
#include "kernels/sampling/finish_step.h"

ABSL_FLAG(bool, json, false, "print one JSON line per measurement as well");

namespace lockstep::kernels {
namespace {

constexpr double kReadCeiling = 4.54e12;  // bytes per second, measured on an H200
constexpr int64_t kRotatedBytes = 200'000'000;
constexpr int kCallsPerGraph = 40;
constexpr int kReplays = 25;
constexpr int64_t kVocabSize = 151'936;
constexpr int64_t kMaxRows = 128;

void Expect(cudaError_t error) {
  LOCKSTEP_CHECK(error == cudaSuccess, "CUDA: {}", cudaGetErrorString(error));
}
void Expect(const absl::Status& status) { LOCKSTEP_CHECK(status.ok(), "{}", Message(status)); }

class Arena {
 public:
  explicit Arena(int64_t num_bytes) {
    absl::StatusOr<DeviceBuffer> buffer = DeviceBuffer::Create(static_cast<size_t>(num_bytes));
    Expect(buffer.status());
    buffer_ = *std::move(buffer);
  }
  template <typename T>
  T* at(int64_t byte_offset = 0) const {
    return reinterpret_cast<T*>(buffer_.data() + byte_offset);
  }
  // Pseudo-random words made by `value`.
  template <typename T, typename Value>
  void Fill(Value value) const {
    std::vector<T> host(buffer_.num_bytes() / sizeof(T));
    uint64_t state = 88172645463325252;
    for (T& element : host) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      element = value(state);
    }
    Expect(
        cudaMemcpy(buffer_.data(), host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  }

 private:
  DeviceBuffer buffer_;
};

// Sum of eight uniform numbers: near enough to a standard normal one.
float NormalLike(uint64_t random) {
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += static_cast<float>(random >> (8 * i) & 0xFF);
  return (sum / 255.0f - 4.0f) * 1.2247f;
}

class Bench {
 public:
  Bench() {
    Expect(cudaStreamCreateWithFlags(&stream_.handle, cudaStreamNonBlocking));
    const absl::StatusOr<CudaDevice> device = DescribeCudaDevice(0);
    Expect(device.status());
    stream_.num_multiprocessors = device->num_multiprocessors;
    stream_.overlap_launches = true;
    fmt::print("{}\n{:<36}{:>10}{:>12}{:>10}\n", device->name, "op", "us", "GB/s", "% read");
  }

  // `call(stream, index)` is one call on input set number `index`; it moves `num_bytes`.
  void Measure(const std::string& name, int64_t num_bytes,
               const std::function<absl::Status(const CudaStream&, int)>& call) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    Expect(call(stream_, 0));
    Expect(cudaStreamSynchronize(stream_.handle));
    Expect(cudaStreamBeginCapture(stream_.handle, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < kCallsPerGraph; ++i) Expect(call(stream_, i));
    Expect(cudaStreamEndCapture(stream_.handle, &graph));
    Expect(cudaGraphInstantiate(&executable, graph, 0));
    const double seconds = MedianSeconds(executable) / kCallsPerGraph;
    Expect(cudaGraphExecDestroy(executable));
    Expect(cudaGraphDestroy(graph));
    const double rate = static_cast<double>(num_bytes) / seconds;
    const double percent = 100 * rate / kReadCeiling;
    fmt::print("{:<36}{:>10.2f}{:>12.0f}{:>10.1f}\n", name, seconds * 1e6, rate * 1e-9, percent);
    if (absl::GetFlag(FLAGS_json)) {
      fmt::print(
          "{{\"op\": \"{}\", \"us\": {:.3f}, \"gb_per_s\": {:.1f}, \"percent_of_read\": "
          "{:.1f}}}\n",
          name, seconds * 1e6, rate * 1e-9, percent);
    }
  }

 private:
  double MedianSeconds(cudaGraphExec_t executable) {
    cudaEvent_t begin = nullptr, end = nullptr;
    Expect(cudaEventCreate(&begin));
    Expect(cudaEventCreate(&end));
    std::vector<float> milliseconds;
    for (int i = 0; i < kReplays; ++i) {
      Expect(cudaEventRecord(begin, stream_.handle));
      Expect(cudaGraphLaunch(executable, stream_.handle));
      Expect(cudaEventRecord(end, stream_.handle));
      Expect(cudaEventSynchronize(end));
      Expect(cudaEventElapsedTime(&milliseconds.emplace_back(), begin, end));
    }
    Expect(cudaEventDestroy(begin));
    Expect(cudaEventDestroy(end));
    std::sort(milliseconds.begin(), milliseconds.end());
    return milliseconds[kReplays / 2] * 1e-3;
  }

  CudaStream stream_;
};

// Byte offset of input set `index` of `set_bytes` in an arena of kRotatedBytes or one set.
int64_t SetOffset(int index, int64_t set_bytes) {
  const int64_t aligned = (set_bytes + 255) / 256 * 256;
  return index % std::max<int64_t>(1, kRotatedBytes / aligned) * aligned;
}

struct RowData {
  RowData() {
    input.Fill<BFloat16>([](uint64_t random) { return ToBFloat16(NormalLike(random)); });
    parameters.Fill<float>(NormalLike);
    angles.Fill<float>([](uint64_t) { return 0.7071f; });
  }
  Arena input{2 * kRotatedBytes}, parameters{1 << 20}, output{2 * kRotatedBytes};
  Arena angles{1 << 20};
};

void MeasureNorms(Bench& bench, const RowData& data) {
  for (const int64_t rows : {1, 32, 256, 2048}) {
    const int64_t size = 4096, bytes = rows * size * 2;
    bench.Measure(fmt::format("rms_norm+add {}x{}", rows, size), 4 * bytes + size * 4,
                  [&](const CudaStream& stream, int i) {
                    const int64_t offset = SetOffset(i, 2 * bytes);
                    return RmsNorm(stream, {.input = data.input.at<BFloat16>(offset),
                                            .delta = data.input.at<BFloat16>(offset + bytes),
                                            .residual_out = data.output.at<BFloat16>(offset),
                                            .weight = data.parameters.at<float>(),
                                            .output = data.output.at<BFloat16>(offset + bytes),
                                            .num_rows = rows,
                                            .size = size,
                                            .eps = 1e-6f});
                  });
  }
  bench.Measure("layer_norm+add 32x768", 4 * 32 * 768 * 2, [&](const CudaStream& stream, int i) {
    const int64_t bytes = 32 * 768 * 2, offset = SetOffset(i, 2 * bytes);
    return LayerNorm(stream, {.input = data.input.at<BFloat16>(offset),
                              .delta = data.input.at<BFloat16>(offset + bytes),
                              .residual_out = data.output.at<BFloat16>(offset),
                              .weight = data.parameters.at<float>(),
                              .bias = data.parameters.at<float>(768 * 4),
                              .output = data.output.at<BFloat16>(offset + bytes),
                              .num_rows = 32,
                              .size = 768,
                              .eps = 1e-5f});
  });
}

// Heads of Qwen3-8B. The queries are rotated in place, so they become other numbers call by call.
void MeasureRotary(Bench& bench, const RowData& data) {
  constexpr int64_t kHeads = 32, kKvHeads = 8, kHeadDim = 128;
  constexpr int64_t kRowBytes = (kHeads + 2 * kKvHeads) * kHeadDim * 2;
  for (const int64_t rows : {1, 8, 32, 64, 128, 512, 2048}) {
    std::vector<uint32_t> positions;
    std::vector<uint64_t> slots;
    for (int64_t i = 0; i < rows; ++i) {
      positions.push_back(static_cast<uint32_t>(i));
      slots.push_back(static_cast<uint64_t>(i));
    }
    const Arena position_buffer(rows * 4), slot_buffer(rows * 8);
    Expect(cudaMemcpy(position_buffer.at<void>(), positions.data(), positions.size() * 4,
                      cudaMemcpyHostToDevice));
    Expect(
        cudaMemcpy(slot_buffer.at<void>(), slots.data(), slots.size() * 8, cudaMemcpyHostToDevice));
    bench.Measure(fmt::format("rotary+append {}x{} heads", rows, kHeads + 2 * kKvHeads),
                  2 * rows * kRowBytes, [&](const CudaStream& stream, int i) {
                    const int64_t offset = SetOffset(i, rows * kRowBytes);
                    return RotaryAppend(stream, {.qkv = data.input.at<BFloat16>(offset),
                                                 .q_norm_weight = data.parameters.at<float>(),
                                                 .k_norm_weight = data.parameters.at<float>(512),
                                                 .norm_eps = 1e-6f,
                                                 .cos = data.angles.at<float>(),
                                                 .sin = data.angles.at<float>(512),
                                                 .positions = position_buffer.at<uint32_t>(),
                                                 .kv_slots = slot_buffer.at<uint64_t>(),
                                                 .kv = {.data = data.output.at<BFloat16>(offset),
                                                        .num_blocks = rows / kKvBlockTokens + 1,
                                                        .num_kv_heads = kKvHeads,
                                                        .head_dim = kHeadDim},
                                                 .num_heads = kHeads,
                                                 .num_tokens = rows});
                  });
  }
}

void MeasureElementwise(Bench& bench, const RowData& data) {
  for (const int64_t rows : {1, 32, 256, 2048}) {
    const int64_t size = 12'288, bytes = rows * size * 2;
    bench.Measure(fmt::format("swiglu {}x{}", rows, size), 3 * bytes,
                  [&](const CudaStream& stream, int i) {
                    const int64_t offset = SetOffset(i, 2 * bytes);
                    return SwiGlu(stream, {.gate_up = data.input.at<BFloat16>(offset),
                                           .output = data.output.at<BFloat16>(offset),
                                           .num_rows = rows,
                                           .size = size});
                  });
  }
  bench.Measure("gelu tanh 2048x3072", 2 * 2048 * 3072 * 2, [&](const CudaStream& stream, int i) {
    const int64_t offset = SetOffset(i, 2048 * 3072 * 2);
    return Gelu(stream, {.input = data.input.at<BFloat16>(offset),
                         .output = data.output.at<BFloat16>(offset),
                         .num_rows = 2048,
                         .size = 3072,
                         .form = GeluForm::kTanh});
  });
  const Arena indices(2048 * 4);
  indices.Fill<uint32_t>([](uint64_t random) { return static_cast<uint32_t>(random % 20'000); });
  for (const int64_t rows : {1, 32, 2048}) {
    bench.Measure(fmt::format("gather_rows {}x4096", rows), 2 * rows * 4096 * 2,
                  [&](const CudaStream& stream, int) {
                    return GatherRows(stream, {.table = data.input.at<BFloat16>(),
                                               .indices = indices.at<uint32_t>(),
                                               .output = data.output.at<BFloat16>(),
                                               .num_table_rows = 20'000,
                                               .num_rows = rows,
                                               .size = 4096});
                  });
  }
}

// Everything the sampler needs for kMaxRows slots with equal parameters.
class SamplerBench {
 public:
  explicit SamplerBench(float scale) : logits_(3 * kMaxRows * kVocabSize * 4) {
    logits_.Fill<float>([scale](uint64_t random) { return scale * NormalLike(random); });
    std::vector<uint32_t> rows(kMaxRows);
    for (uint32_t i = 0; i < kMaxRows; ++i) rows[i] = i;
    Copy(rows, row_slots_);
    Copy(std::vector<uint32_t>(kMaxRows, 100), positions_);
    Copy(std::vector<uint32_t>(kMaxRows, 1), active_);
    Copy(std::vector<uint32_t>(kMaxRows, 20), num_best_);
    Expect(cudaMemset(counts_.at<char>(), 0, kMaxRows * kVocabSize * 4));
  }
  void SetParams(DeviceSampleParams params, bool penalties = false) {
    std::vector<DeviceSampleParams> all(kMaxRows, params);
    for (uint32_t i = 0; i < kMaxRows; ++i) {
      all[i].seed = i;
      if (penalties) all[i].count_row = i;
    }
    Copy(all, params_);
  }
  absl::Status Sample(const CudaStream& stream, int64_t rows, int index,
                      bool all_plain_greedy) const {
    return SampleRows(stream, {.logits = Logits(rows, index),
                               .row_stride = kVocabSize,
                               .num_rows = rows,
                               .vocab_size = kVocabSize,
                               .row_slots = row_slots_.at<uint32_t>(),
                               .all_plain_greedy = all_plain_greedy,
                               .state = {.position = positions_.at<uint32_t>(),
                                         .active = active_.at<uint32_t>(),
                                         .num_slots = kMaxRows},
                               .tables = {.params = params_.at<DeviceSampleParams>(),
                                          .token_counts = counts_.at<uint32_t>()},
                               .tokens = tokens_.at<TokenId>(),
                               .statuses = statuses_.at<uint32_t>()});
  }
  absl::Status Describe(const CudaStream& stream, int64_t rows, int index) const {
    return DescribeRows(stream, {.logits = Logits(rows, index),
                                 .row_stride = kVocabSize,
                                 .num_rows = rows,
                                 .vocab_size = kVocabSize,
                                 .tokens = tokens_.at<TokenId>(),
                                 .num_best = num_best_.at<int32_t>(),
                                 .descriptions = descriptions_.at<RowDescription>()});
  }

 private:
  template <typename T>
  static void Copy(const std::vector<T>& host, const Arena& device) {
    Expect(
        cudaMemcpy(device.at<T>(), host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  const float* Logits(int64_t rows, int index) const {
    const int64_t num_sets = 3 * kMaxRows / rows;
    return logits_.at<float>() + index % num_sets * rows * kVocabSize;
  }

  Arena logits_;
  Arena row_slots_{kMaxRows * 4}, positions_{kMaxRows * 4}, active_{kMaxRows * 4};
  Arena num_best_{kMaxRows * 4}, tokens_{kMaxRows * 4}, statuses_{kMaxRows * 4};
  Arena params_{kMaxRows * static_cast<int64_t>(sizeof(DeviceSampleParams))};
  Arena descriptions_{kMaxRows * static_cast<int64_t>(sizeof(RowDescription))};
  Arena counts_{kMaxRows * kVocabSize * 4};
};

void MeasureSampler(Bench& bench) {
  struct Case {
    const char* name;
    DeviceSampleParams params;
    bool penalties = false;
    bool all_plain_greedy = false;
  };
  const std::vector<Case> cases = {
      {"greedy alone", {{.temperature = 0.0f}}, false, true},
      {"greedy", {{.temperature = 0.0f}}},
      {"greedy, penalties", {{.temperature = 0.0f, .presence_penalty = 1.0f}}, true},
      {"temperature", {{.temperature = 1.0f}}},
      {"min_p 0.05", {{.temperature = 1.0f, .min_p = 0.05f}}},
      {"top_k 50", {{.temperature = 1.0f, .top_k = 50}}},
      {"top_p 0.95", {{.temperature = 1.0f, .top_p = 0.95f}}},
      {"top_k 50, top_p 0.95", {{.temperature = 1.0f, .top_p = 0.95f, .top_k = 50}}}};
  // A flat distribution, whose nucleus is most of the vocabulary, and a peaked one.
  for (const float scale : {1.0f, 4.0f}) {
    SamplerBench sampler(scale);
    for (const Case& one : cases) {
      sampler.SetParams(one.params, one.penalties);
      for (const int64_t rows : {1, 32, 128}) {
        bench.Measure(fmt::format("{}, sigma {}, {} rows", one.name, scale, rows),
                      rows * kVocabSize * 4 * (one.penalties ? 2 : 1),
                      [&](const CudaStream& stream, int i) {
                        return sampler.Sample(stream, rows, i, one.all_plain_greedy);
                      });
      }
    }
    for (const int64_t rows : {1, 32, 128}) {
      bench.Measure(
          fmt::format("describe, 20 best, sigma {}, {} rows", scale, rows), rows * kVocabSize * 4,
          [&](const CudaStream& stream, int i) { return sampler.Describe(stream, rows, i); });
    }
  }
}

void MeasureAll() {
  Bench bench;
  {
    const RowData data;
    MeasureNorms(bench, data);
    MeasureRotary(bench, data);
    MeasureElementwise(bench, data);
  }
  MeasureSampler(bench);
}

}  // namespace
}  // namespace lockstep::kernels

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  lockstep::kernels::MeasureAll();
  return 0;
}
