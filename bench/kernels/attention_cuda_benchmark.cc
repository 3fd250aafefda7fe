// Times the CUDA attention kernels on the shapes of an 8B model (32 query heads, 8 KV heads of 128)
// in CUDA graphs and prints one JSON object per shape. Decode reads K and V from device memory:
// calls of a graph rotate through enough of the pool that the second-level cache holds none of it.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/device_buffer.h"
#include "kernels/kv_cache/device_paged_kv.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kNumHeads = 32;
constexpr int64_t kNumKvHeads = 8;
constexpr int64_t kHeadDim = 128;
constexpr int64_t kRowElements = kNumHeads * kHeadDim;
constexpr int64_t kBlockElements = kNumKvHeads * DeviceKvHeadElements(kHeadDim);
constexpr int64_t kRotationBytes = int64_t{200} << 20;  // more than three times the cache
constexpr int kCallsPerGraph = 20;
constexpr int kReplays = 7;
constexpr double kReadCeilingBytesPerUs = 4.54e6;
constexpr double kMatrixCeilingFlopsPerUs = 795e6;

void Check(cudaError_t error) {
  LOCKSTEP_CHECK(error == cudaSuccess, "CUDA: {}", cudaGetErrorString(error));
}
void Check(const absl::Status& status) { LOCKSTEP_CHECK(status.ok(), "{}", Message(status)); }

DeviceBuffer Allocate(size_t num_bytes) {
  absl::StatusOr<DeviceBuffer> buffer = DeviceBuffer::Create(num_bytes);
  Check(buffer.status());
  return *std::move(buffer);
}

template <typename T>
DeviceBuffer Upload(const std::vector<T>& values) {
  DeviceBuffer buffer = Allocate(values.size() * sizeof(T));
  Check(cudaMemcpy(buffer.data(), values.data(), buffer.num_bytes(), cudaMemcpyHostToDevice));
  return buffer;
}

// Gaussian bf16; one stretch of them, repeated.
DeviceBuffer RandomOnDevice(int64_t count) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<BFloat16> stretch(size_t{1} << 22);
  for (BFloat16& value : stretch) value = ToBFloat16(normal(generator));
  DeviceBuffer buffer = Allocate(static_cast<size_t>(count) * sizeof(BFloat16));
  for (size_t done = 0; done < static_cast<size_t>(count); done += stretch.size()) {
    const size_t size = std::min(stretch.size(), static_cast<size_t>(count) - done);
    Check(cudaMemcpy(buffer.data<BFloat16>() + done, stretch.data(), size * sizeof(BFloat16),
                     cudaMemcpyHostToDevice));
  }
  return buffer;
}

std::vector<BlockId> ShuffledBlocks(int64_t count) {
  std::vector<BlockId> blocks(static_cast<size_t>(count));
  std::iota(blocks.begin(), blocks.end(), BlockId{0});
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(2));
  return blocks;
}

// Median time of one of the calls that `enqueue(i)` makes.
template <typename Enqueue>
double MeasureUs(const CudaStream& stream, const Enqueue& enqueue) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  Check(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < kCallsPerGraph; ++i) Check(enqueue(i));
  Check(cudaStreamEndCapture(stream.handle, &graph));
  Check(cudaGraphInstantiate(&executable, graph, 0));
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  Check(cudaEventCreate(&begin));
  Check(cudaEventCreate(&end));
  std::vector<double> times;
  for (int i = 0; i < kReplays + 2; ++i) {
    Check(cudaEventRecord(begin, stream.handle));
    Check(cudaGraphLaunch(executable, stream.handle));
    Check(cudaEventRecord(end, stream.handle));
    Check(cudaStreamSynchronize(stream.handle));
    float ms = 0.0f;
    Check(cudaEventElapsedTime(&ms, begin, end));
    if (i >= 2) times.push_back(ms * 1000.0 / kCallsPerGraph);
  }
  Check(cudaEventDestroy(begin));
  Check(cudaEventDestroy(end));
  Check(cudaGraphExecDestroy(executable));
  Check(cudaGraphDestroy(graph));
  std::nth_element(times.begin(), times.begin() + kReplays / 2, times.end());
  return times[kReplays / 2];
}

