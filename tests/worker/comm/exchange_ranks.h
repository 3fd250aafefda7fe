#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device/cuda_device.h"
#include "kernels/device/cuda_status.h"
#include "kernels/exchange/exchange_memory.h"
#include "tests/support/cuda_test.h"
#include "tests/support/rank_devices.h"
#include "tests/worker/comm/exchange_rounds.h"
#include "worker/comm/device_group.h"
#include "worker/comm/rank_team.h"

// Ranks on GPUs, for tests of what they exchange. If there are fewer GPUs than ranks, all ranks
// share the first one.
namespace lockstep::worker {

using kernels::ExchangeFaults;
using kernels::ExchangeMemory;
using testing::DeviceArray;

inline constexpr std::chrono::seconds kLong{60};
inline constexpr int64_t kMaxPushBytes = 128 << 10;

struct Shape {
  int64_t num_rows;
  int64_t row_words;  // of one rank's columns
};
inline constexpr int64_t kMostWords = 640 * 2048;

inline void Expect(const absl::Status& status) {
  LOCKSTEP_CHECK(status.ok(), "{}", Message(status));
}
inline void Expect(cudaError_t error) { Expect(kernels::CudaStatus(error, "CUDA")); }

// A rank's memory and stream, on its device.
class Rank {
 public:
  Rank(DeviceGroup& group, int rank, int device)
      : group_(group), rank_(rank), device_(device), is_current_(MakeCurrent()) {
    round_.Write(std::array<uint32_t, 1>{0});
    num_wrong_.Write(std::array<uint64_t, 1>{0});
    const auto description = kernels::DescribeCudaDevice(device);
    Expect(description.status());
    stream_.num_multiprocessors = description->num_multiprocessors;
    Expect(cudaStreamCreateWithFlags(&stream_.handle, cudaStreamNonBlocking));
    stream_.overlap_launches = true;
  }
  ~Rank() {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
    cudaStreamDestroy(stream_.handle);
  }

  bool MakeCurrent() const {
    Expect(cudaSetDevice(device_));
    return true;
  }
  // Every shape once. Null: through the group, as a model does.
  void Enqueue(std::span<const Shape> shapes, const ExchangeFaults* faults) {
    for (const auto& [num_rows, row_words] : shapes) {
      const testing::ExchangeRound round = {.round = round_.data(),
                                            .columns = columns_.data(),
                                            .output = output_.data(),
                                            .num_rows = num_rows,
                                            .row_words = row_words,
                                            .rank = rank_,
                                            .degree = group_.degree(),
                                            .num_wrong = num_wrong_.data()};
      Check(testing::FillColumns(stream_, round));
      const DeviceColumns params = {.columns = columns_.data(),
                                    .output = output_.data(),
                                    .num_rows = num_rows,
                                    .row_bytes = row_words * 4};
      if (faults == nullptr) {
        Check(group_.AllGather(rank_, stream_, params));
      } else {
        Check(kernels::ExchangeWithFaults(stream_,
                                          {.group = group_.View(rank_),
                                           .columns = params.columns,
                                           .output = params.output,
                                           .num_rows = params.num_rows,
                                           .row_bytes = params.row_bytes},
                                          *faults));
      }
      Check(testing::CheckOutput(stream_, round));
    }
  }
  void Capture(std::span<const Shape> shapes, const ExchangeFaults* faults) {
    Expect(cudaStreamBeginCapture(stream_.handle, cudaStreamCaptureModeThreadLocal));
    Enqueue(shapes, faults);
    cudaGraph_t graph = nullptr;
    Expect(cudaStreamEndCapture(stream_.handle, &graph));
    Expect(cudaGraphInstantiate(&graph_, graph, 0));
    Expect(cudaGraphDestroy(graph));
    Expect(cudaGraphUpload(graph_, stream_.handle));
  }
  void Replay() { Expect(cudaGraphLaunch(graph_, stream_.handle)); }

