#include "kernels/gemm/plan/gemm_trial.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "common/status.h"
#include "kernels/device/cuda_status.h"
#include "kernels/gemm/tile/gemm_launch.h"

namespace lockstep::kernels {
namespace {

constexpr size_t kTimedRuns = 5;
constexpr int64_t kSmallRows = 132;
constexpr int64_t kSmallElements = kSmallRows * 1024;
// Four times what the second-level cache of an H200 holds.
constexpr int64_t kWeightBytes = int64_t{240} << 20;

struct Event {
  Event() { cudaEventCreate(&handle); }
  ~Event() { cudaEventDestroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t handle = nullptr;
};

// What `enqueue` enqueues, as a graph that runs once it has been uploaded.
class Graph {
 public:
  Graph() = default;
  ~Graph() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  template <typename Enqueue>
  absl::Status Capture(const CudaStream& stream, const Enqueue& enqueue) {
    LOCKSTEP_RETURN_IF_CUDA_ERROR(
        cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal));
    const absl::Status status = enqueue();
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaStreamEndCapture(stream.handle, &graph_));
    LOCKSTEP_RETURN_IF_ERROR(status);
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaGraphInstantiate(&executable_, graph_, 0));
    return absl::OkStatus();
  }
  absl::Status Launch(const CudaStream& stream) const {
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaGraphLaunch(executable_, stream.handle));
    return absl::OkStatus();
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

// Products in one graph. Short products need more of them, so that the time between graphs does not
// count.
int TimedProducts(int64_t num_rows) { return num_rows <= 512 ? 8 : num_rows <= 2048 ? 4 : 2; }

}  // namespace

absl::StatusOr<GemmTrial> GemmTrial::Create(const CudaStream& stream, const GemmShape& shape) {
  GemmTrial trial;
  trial.shape_ = shape;
  const int64_t weight_elements = shape.n * shape.k;
  const int64_t input_elements = shape.max_rows * shape.k;
  const std::string what = fmt::format("self-check of a product of {} x {} with up to {} rows",
                                       shape.n, shape.k, shape.max_rows);
  const auto allocate = [&what](int64_t num_bytes) {
    return DeviceBuffer::Create(static_cast<size_t>(num_bytes), what);
  };
  constexpr int64_t kElementBytes = sizeof(BFloat16);
  trial.num_copies_ = 1 + kWeightBytes / (weight_elements * kElementBytes);
  const int64_t all_weights = trial.num_copies_ * weight_elements;
  LOCKSTEP_ASSIGN_OR_RETURN(trial.weights_, allocate(all_weights * kElementBytes));
  LOCKSTEP_ASSIGN_OR_RETURN(trial.input_, allocate(input_elements * kElementBytes));
  LOCKSTEP_ASSIGN_OR_RETURN(trial.bias_, allocate(shape.n * int64_t{sizeof(float)}));
  LOCKSTEP_ASSIGN_OR_RETURN(trial.expected_, allocate(trial.OutputBytes(shape.max_rows)));
  LOCKSTEP_ASSIGN_OR_RETURN(trial.output_, allocate(trial.OutputBytes(shape.max_rows)));
  LOCKSTEP_ASSIGN_OR_RETURN(trial.small_, allocate(3 * kSmallElements * kElementBytes));
  LOCKSTEP_RETURN_IF_ERROR(
      FillWithOutliers(stream, trial.small_.data<BFloat16>(), 3 * kSmallElements, 4));
  LOCKSTEP_ASSIGN_OR_RETURN(trial.difference_, allocate(sizeof(uint64_t)));
  LOCKSTEP_RETURN_IF_ERROR(
      FillWithOutliers(stream, trial.weights_.data<BFloat16>(), all_weights, 1));
  LOCKSTEP_RETURN_IF_ERROR(
      FillWithOutliers(stream, trial.input_.data<BFloat16>(), input_elements, 2));
  LOCKSTEP_RETURN_IF_ERROR(FillWithOutliers(stream, trial.bias_.data<float>(), shape.n, 3));
  GemmParams reference = trial.Params(shape.max_rows, 0);
  if (shape.f32_output) {
    reference.output_f32 = trial.expected_.data<float>();
  } else {
    reference.output = trial.expected_.data<BFloat16>();
  }
  if (shape.gated) {
    LOCKSTEP_ASSIGN_OR_RETURN(trial.product_, allocate(shape.max_rows * shape.n * kElementBytes));
    const GemmParams product = trial.ProductParams(reference);
    LOCKSTEP_RETURN_IF_ERROR(LaunchReferenceGemm(stream, product));
    LOCKSTEP_RETURN_IF_ERROR(SwiGlu(stream, SwiGluOf(product, reference)));
  } else {
    LOCKSTEP_RETURN_IF_ERROR(LaunchReferenceGemm(stream, reference));
  }
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream.handle));
  return trial;
}

int64_t GemmTrial::OutputBytes(int64_t num_rows) const {
  return num_rows * num_columns() *
         static_cast<int64_t>(shape_.f32_output ? sizeof(float) : sizeof(BFloat16));
}