void BenchmarkDecode(CudaStream stream, int64_t batch, int64_t context) {
  const int64_t kv_bytes = batch * context * kNumKvHeads * kHeadDim * 2 * 2;
  const int64_t num_sets = std::min<int64_t>(kRotationBytes / kv_bytes + 1, kCallsPerGraph);
  const int64_t blocks_per_row = (context + kKvBlockTokens - 1) / kKvBlockTokens;
  const int64_t num_blocks = num_sets * batch * blocks_per_row;
  const DeviceBuffer pool = RandomOnDevice(num_blocks * kBlockElements);
  const DeviceBuffer query = RandomOnDevice(batch * kRowElements);
  const DeviceBuffer output = Allocate(static_cast<size_t>(batch * kRowElements) * 2);
  const DeviceBuffer tables = Upload(ShuffledBlocks(num_blocks));
  const DeviceBuffer positions =
      Upload(std::vector<uint32_t>(static_cast<size_t>(batch), static_cast<uint32_t>(context - 1)));
  const DeviceBuffer partials = Allocate(
      static_cast<size_t>(DecodePartialElements(batch, kNumHeads, kNumKvHeads, kHeadDim, context)) *
      sizeof(float));
  const DeviceBuffer arrivals = Upload(
      std::vector<uint32_t>(static_cast<size_t>(DecodeArrivalElements(batch, kNumKvHeads)), 0));
  double us[2];
  for (const bool overlap : {false, true}) {
    stream.overlap_launches = overlap;
    us[overlap] = MeasureUs(stream, [&](int call) {
      return PagedDecodeAttention(
          stream,
          {.query = query.data<BFloat16>(),
           .query_stride = kRowElements,
           .output = output.data<BFloat16>(),
           .output_stride = kRowElements,
           .kv = {pool.data<BFloat16>(), num_blocks, kNumKvHeads, kHeadDim},
           .num_heads = kNumHeads,
           .scale = 0.088388f,
           .num_rows = batch,
           .positions = positions.data<uint32_t>(),
           .block_tables = tables.data<BlockId>() + call % num_sets * batch * blocks_per_row,
           .block_table_stride = blocks_per_row,
           .max_keys = context,
           .partials = partials.data<float>(),
           .arrivals = arrivals.data<uint32_t>()});
    });
  }
  fmt::print(
      "{{\"case\": \"paged_decode:{}x{}\", \"unit\": \"us\", \"median\": {:.2f}, "
      "\"us_overlapped\": {:.2f}, \"tb_per_s\": {:.2f}, \"of_read_ceiling\": {:.3f}}}\n",
      batch, context, us[0], us[1], static_cast<double>(kv_bytes) / us[0] / 1e6,
      static_cast<double>(kv_bytes) / us[0] / kReadCeilingBytesPerUs);
}

void BenchmarkPrefill(const CudaStream& stream, int64_t num_tokens) {
  const int64_t num_blocks = num_tokens / kKvBlockTokens;
  const DeviceBuffer pool = RandomOnDevice(num_blocks * kBlockElements);
  const DeviceBuffer query = RandomOnDevice(num_tokens * kRowElements);
  const DeviceBuffer output = Allocate(static_cast<size_t>(num_tokens * kRowElements) * 2);
  const DeviceBuffer tables = Upload(ShuffledBlocks(num_blocks));
  const DeviceBuffer chunks =
      Upload(std::vector<AttentionChunk>{{.num_tokens = static_cast<uint32_t>(num_tokens)}});
  const double us = MeasureUs(stream, [&](int) {
    return PagedPrefillAttention(stream,
                                 {.query = query.data<BFloat16>(),
                                  .query_stride = kRowElements,
                                  .output = output.data<BFloat16>(),
                                  .output_stride = kRowElements,
                                  .kv = {pool.data<BFloat16>(), num_blocks, kNumKvHeads, kHeadDim},
                                  .num_heads = kNumHeads,
                                  .scale = 0.088388f,
                                  .chunks = chunks.data<AttentionChunk>(),
                                  .num_chunks = 1,
                                  .max_chunk_tokens = num_tokens,
                                  .block_tables = tables.data<BlockId>(),
                                  .block_table_stride = num_blocks});
  });
  const double flops = 2.0 * static_cast<double>(num_tokens * num_tokens * kRowElements);
  fmt::print(
      "{{\"case\": \"prefill:{}\", \"unit\": \"us\", \"median\": {:.2f}, \"tflops\": {:.1f}, "
      "\"of_matrix_ceiling\": {:.3f}}}\n",
      num_tokens, us, flops / us / 1e6, flops / us / kMatrixCeilingFlopsPerUs);
}

int Run() {
  const absl::StatusOr<CudaDevice> device = DescribeCudaDevice(0);
  if (!device.ok()) {
    fmt::print(stderr, "{}\n", Message(device.status()));
    return 1;
  }
  CudaStream stream = {.num_multiprocessors = device->num_multiprocessors};
  Check(cudaStreamCreateWithFlags(&stream.handle, cudaStreamNonBlocking));
  for (const int64_t context : {512, 2048, 8192}) BenchmarkDecode(stream, 1, context);
  BenchmarkDecode(stream, 8, 512);
  for (const int64_t context : {512, 2048}) BenchmarkDecode(stream, 32, context);
  for (const int64_t context : {512, 2048, 8192}) BenchmarkDecode(stream, 128, context);
  for (const int64_t num_tokens : {1024, 2048, 4096, 8192, 16384}) {
    BenchmarkPrefill(stream, num_tokens);
  }
  Check(cudaStreamDestroy(stream.handle));
  return 0;
}

}  // namespace
}  // namespace lockstep::kernels

int main() { return lockstep::kernels::Run(); }
