#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "kernels/device/cuda_stream.h"

namespace lockstep::kernels {

inline void Expect(cudaError_t error) {
  LOCKSTEP_CHECK(error == cudaSuccess, "CUDA: {}", cudaGetErrorString(error));
}
inline void Expect(const absl::Status& status) {
  LOCKSTEP_CHECK(status.ok(), "{}", Message(status));
}
template <typename T>
T Expect(absl::StatusOr<T> result) {
  LOCKSTEP_CHECK(result.ok(), "{}", Message(result.status()));
  return *std::move(result);
}

// Microseconds that one of `count` calls takes: enqueue(0) .. enqueue(count - 1) become a CUDA
// graph, and the median of its replays is taken.
template <typename Enqueue>
double TimeInGraph(const CudaStream& stream, int count, const Enqueue& enqueue) {
  constexpr int kWarmUps = 3;
  constexpr int kReplays = 7;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  Expect(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < count; ++i) Expect(enqueue(i));
  Expect(cudaStreamEndCapture(stream.handle, &graph));
  Expect(cudaGraphInstantiate(&executable, graph, 0));
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  Expect(cudaEventCreate(&start));
  Expect(cudaEventCreate(&end));
  std::vector<double> times_us;
  for (int replay = 0; replay < kWarmUps + kReplays; ++replay) {
    Expect(cudaEventRecord(start, stream.handle));
    Expect(cudaGraphLaunch(executable, stream.handle));
    Expect(cudaEventRecord(end, stream.handle));
    Expect(cudaEventSynchronize(end));
    float elapsed_ms = 0.0f;
    Expect(cudaEventElapsedTime(&elapsed_ms, start, end));
    if (replay >= kWarmUps) times_us.push_back(1e3 * static_cast<double>(elapsed_ms) / count);
  }
  Expect(cudaEventDestroy(start));
  Expect(cudaEventDestroy(end));
  Expect(cudaGraphExecDestroy(executable));
  Expect(cudaGraphDestroy(graph));
  std::nth_element(times_us.begin(), times_us.begin() + kReplays / 2, times_us.end());
  return times_us[kReplays / 2];
}

}  // namespace lockstep::kernels
