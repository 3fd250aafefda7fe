// Times of the exchange of tensor-parallel ranks on GPUs, by size, pushed and put: microseconds
// of one exchange, the median over replays of a graph of them, on rank 0. One JSON object a line. A
// device that --cuda_device names twice has several ranks, which says nothing about real ones.
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <absl/strings/numbers.h>
#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/cuda_status.h"
#include "kernels/device/device_buffer.h"
#include "worker/comm/device_group.h"
#include "worker/comm/rank_team.h"

ABSL_FLAG(std::vector<std::string>, cuda_device, std::vector<std::string>({"0", "1"}),
          "the device of each rank");

namespace lockstep::bench {
namespace {

constexpr int kCallsPerGraph = 100;
constexpr int kReplays = 25;
constexpr int64_t kMostBytes = 16 << 20;  // of a rank's columns
constexpr int64_t kMostPushedBytes = 1 << 20;
constexpr std::chrono::minutes kPatience(1);

void Expect(const absl::Status& status) { LOCKSTEP_CHECK(status.ok(), "{}", Message(status)); }
void Expect(cudaError_t error) { Expect(kernels::CudaStatus(error, "CUDA")); }

struct Rank {
  kernels::CudaStream stream;
  kernels::DeviceBuffer columns;
  kernels::DeviceBuffer output;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  cudaGraphExec_t graph = nullptr;
};

class Benchmark {
 public:
  explicit Benchmark(const std::vector<int>& devices)
      : devices_(devices), team_(static_cast<int>(devices.size())), ranks_(devices.size()) {
    team_.Run([&](int rank) { Open(rank); }, kPatience);
  }

  // `max_push_bytes`: 0: everything is put.
  void Measure(int64_t num_bytes, int64_t max_push_bytes) {
    auto group = worker::DeviceGroup::Create(
        {.devices = devices_, .max_push_bytes = max_push_bytes, .hung_after = kPatience});
    Expect(group.status());
    Expect(cudaSetDevice(devices_.front()));
    team_.Run([&](int rank) { Capture(**group, rank, num_bytes); }, kPatience);
    std::vector<float> microseconds;
    for (int replay = 0; replay < kReplays; ++replay) {
      team_.Run([&](int rank) { Replay(ranks_[static_cast<size_t>(rank)]); }, kPatience);
      float milliseconds = 0;
      Expect(cudaEventElapsedTime(&milliseconds, ranks_[0].begin, ranks_[0].end));
      microseconds.push_back(1000 * milliseconds / kCallsPerGraph);
    }
    std::nth_element(microseconds.begin(), microseconds.begin() + kReplays / 2, microseconds.end());
    fmt::print("{{\"ranks\": {}, \"gathered_bytes\": {}, \"way\": \"{}\", \"us\": {:.2f}}}\n",
               devices_.size(), num_bytes * static_cast<int64_t>(devices_.size()),
               num_bytes <= max_push_bytes ? "push" : "put", microseconds[kReplays / 2]);
    for (Rank& rank : ranks_) Expect(cudaGraphExecDestroy(rank.graph));
  }

 private:
  void Open(int index) {
    Rank& rank = ranks_[static_cast<size_t>(index)];
    Expect(cudaSetDevice(devices_[static_cast<size_t>(index)]));
    const auto device = kernels::DescribeCudaDevice(devices_[static_cast<size_t>(index)]);
    Expect(device.status());
    rank.stream.num_multiprocessors = device->num_multiprocessors;
    Expect(cudaStreamCreateWithFlags(&rank.stream.handle, cudaStreamNonBlocking));
    rank.stream.overlap_launches = true;
    rank.columns = Allocate(kMostBytes);
    rank.output = Allocate(kMostBytes * static_cast<int64_t>(devices_.size()));
    Expect(cudaEventCreate(&rank.begin));
    Expect(cudaEventCreate(&rank.end));
  }
  static kernels::DeviceBuffer Allocate(int64_t num_bytes) {
    auto buffer = kernels::DeviceBuffer::Create(static_cast<size_t>(num_bytes));
    Expect(buffer.status());
    return *std::move(buffer);
  }

  void Capture(worker::DeviceGroup& group, int index, int64_t num_bytes) {
    Rank& rank = ranks_[static_cast<size_t>(index)];
    Expect(cudaStreamBeginCapture(rank.stream.handle, cudaStreamCaptureModeThreadLocal));
    for (int call = 0; call < kCallsPerGraph; ++call) {
      Expect(group.AllGather(index, rank.stream,
                             {.columns = rank.columns.data(),
                              .output = rank.output.data(),
                              .num_rows = 1,
                              .row_bytes = num_bytes}));
    }
    cudaGraph_t graph = nullptr;
    Expect(cudaStreamEndCapture(rank.stream.handle, &graph));
    Expect(cudaGraphInstantiate(&rank.graph, graph, 0));
    Expect(cudaGraphDestroy(graph));
    Expect(cudaGraphUpload(rank.graph, rank.stream.handle));
    Expect(cudaStreamSynchronize(rank.stream.handle));
  }
  // The first calls of a graph wait for ranks that were launched late. The second graph finds all
  // ranks together.
  static void Replay(const Rank& rank) {
    Expect(cudaGraphLaunch(rank.graph, rank.stream.handle));
    Expect(cudaEventRecord(rank.begin, rank.stream.handle));
    Expect(cudaGraphLaunch(rank.graph, rank.stream.handle));
    Expect(cudaEventRecord(rank.end, rank.stream.handle));
    Expect(cudaStreamSynchronize(rank.stream.handle));
  }

  const std::vector<int> devices_;
  worker::RankTeam team_;
  std::vector<Rank> ranks_;
};

void Run() {
  std::vector<int> devices;
  for (const std::string& entry : absl::GetFlag(FLAGS_cuda_device)) {
    int& device = devices.emplace_back();
    LOCKSTEP_CHECK(absl::SimpleAtoi(entry, &device), "--cuda_device: {}", entry);
  }
  Benchmark benchmark(devices);
  for (int64_t num_bytes = 512; num_bytes <= kMostBytes; num_bytes *= 4) {
    if (num_bytes <= kMostPushedBytes) benchmark.Measure(num_bytes, kMostPushedBytes);
    benchmark.Measure(num_bytes, 0);
  }
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  // Ranks on one device wait for each other there: each stream needs a queue of its own, and no
  // launch may load a kernel. CUDA reads both at its first call.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  absl::ParseCommandLine(argc, argv);
  lockstep::bench::Run();
}