GemmParams GemmTrial::Params(int64_t num_rows, int64_t copy) const {
  const BFloat16* const weights =
      weights_.data<BFloat16>() + copy % num_copies_ * shape_.n * shape_.k;
  return {.input = input_.data<BFloat16>(),
          .input_stride = shape_.k,
          .weights = {.data = weights, .n = shape_.n, .k = shape_.k},
          .bias = shape_.has_bias ? bias_.data<float>() : nullptr,
          .output = shape_.f32_output ? nullptr : output_.data<BFloat16>(),
          .output_f32 = shape_.f32_output ? output_.data<float>() : nullptr,
          .output_stride = num_columns(),
          .num_rows = num_rows};
}

GemmParams GemmTrial::ProductParams(const GemmParams& params) const {
  GemmParams product = params;
  product.output = product_.data<BFloat16>();
  product.output_stride = shape_.n;
  return product;
}

SwiGluParams GemmTrial::SwiGluOf(const GemmParams& product, const GemmParams& params) {
  return {.gate_up = product.output,
          .output = params.output,
          .num_rows = params.num_rows,
          .size = params.output_stride};
}

absl::StatusOr<std::optional<GemmTrial::Difference>> GemmTrial::FindDifference(
    const CudaStream& stream, const Implementation& implementation, int64_t num_rows) const {
  constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  const size_t num_bytes = static_cast<size_t>(OutputBytes(num_rows));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(output_.data(), 0xFF, num_bytes, stream.handle));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(difference_.data(), 0xFF, sizeof(uint64_t), stream.handle));
  LOCKSTEP_RETURN_IF_ERROR(implementation(stream, Params(num_rows, 0)));
  const int64_t element_bytes = shape_.f32_output ? sizeof(float) : sizeof(BFloat16);
  LOCKSTEP_RETURN_IF_ERROR(FindFirstDifference(stream,
                                               {.expected = expected_.data(),
                                                .actual = output_.data(),
                                                .num_elements = num_rows * num_columns(),
                                                .element_bytes = element_bytes},
                                               difference_.data<unsigned long long>()));
  uint64_t at = kNone;
  LOCKSTEP_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(&at, difference_.data(), sizeof(at), cudaMemcpyDeviceToHost, stream.handle));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream.handle));
  if (at == kNone) return std::nullopt;
  const int64_t index = static_cast<int64_t>(at);
  return Difference{.row = index / num_columns(), .column = index % num_columns()};
}

absl::Status GemmTrial::EnqueueProducts(const CudaStream& stream,
                                        const Implementation& implementation,
                                        int64_t num_rows) const {
  BFloat16* const small = small_.data<BFloat16>();
  for (int i = 0; i < TimedProducts(num_rows); ++i) {
    LOCKSTEP_RETURN_IF_ERROR(SwiGlu(stream, {.gate_up = small,
                                             .output = small + 2 * kSmallElements,
                                             .num_rows = kSmallRows,
                                             .size = kSmallElements / kSmallRows}));
    LOCKSTEP_RETURN_IF_ERROR(implementation(stream, Params(num_rows, i)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> GemmTrial::Milliseconds(
    const CudaStream& stream, std::span<const Implementation> implementations,
    int64_t num_rows) const {
  std::vector<Graph> graphs(implementations.size());
  for (size_t i = 0; i < graphs.size(); ++i) {
    LOCKSTEP_RETURN_IF_ERROR(graphs[i].Capture(
        stream, [&] { return EnqueueProducts(stream, implementations[i], num_rows); }));
  }
  std::vector<std::array<Event, kTimedRuns + 1>> events(graphs.size());
  Event end;
  for (size_t run = 0; run <= kTimedRuns; ++run) {
    for (size_t i = 0; i < graphs.size(); ++i) {
      LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaEventRecord(events[i][run].handle, stream.handle));
      LOCKSTEP_RETURN_IF_ERROR(graphs[i].Launch(stream));
    }
  }
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaEventRecord(end.handle, stream.handle));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaEventSynchronize(end.handle));
  std::vector<float> medians;
  for (size_t i = 0; i < graphs.size(); ++i) {
    std::array<float, kTimedRuns> times = {};
    // The first run warms up.
    for (size_t run = 1; run <= kTimedRuns; ++run) {
      const bool is_last = i + 1 == graphs.size();
      const Event& behind = !is_last           ? events[i + 1][run]
                            : run < kTimedRuns ? events[0][run + 1]
                                               : end;
      LOCKSTEP_RETURN_IF_CUDA_ERROR(
          cudaEventElapsedTime(&times[run - 1], events[i][run].handle, behind.handle));
    }
    std::nth_element(times.begin(), times.begin() + kTimedRuns / 2, times.end());
    medians.push_back(times[kTimedRuns / 2] / static_cast<float>(TimedProducts(num_rows)));
  }
  return medians;
}

}  // namespace lockstep::kernels