  // Fills the memory of exchanges with pushed words of `stale_tag`, and with posts and arrivals of
  // calls that put, one tag for each half, as if `last_tag` were the latest call.
  void Plant(uint32_t stale_tag, const std::array<uint32_t, 2>& put_tags, uint32_t last_tag) {
    const auto num_words = static_cast<size_t>(group_.memory_bytes()) / sizeof(uint64_t);
    std::vector<uint64_t> words(num_words, uint64_t{stale_tag} << 32 | 0xBADBAD);
    std::fill_n(words.begin(), ExchangeMemory::kHeaderBytes / sizeof(uint64_t), 0);
    words[0] = last_tag;
    const ExchangeMemory memory(group_.degree(), kMaxPushBytes);
    for (const uint32_t half : {0u, 1u}) {
      std::fill_n(words.begin() + memory.Half(half) / static_cast<int64_t>(sizeof(uint64_t)),
                  (ExchangeMemory::kPostsBytes + ExchangeMemory::kArrivalsBytes) / sizeof(uint64_t),
                  put_tags[half]);
    }
    Expect(cudaMemcpy(header(), words.data(), words.size() * sizeof(uint64_t),
                      cudaMemcpyHostToDevice));
    Expect(cudaDeviceSynchronize());
  }
  uint32_t last_tag() {
    uint32_t tag = 0;
    Expect(cudaMemcpy(&tag, header(), sizeof(tag), cudaMemcpyDeviceToHost));
    return tag;
  }
  // Of what the peer pushes in the call with this tag.
  uint64_t* FirstWordFrom(int peer, uint32_t tag) const {
    const ExchangeMemory memory(group_.degree(), kMaxPushBytes);
    return reinterpret_cast<uint64_t*>(static_cast<std::byte*>(header()) +
                                       memory.Words(tag % 2, peer));
  }
  cudaError_t Synchronize() { return cudaStreamSynchronize(stream_.handle); }
  // As a worker does after an error of its device.
  void CheckDevice() { Check(kernels::CudaStatus(Synchronize(), "a rank")); }
  uint32_t num_rounds() const { return round_.Read().front(); }
  uint64_t num_wrong() const { return num_wrong_.Read().front(); }
  void ExpectGuardsIntact() const { output_.ExpectGuardsIntact(); }
  const kernels::CudaStream& stream() const { return stream_; }

 private:
  void Check(const absl::Status& status) const {
    LOCKSTEP_CHECK(status.ok(), "{}: {}", Message(status), group_.HangReport());
  }
  void* header() const { return group_.View(rank_).memories[rank_]; }

  DeviceGroup& group_;
  const int rank_;
  const int device_;
  const bool is_current_;  // the members below lie on the device
  DeviceArray<uint32_t> columns_{kMostWords};
  DeviceArray<uint32_t> output_{kMostWords * kernels::kMaxExchangeRanks};
  DeviceArray<uint32_t> round_{1};
  DeviceArray<uint64_t> num_wrong_{1};
  kernels::CudaStream stream_;
  cudaGraphExec_t graph_ = nullptr;
};

// A group whose ranks run, each on its thread.
struct Ranks {
  explicit Ranks(int degree, std::chrono::nanoseconds hung_after = std::chrono::seconds(3))
      : team(degree) {
    const std::vector<int> devices = testing::RankDevices(degree);
    auto created = DeviceGroup::Create(
        {.devices = devices, .max_push_bytes = kMaxPushBytes, .hung_after = hung_after});
    LOCKSTEP_CHECK(created.ok(), "{}", Message(created.status()));
    group = *std::move(created);
    for (int rank = 0; rank < degree; ++rank) {
      ranks.push_back(std::make_unique<Rank>(*group, rank, devices[static_cast<size_t>(rank)]));
    }
    Run([](Rank& rank) { rank.MakeCurrent(); });
  }
  template <typename Body>
  void Run(Body body) {
    team.Run([&](int rank) { body(*ranks[static_cast<size_t>(rank)]); }, kLong);
  }
  void ExpectAllRight(uint64_t num_rounds) {
    for (const std::unique_ptr<Rank>& rank : ranks) {
      rank->MakeCurrent();
      ASSERT_EQ(rank->Synchronize(), cudaSuccess) << group->HangReport();
      EXPECT_EQ(rank->num_rounds(), num_rounds);
      EXPECT_EQ(rank->num_wrong(), 0u);
      rank->ExpectGuardsIntact();
    }
  }

  RankTeam team;
  std::unique_ptr<DeviceGroup> group;
  std::vector<std::unique_ptr<Rank>> ranks;
};

}  // namespace lockstep::worker
